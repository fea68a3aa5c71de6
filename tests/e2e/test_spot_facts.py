"""What spot relies on in Kubernetes (K1 to K6, K8 and K9 of its reference), on a real control plane as it is shipped.

K7, which takes a minute, is in `test_spot_running`. Nothing of ours runs here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL
from tests.e2e.spot_installed import deployment, stateful_set
from tests.e2e.vpod_cluster import Cluster
from tests.e2e.webhooks import ALLOWED, Asked, Batches, Webhooks, refused
from tests.waiting import eventually, steadily

SPACE, NARROW = "facts", "facts-narrow"
"""The second has a quota of two pods."""
BATCHES = (1, 2, 4, 8, 16, 19)
HELD = {"annotations": {"hold": ""}}
"""Pods that stay while they are being deleted, until the annotation is taken off."""


class Facts:
    """Two namespaces, and webhooks of ours there."""

    def __init__(self, cluster: Cluster, others: Webhooks) -> None:
        self.cluster = cluster
        self.others = others

    def deploy(self, content: dict[str, Any], namespace: str = SPACE) -> None:
        self.cluster.apply({**content, "metadata": {**content["metadata"], "namespace": namespace}})

    def pods(self, name: str, namespace: str = SPACE) -> list[Any]:
        found = self.cluster.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{name}")
        items: list[Any] = found["items"]
        return items

    def wait_pods(self, name: str, holds: Callable[[list[Any]], Any]) -> list[Any]:
        return eventually(f"the pods of {name} are as they should be", partial(self.pods, name), holds)

    def mark(self, pod: Any, **metadata: Any) -> None:
        patch = json.dumps({"metadata": metadata})
        self.cluster.kubectl("patch", "-n", SPACE, f"pod/{pod['metadata']['name']}", "--type=merge", "-p", patch)

    def delete(self, pod: Any) -> None:
        self.cluster.kubectl("delete", "-n", SPACE, f"pod/{pod['metadata']['name']}", "--wait=false")


@pytest.fixture(scope="module")
def facts(spot_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facts]:
    with Webhooks(tmp_path_factory.mktemp("webhooks")) as others:
        names = (SPACE, NARROW)
        spot_cluster.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names))
        yield Facts(spot_cluster, others)
        both = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
        for kind in both:
            spot_cluster.kubectl("delete", kind, "-l", "of=facts", "--ignore-not-found")
        spot_cluster.kubectl("delete", "namespace", *names, "--wait=false")


def ask(facts: Facts, app: str, answer: Callable[[Asked], Any], namespace: str = SPACE, **webhook: Any) -> list[Any]:
    """Puts a webhook before new pods of one workload; the list grows with the objects that it is asked about."""
    path = f"/{app}-{'judged' if webhook.get('validating') else 'mutated'}"
    seen: list[Any] = []
    probes: list[Any] = []

    def answered(asked: Asked) -> Any:
        if "probe" in asked["object"]["metadata"]["labels"]:
            probes.append(asked)
            return ALLOWED
        seen.append(asked["object"])
        return answer(asked)

    facts.others.serve(path, answered)
    selector = {"matchLabels": {"app": app}}
    configuration = facts.others.configuration(f"facts-{app}", path, namespace, objectSelector=selector, **webhook)
    configuration["metadata"]["labels"] = {"of": "facts"}
    facts.cluster.apply(configuration)
    probe = deployment(app, 1)["spec"]["template"]
    probe["metadata"] = {"name": "probe", "labels": {"app": app, "probe": "", "wanted": ""}}
    dry_run = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"

    def asked() -> bool:
        facts.cluster.plane.request("POST", dry_run, probe)
        return bool(probes)

    eventually(f"the webhook for {app} is asked", asked)  # API servers hear of one somewhat later
    return seen


def alive(pods: list[Any]) -> list[Any]:
    return [each for each in pods if "deletionTimestamp" not in each["metadata"]]


@pytest.mark.rule("spot:K1", "spot:K2", "spot:K4")
def test_a_replica_set_creates_in_batches_that_double_pods_without_a_name_and_with_tolerations(facts: Facts) -> None:
    batches = Batches(BATCHES)
    seen = ask(facts, "burst", batches)
    facts.deploy(deployment("burst", sum(BATCHES)))
    facts.wait_pods("burst", lambda pods: len(pods) == sum(BATCHES))
    assert tuple(batches.peaks) == BATCHES
    for pod in seen:
        assert not {"name", "uid"} & pod["metadata"].keys()
        assert pod["metadata"]["generateName"]
        lasting = {each["key"]: each["tolerationSeconds"] for each in pod["spec"]["tolerations"]}
        assert lasting == {"node.kubernetes.io/not-ready": 300, "node.kubernetes.io/unreachable": 300}


@pytest.mark.rule("spot:K2")
def test_a_pod_of_a_stateful_set_has_its_name_and_ordinal_when_webhooks_see_it(facts: Facts) -> None:
    seen = ask(facts, "ordered", lambda _: ALLOWED)
    facts.deploy(stateful_set("ordered", 2, ordinals={"start": 3}))
    facts.wait_pods("ordered", lambda pods: len(pods) == 2)
    numbers = {each["metadata"]["name"]: each["metadata"]["labels"]["apps.kubernetes.io/pod-index"] for each in seen}
    assert numbers == {"ordered-3": "3", "ordered-4": "4"}
    assert all("uid" not in each["metadata"] for each in seen)


@pytest.mark.rule("spot:K3")
def test_what_a_webhook_has_seen_may_never_exist(facts: Facts) -> None:
    """Quota and validating webhooks come after mutation."""
    seen = ask(facts, "narrow", lambda _: ALLOWED, NARROW)
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "two", "namespace": NARROW}}
    facts.cluster.apply({**quota, "spec": {"hard": {"pods": "0"}}})
    eventually(
        "the quota is known", partial(facts.cluster.refuses_pods, NARROW)
    )  # until then it lets everybody through
    facts.cluster.apply({**quota, "spec": {"hard": {"pods": "2"}}})
    facts.deploy(deployment("narrow", 5), NARROW)
    eventually("a third pod is asked about", lambda: len(seen) > 2)
    assert len(facts.pods("narrow", NARROW)) <= 2

    before = ask(facts, "judged", lambda _: ALLOWED)
    after = ask(facts, "judged", lambda _: refused("it is not to be"), validating=True)
    facts.deploy(deployment("judged", 1))
    eventually("both webhooks are asked", lambda: before and after)
    assert "name" not in before[0]["metadata"]
    assert after[0]["metadata"]["name"], "the second kind sees a name"
    assert not facts.pods("judged")


@pytest.mark.rule("spot:K5")
def test_a_replica_set_replaces_a_terminating_pod_and_a_stateful_set_waits_for_its_end(facts: Facts) -> None:
    facts.deploy(deployment("quick", 1, pod=HELD))
    facts.deploy(stateful_set("patient", 1, pod=HELD))
    (quick,) = facts.wait_pods("quick", lambda pods: len(pods) == 1 and pods[0]["status"]["phase"] == "Running")
    (patient,) = facts.wait_pods("patient", lambda pods: len(pods) == 1 and pods[0]["status"]["phase"] == "Running")
    facts.delete(patient)
    facts.delete(quick)
    facts.wait_pods("quick", lambda pods: len(pods) == 2 and len(alive(pods)) == 1)

    def same(pods: list[Any]) -> bool:
        return [each["metadata"]["uid"] for each in pods] == [patient["metadata"]["uid"]]

    steadily("only the old pod is there", partial(facts.pods, "patient"), same, seconds=1)
    for pod in (quick, patient):
        facts.mark(pod, annotations={"hold": None})
    facts.wait_pods("patient", lambda pods: alive(pods) and not same(pods))


@pytest.mark.rule("spot:K6")
def test_a_pod_that_leaves_its_replica_set_by_a_label_is_replaced_and_serves_on(facts: Facts) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kept"}}
    facts.deploy({**service, "spec": {"selector": {"app": "kept"}, "ports": [{"port": 80}]}})
    facts.deploy(deployment("kept", 1))
    (old,) = facts.wait_pods("kept", lambda pods: len(pods) == 1 and pods[0]["status"].get("podIP"))
    before = facts.cluster.get(f"/apis/apps/v1/namespaces/{SPACE}/deployments/kept")

    def serving() -> set[str]:
        chosen = "labelSelector=kubernetes.io/service-name%3Dkept"
        path = f"/apis/discovery.k8s.io/v1/namespaces/{SPACE}/endpointslices?{chosen}"
        slices = facts.cluster.get(path)["items"]
        return {
            address
            for each in slices
            for endpoint in each.get("endpoints") or ()
            if endpoint["conditions"]["ready"]
            for address in endpoint["addresses"]
        }

    eventually("the pod serves", serving, lambda found: found == {old["status"]["podIP"]})
    hashed = old["metadata"]["labels"]["pod-template-hash"]
    facts.mark(old, labels={"pod-template-hash": f"released-{hashed}"})
    eventually("both pods serve", serving, lambda found: len(found) == 2 and old["status"]["podIP"] in found)
    (found,) = (each for each in facts.pods("kept") if each["metadata"]["uid"] == old["metadata"]["uid"])
    assert "ownerReferences" not in found["metadata"]
    after = facts.cluster.get(f"/apis/apps/v1/namespaces/{SPACE}/deployments/kept")
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


@pytest.mark.rule("spot:K8", "spot:B28", "spot:S14")
def test_preferred_affinity_loses_to_other_wishes_unless_on_demand_nodes_ask_to_be_avoided(facts: Facts) -> None:
    """Room is ample on all of them; the second row has the remedy that needs no part of ours."""
    cluster, nodes = facts.cluster, {}
    for row, avoided in (("plain", False), ("avoided", True)):
        for capacity in ("on-demand", "spot"):
            names = [f"{row}-{capacity}-{letter}" for letter in "abc"]
            cluster.add_nodes(*names, labels={CAPACITY_LABEL: capacity, "row": row})
            nodes.update(dict.fromkeys(names, capacity))
            if avoided and capacity == "on-demand":
                cluster.kubectl("taint", "node", *names, "example.com/dear=yes:PreferNoSchedule")
    cluster.wait_scheduler("avoided-spot-a")
    try:
        for row in ("plain", "avoided"):
            facts.deploy(deployment(f"wishing-{row}", 12, pod=_wishing(f"wishing-{row}", row)))
        found = {}
        for row in ("plain", "avoided"):
            pods = facts.wait_pods(f"wishing-{row}", lambda pods: sum("nodeName" in p["spec"] for p in pods) == 12)
            found[row] = Counter(nodes[each["spec"]["nodeName"]] for each in pods)
        assert 0 < found["plain"]["spot"] < 12
        assert found["avoided"] == {"spot": 12}
    finally:
        cluster.kubectl("delete", "node", *nodes)


def _wishing(app: str, row: str) -> dict[str, Any]:
    """On spot if possible, and apart from each other if possible."""
    spot = {"matchExpressions": [{"key": CAPACITY_LABEL, "operator": "In", "values": ["spot"]}]}
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    wishes = "preferredDuringSchedulingIgnoredDuringExecution"
    return {
        "nodeSelector": {"row": row},
        "affinity": {
            "nodeAffinity": {wishes: [{"weight": 100, "preference": spot}]},
            "podAntiAffinity": {wishes: [{"weight": 100, "podAffinityTerm": apart}]},
        },
    }


@pytest.mark.rule("spot:K9")
def test_match_conditions_and_scheduling_gates_are_served_as_they_are(facts: Facts) -> None:
    """Stable since 1.30, which is the oldest version that is supported."""
    wanted = {"name": "wanted", "expression": "'wanted' in object.metadata.labels"}
    seen = ask(facts, "chosen", lambda _: ALLOWED, matchConditions=[wanted])
    gate = {"schedulingGates": [{"name": "example.com/wait"}]}
    facts.deploy(deployment("chosen", 1, pod=gate))
    (pod,) = facts.wait_pods("chosen", lambda pods: len(pods) == 1 and pods[0]["status"].get("conditions"))
    assert not seen, "its labels do not say so"
    (scheduled,) = (each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled")
    assert scheduled["reason"] == "SchedulingGated"
    patch = json.dumps([{"op": "remove", "path": "/spec/schedulingGates"}])
    facts.cluster.kubectl("patch", "-n", SPACE, f"pod/{pod['metadata']['name']}", "--type=json", "-p", patch)
    facts.wait_pods("chosen", lambda pods: "nodeName" in pods[0]["spec"])
