"""Workloads and pods as values, and whose a pod is (B42, P14, B9)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from situate.objects.decoding.codec import decode
from situate.objects.kinds.pods import Pod
from situate.objects.values.quantity import decode_quantity
from situate.spot.controller.observe.trimmed_objects import WORKLOADS, to_plain_json
from situate.spot.model.pods_nodes_workloads import Capacity, Owner
from situate.spot.nodes.known_signals import SIGNALS
from situate.spot.workloads.cluster_objects import Cluster
from situate.spot.workloads.owners import (
    KINDS,
    Controller,
    ReplicaSetFacts,
    controller_of,
    is_intermediate_controller,
    kind_of,
    owner_facts,
    pod_facts,
    replica_set_facts,
)


def read(kind: str, owned: tuple[ReplicaSetFacts, ...] = (), **parts: Any) -> Owner:
    metadata = {"name": "web", "namespace": "shop", "uid": "u", **parts.pop("metadata", {})}
    return owner_facts({"metadata": metadata, **parts}, KINDS[kind], SIGNALS, owned)


def replica_set(name: str, number: int, replicas: int = 1) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": True}
    return {
        "metadata": {
            "name": name, "namespace": "shop", "uid": f"uid-{name}", "labels": {"pod-template-hash": name},
            "annotations": {"deployment.kubernetes.io/revision": str(number)}, "ownerReferences": [reference],
        },
        "spec": {"replicas": replicas},
    }  # fmt: skip


@pytest.mark.rule("spot:B42", "spot:S2")
def test_a_deployment() -> None:
    owned = tuple(replica_set_facts(replica_set(f"r{n}", n)) for n in (9, 10, 2))
    found = read(
        "Deployment", owned,
        metadata={"generation": 4, "annotations": {"spot.situate.dev/on-demand": "2", "other": "x"}},
        spec={"replicas": 7, "paused": True, "minReadySeconds": 9,
              "template": {"metadata": {"labels": {"a": "b"}},
                           "spec": {"nodeSelector": {"node.kubernetes.io/capacity": "spot"}}}},
        status={"observedGeneration": 3, "replicas": 8, "updatedReplicas": 5},
    )  # fmt: skip
    assert (found.replicas, found.revision, found.paused, found.min_ready_s) == (7, "r10", True, 9)
    assert (found.observed, found.rolling, found.stateful, found.releasable) == (False, True, False, True)
    assert found.annotations == {"spot.situate.dev/on-demand": "2"}, "only what anything reads"
    assert (found.pinned, found.conflict) == (Capacity.SPOT, "spec.nodeSelector")
    assert found.template_labels == {"a": "b"}
    empty = read("Deployment")
    assert (empty.replicas, empty.revision, empty.rolling, empty.observed) == (1, "", False, True)


@pytest.mark.rule("spot:B40", "spot:B42")
@pytest.mark.parametrize(
    ("strategy", "status", "rolling"),
    [
        ({}, {"currentRevision": "a", "updateRevision": "a"}, False),
        ({}, {"currentRevision": "a", "updateRevision": "b", "updatedReplicas": 1}, True),
        (
            {"rollingUpdate": {"partition": 4}},
            {"currentRevision": "a", "updateRevision": "b", "updatedReplicas": 1},
            False,
        ),
        (
            {"rollingUpdate": {"partition": 3}},
            {"currentRevision": "a", "updateRevision": "b", "updatedReplicas": 1},
            True,
        ),
        ({"type": "OnDelete"}, {"currentRevision": "a", "updateRevision": "b"}, False),
    ],
)
def test_a_statefulset(strategy: dict[str, Any], status: dict[str, Any], rolling: bool) -> None:
    found = read(
        "StatefulSet", spec={"replicas": 5, "ordinals": {"start": 3}, "updateStrategy": strategy}, status=status
    )
    assert (found.rolling, found.stateful, found.releasable) == (rolling, True, False)
    assert [found.ordinal(name) for name in ("web-3", "web-7", "web-03", "web-x", "api-3", "web-99999999999")] == [
        0, 4, None, None, None, None,
    ]  # fmt: skip


@pytest.mark.rule("spot:B25", "spot:D16")
@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        ({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}, {"node.kubernetes.io/not-ready"}),
        ({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, set()),
        ({"operator": "Exists"}, {""}),
        ({"key": "team", "operator": "Exists"}, set()),
    ],
)
def test_what_a_template_tolerates_itself(toleration: dict[str, str], want: set[str]) -> None:
    found = read("Deployment", spec={"template": {"spec": {"tolerations": [toleration]}}})
    assert found.tolerated == frozenset(want)


@pytest.mark.rule("spot:P14", "spot:B9", "spot:D5")
def test_whose_a_pod_is_is_a_matter_of_uids() -> None:
    between = replica_set_facts(replica_set("r1", 1))
    same_name = Owner("Deployment", "shop", "web", "recreated")
    known = Cluster({"u": Owner("Deployment", "shop", "web", "u"), "recreated": same_name}, {"uid-r1": between})
    found = known.owner_of("uid-r1")
    assert found is not None
    assert found.uid == "u"
    assert Cluster({"recreated": same_name}, {"uid-r1": between}).owner_of("uid-r1") is None
    assert known.owner_of("u") is not None, "a StatefulSet controls its pods itself"
    assert known.owner_of("nobody") is None


@pytest.mark.rule("spot:B42", "spot:S3")
def test_which_controllers_matter() -> None:
    kinds = (KINDS["Deployment"], KINDS["StatefulSet"])
    replica = Controller("apps/v1", "ReplicaSet", "x", "u")
    assert (is_intermediate_controller(replica, kinds), kind_of(replica, kinds)) == (True, None)
    assert kind_of(Controller("apps/v1", "Deployment", "x", "u"), kinds) is KINDS["Deployment"]
    assert kind_of(Controller("apps.kruise.io/v1", "StatefulSet", "x", "u"), kinds) is None
    assert not is_intermediate_controller(Controller("extensions/v1", "ReplicaSet", "x", "u"), kinds)
    two = {"ownerReferences": [{"kind": "A", "uid": "a"}, {"kind": "B", "uid": "b", "controller": True}, "x"]}
    found = controller_of(two)
    assert found is not None
    assert found.kind == "B"
    assert controller_of({"ownerReferences": "nonsense"}) is None


def read_pod(**parts: Any) -> Any:
    metadata = {"name": "web-1", "namespace": "shop", "uid": "u", **parts.pop("metadata", {})}
    return pod_facts(msgspec.convert({"metadata": metadata, **parts}, Pod, dec_hook=decode_quantity))


@pytest.mark.rule("spot:P13", "spot:P22", "spot:B20")
def test_a_pod() -> None:
    found = read_pod(
        metadata={
            "labels": {"pod-template-hash": "released-r1", "spot.situate.dev/class": "spot"},
            "annotations": {"spot.situate.dev/decision": '{"token":"t","owner":"w"}',
                            "spot.situate.dev/deadline": "2026-11-21T12:00:00Z",
                            "controller.kubernetes.io/pod-deletion-cost": "100"},
        },
        spec={"nodeName": "n", "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                                                 "effect": "NoExecute", "tolerationSeconds": 300}]},
        status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True",
                                                    "lastTransitionTime": "2026-11-21T11:00:00Z"}]},
    )  # fmt: skip
    assert (found.released, found.revision, found.former_owner, found.deadline) == (True, "r1", "w", 1795262400)
    assert (found.pod_class, found.token, found.cost, found.ready_since) == (Capacity.SPOT, "t", 100, 1795258800)
    assert found.evicting == (("node.kubernetes.io/not-ready", 300),)


@pytest.mark.rule("spot:P2", "spot:F14")
@pytest.mark.parametrize("decision", ["{", "[]", "3", "null", '{"token":5}', "[" * 100_000])
def test_what_somebody_wrote_badly_counts_as_not_written(decision: str) -> None:
    annotations = {"spot.situate.dev/decision": decision, "spot.situate.dev/deadline": "soon",
                   "controller.kubernetes.io/pod-deletion-cost": "cheap"}  # fmt: skip
    found = read_pod(metadata={"labels": {"spot.situate.dev/class": "cheap"}, "annotations": annotations})
    assert (found.pod_class, found.deadline, found.cost) == (None, None, 0)
    assert found.token in ("", "5")


@pytest.mark.rule("spot:B42")
@pytest.mark.parametrize(
    ("partition", "updated", "rolling"),
    [(0, 4, True), (6, 4, False), ("60%", 4, False), ("55%", 4, False), ("50%", 4, True), ("x", 4, True)],
)
def test_a_cloneset_rolls_until_only_its_partition_is_old(partition: Any, updated: int, *, rolling: bool) -> None:
    status = {"updatedReplicas": updated, "currentRevision": "a", "updateRevision": "b"}
    made = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 10, "updateStrategy": {"type": "ReCreate", "partition": partition}},
        "status": status,
    }
    found = owner_facts(made, KINDS["CloneSet"], SIGNALS)
    assert (found.rolling, found.releasable, found.paused) == (rolling, False, False)
    stopped = {**made, "spec": {"replicas": 10, "updateStrategy": {"paused": True}}}
    assert owner_facts(stopped, KINDS["CloneSet"], SIGNALS).paused


@pytest.mark.rule("spot:B42")
def test_a_rollout_says_its_generation_as_text_and_lets_go_of_no_pod() -> None:
    status = {"observedGeneration": "3", "currentPodHash": "h7", "replicas": 4, "updatedReplicas": 4}
    made = {"metadata": {"name": "web", "generation": 3}, "spec": {"replicas": 4}, "status": status}
    found = owner_facts(made, KINDS["Rollout"], SIGNALS)
    assert (found.observed, found.revision, found.rolling, found.releasable) == (True, "h7", False, False)
    assert to_plain_json(decode(WORKLOADS["Rollout"], json.dumps(made).encode()))["status"] == status
    behind = {**made, "metadata": {"name": "web", "generation": 4}}
    assert not owner_facts(behind, KINDS["Rollout"], SIGNALS).observed


@pytest.mark.rule("spot:B42")
@pytest.mark.parametrize("label", ["web-6d4b75cb6d", "6d4b75cb6d"])
def test_a_cloneset_and_its_pods_agree_on_the_revision_with_short_hashes_too(label: str) -> None:
    status = {"updateRevision": "web-6d4b75cb6d", "currentRevision": "web-6d4b75cb6d"}
    found = owner_facts({"metadata": {"name": "web"}, "status": status}, KINDS["CloneSet"], SIGNALS)
    pod = msgspec.convert({"metadata": {"name": "web-x", "labels": {"controller-revision-hash": label}}}, Pod)
    assert pod_facts(pod).revision == found.revision == "6d4b75cb6d"
