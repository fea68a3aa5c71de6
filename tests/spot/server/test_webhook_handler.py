"""One question after the other, without HTTP: what is answered when, and what is remembered."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from situate.spot.admission.admit import UNREADABLE, AdmissionView, LiveRead, NeedsRead
from situate.spot.admission.ledger import Ledger
from situate.spot.config.settings import SpotSettings
from situate.spot.model.pods_nodes_workloads import CLASS, DECISION, Capacity, Owner, PodFacts, PodKey
from situate.spot.server.metrics import AdmissionMetrics
from situate.spot.server.webhook_handler import AdmissionHandler
from situate.spot.workloads.cluster_objects import Cluster, WorkloadMemory
from situate.spot.workloads.on_demand_target import Namespace
from situate.spot.workloads.owners import Controller, ReplicaSetFacts

DEPLOYMENT = Controller("apps/v1", "Deployment", "web", "d-1")
REPLICA_SET = ReplicaSetFacts("r-1", DEPLOYMENT, "shop", "web-1", replicas=50, revision="h1")
OWNER = Owner("Deployment", "shop", "web", "d-1", replicas=50, annotations={"spot.situate.dev/on-demand": "3"})


class Rig:
    """An `AdmissionHandler` over a view that the test changes."""

    def __init__(self) -> None:
        self.cluster = Cluster(
            owners={"d-1": OWNER}, replica_sets={"r-1": REPLICA_SET}, namespaces={"shop": Namespace("shop")}
        )
        self.leads = True
        self.live: LiveRead | None = None
        """None: every pod that was answered has come, and the watch shows none of them."""
        self.reads: list[NeedsRead] = []
        self.answered: list[PodFacts] = []
        clock = asyncio.get_running_loop().time
        self.registry = CollectorRegistry()
        tokens = itertools.count()
        self.answering = AdmissionHandler(
            self.view,
            self.read,
            may_answer=self.may_answer,
            clock=clock,
            token=lambda: f"t{next(tokens)}",
            ledger=Ledger.empty(),
            metrics=AdmissionMetrics(self.registry, stopwatch=clock),
        )

    def may_answer(self) -> bool:
        return self.leads

    def view(self, live: LiveRead | None) -> AdmissionView:
        return AdmissionView(
            self.cluster, SpotSettings().admission_settings(namespace="situate"), dict[str, WorkloadMemory](), live
        )

    async def read(self, needed: NeedsRead) -> LiveRead:
        self.reads.append(needed)
        return self.live or LiveRead(OWNER, REPLICA_SET, tuple(self.answered))

    async def ask(self, **request: Any) -> Any:
        """The response, or the status of a refusal."""
        reply = await self.answering.answer(json.dumps(review(**request)).encode())
        if reply.status != 200:
            return reply.status
        response = json.loads(reply.body)["response"]
        if class_in(response):
            self.answered.append(pod_of(response))
        return response

    async def class_of(self, **request: Any) -> str:
        return class_in(await self.ask(**request))

    def counted(self, outcome: str) -> float | None:
        return self.registry.get_sample_value("situate_spot_admission_seconds_count", {"outcome": outcome})


def pod(**metadata: Any) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "r-1", "controller": True}
    labels = {"app": "web", "pod-template-hash": "h1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "web-1-", "labels": labels, "ownerReferences": [reference], **metadata},
        "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
    }


def review(**request: Any) -> dict[str, Any]:
    asked = {
        "uid": "u",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "shop",
        "object": pod(),
        **request,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


def written(response: Any, key: str) -> str:
    """The label or annotation that the response adds; empty if it does not."""
    found = json.loads(base64.b64decode(response.get("patch", "W10=")))
    values = {operation["path"].rpartition("/")[2].replace("~1", "/"): operation["value"] for operation in found}
    return str({**values, **values.get("annotations", {}), **values.get("labels", {})}.get(key, ""))


def class_in(response: Any) -> str:
    return written(response, CLASS)


def pod_of(response: Any) -> PodFacts:
    token = json.loads(written(response, DECISION))["token"]
    key = PodKey("shop", f"web-1-{token}")
    return PodFacts(key, token, controller="r-1", revision="h1", pod_class=Capacity(class_in(response)), token=token)


@pytest.mark.rule("spot:P17", "spot:D1", "spot:K2")
@pytest.mark.looptime
async def test_a_burst_that_no_watch_has_seen_gets_exactly_the_target() -> None:
    rig = Rig()
    classes = await asyncio.gather(*(rig.class_of() for _ in range(20)))
    assert classes == ["on-demand"] * 3 + ["spot"] * 17
    assert rig.counted("on-demand") == 3
    assert rig.counted("spot") == 17
    began = asyncio.get_running_loop().time()
    rig.cluster = replace(rig.cluster, pods={"d-1": tuple(rig.answered)})
    assert await rig.class_of() == "spot"
    assert asyncio.get_running_loop().time() == began, "what is seen needs no read"


@pytest.mark.rule("spot:P19")
@pytest.mark.looptime
async def test_a_dry_run_gets_the_same_answer_and_leaves_nothing() -> None:
    rig = Rig()
    for _ in range(5):
        assert await rig.class_of(dryRun=True) == "on-demand"
    assert rig.answering.ledger == Ledger.empty()


@pytest.mark.rule("spot:P18", "spot:B3")
@pytest.mark.looptime
async def test_a_pod_that_is_asked_about_again_keeps_its_class_and_counts_once() -> None:
    rig = Rig()
    decision = written(await rig.ask(), DECISION)
    labels = {**pod()["metadata"]["labels"], CLASS: "on-demand"}
    again = pod(labels=labels, annotations={DECISION: decision})
    for _ in range(4):
        reply = await rig.answering.answer(json.dumps(review(object=again)).encode())
        assert json.loads(reply.body)["response"]["allowed"]
    assert [await rig.class_of() for _ in range(4)] == ["on-demand", "on-demand", "spot", "spot"]


@pytest.mark.rule("spot:P1", "spot:I11")
@pytest.mark.looptime
async def test_who_does_not_lead_refuses_without_retry_after() -> None:
    rig = Rig()
    rig.leads = False
    assert await rig.ask() == 503
    assert rig.answering.ledger == Ledger.empty()
    assert rig.counted("not-leading") == 1


@pytest.mark.rule("spot:P1", "spot:I11")
@pytest.mark.looptime
async def test_leadership_that_ends_during_an_answer_ends_the_answer() -> None:
    rig = Rig()
    rig.cluster = Cluster()

    async def losing(_: NeedsRead) -> LiveRead:
        rig.leads = False
        return LiveRead(OWNER, REPLICA_SET, ())

    rig.answering._read = losing
    assert await rig.ask() == 503


@pytest.mark.rule("spot:P20", "spot:P5")
@pytest.mark.looptime
async def test_what_the_watch_does_not_know_is_read_and_without_an_answer_it_is_on_demand() -> None:
    rig = Rig()
    rig.live = UNREADABLE
    rig.cluster = replace(rig.cluster, replica_sets={"r-1": replace(REPLICA_SET, replicas=0)})
    assert await rig.class_of() == "on-demand"
    assert [each.controller.uid for each in rig.reads] == ["r-1"]
    rig.live = LiveRead(OWNER, REPLICA_SET, tuple(on_demand(number) for number in range(3)))
    assert await rig.class_of() == "spot"


@pytest.mark.looptime
async def test_what_cannot_be_found_at_all_is_admitted_as_it_is() -> None:
    rig = Rig()
    rig.cluster = Cluster()
    rig.live = LiveRead()
    assert await rig.ask() == {"uid": "u", "allowed": True}


@pytest.mark.rule("spot:I8")
@pytest.mark.looptime
async def test_pods_of_nobody_leave_admission_as_they_came() -> None:
    rig = Rig()
    assert await rig.ask(object=pod(ownerReferences=[])) == {"uid": "u", "allowed": True}
    assert await rig.ask(namespace="kube-system") == {"uid": "u", "allowed": True}
    assert await rig.ask(namespace="situate") == {"uid": "u", "allowed": True}


@pytest.mark.rule("spot:P2")
@pytest.mark.looptime
async def test_a_defect_of_ours_costs_a_pod_its_class_and_nobody_its_pod() -> None:
    rig = Rig()

    def broken(_: LiveRead | None) -> AdmissionView:
        raise RuntimeError("a defect")

    rig.answering._view = broken
    assert await rig.ask() == {"uid": "u", "allowed": True}
    assert rig.counted("failed") == 1


@pytest.mark.looptime
async def test_an_object_without_end_is_the_server_s_to_refuse() -> None:
    rig = Rig()
    deep: Any = {}
    for _ in range(800):
        deep = {"a": deep}
    body = json.dumps(review(object={**pod(), "spec": {"deep": "HERE"}}))
    text = "{" + '"a":{' * 800 + "}" * 800 + "}"
    reply = await rig.answering.answer(body.replace('"HERE"', text).encode())
    assert reply.status == 200
    assert json.loads(reply.body)["response"]["allowed"]


@pytest.mark.looptime
async def test_what_is_no_review_is_told_so() -> None:
    reply = await Rig().answering.answer(b"hello")
    assert reply.status == 400
    assert b"AdmissionReview" in reply.body


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
metadata_keys = st.sampled_from(["name", "labels", "annotations", "ownerReferences", "namespace", "generateName"])
spec_keys = st.sampled_from(["affinity", "nodeSelector", "tolerations", "nodeName", "schedulingGates", "containers"])
affinities = st.fixed_dictionaries(
    {
        "nodeAffinity": st.fixed_dictionaries(
            {},
            optional={
                "requiredDuringSchedulingIgnoredDuringExecution": json_values
                | st.fixed_dictionaries({"nodeSelectorTerms": json_values}),
                "preferredDuringSchedulingIgnoredDuringExecution": json_values,
            },
        )
    }
)


@pytest.mark.rule("spot:P2", "spot:P26")
@given(st.dictionaries(metadata_keys, json_values), st.dictionaries(spec_keys, json_values | affinities))
@pytest.mark.looptime
async def test_a_pod_of_any_shape_is_answered(metadata: dict[str, Any], spec: dict[str, Any]) -> None:
    rig = Rig()
    strange = pod(**metadata)
    strange["spec"] = {**strange["spec"], **spec}
    response = await rig.ask(object=strange)
    assert (response["uid"], response["allowed"]) == ("u", True)
    assert not rig.counted("failed"), "what is strange is passed, not stumbled over"


def on_demand(number: int) -> PodFacts:
    key = PodKey("shop", f"web-1-{number}")
    return PodFacts(key, f"p-{number}", controller="r-1", revision="h1", pod_class=Capacity.ON_DEMAND)
