"""The cache against the plain reading of the same objects, in every order in which watches may tell of them."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.kube.client import Client
from situate.objects.decoding.codec import decode
from situate.objects.resources import CORE_EVENTS, NAMESPACES, NODES, PODS, ResourceType
from situate.spot.controller.observe.cache import FactsCache
from situate.spot.controller.observe.informers import Informers
from situate.spot.controller.observe.trimmed_objects import DEPLOYMENTS, REPLICASETS, STATEFULSETS
from situate.spot.model.pods_nodes_workloads import CLASS, DECISION, ON_DEMAND, Capacity, NodeState
from situate.spot.nodes.known_signals import SIGNALS
from situate.spot.nodes.node_signals import Signal
from situate.spot.workloads.on_demand_policy import Count, Default
from situate.spot.workloads.on_demand_target import TargetRules
from tests.kube.hostile_server import HostileServer

NOW = 1_900_000_000.0


class Rig:
    """Stores that a test writes, and the cache over them."""

    def __init__(self) -> None:
        self.watched = Informers.create(Client(HostileServer()), random.Random(1))
        self.now = NOW
        self.node_changes = 0
        self.cache = FactsCache(
            self.watched, SIGNALS, TargetRules(), wall=lambda: self.now, nodes_changed=self.node_changed
        )

    def node_changed(self) -> None:
        self.node_changes += 1

    def put(self, content: dict[str, Any]) -> None:
        resource, store = self.of(content["kind"])
        store.put(decode(resource, msgspec.json.encode(content)))

    def remove(self, content: dict[str, Any]) -> None:
        metadata = content["metadata"]
        self.of(content["kind"])[1].remove(metadata["name"], metadata.get("namespace", ""))

    def of(self, kind: str) -> tuple[ResourceType[Any], Any]:
        watched = self.watched
        known: dict[str, tuple[Any, Any]] = {
            "Pod": (PODS, watched.pods.store),
            "ReplicaSet": (REPLICASETS, watched.replica_sets.store),
            "Deployment": (DEPLOYMENTS, watched.deployments.store),
            "StatefulSet": (STATEFULSETS, watched.stateful_sets.store),
            "Node": (NODES, watched.nodes.store),
            "Namespace": (NAMESPACES, watched.namespaces.store),
            "Event": (CORE_EVENTS, watched.node_events.store),
        }
        return known[kind]

    def names(self, owner: str) -> list[str]:
        return sorted(pod.key.name for pod in self.cache.cluster.pods.get(owner, ()))


def obj(
    kind: str, name: str, uid: str = "", owner: tuple[str, str, str] | None = None, **content: Any
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "uid": uid or f"{name}-uid", **content.pop("metadata", {})}
    if owner is not None:
        reference = {"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "uid": owner[2], "controller": True}
        metadata["ownerReferences"] = [reference]
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **content}


DEPLOYMENT = obj("Deployment", "web", "d")
OLD = obj("ReplicaSet", "web-1", "r1", ("Deployment", "web", "d"))
NEW = obj("ReplicaSet", "web-2", "r2", ("Deployment", "web", "d"))
SET = obj("StatefulSet", "base", "s")
PODS_OF_BOTH = [
    obj("Pod", "web-1-a", owner=("ReplicaSet", "web-1", "r1")),
    obj("Pod", "web-1-b", owner=("ReplicaSet", "web-1", "r1")),
    obj("Pod", "web-2-a", owner=("ReplicaSet", "web-2", "r2")),
    obj("Pod", "base-0", owner=("StatefulSet", "base", "s")),
    obj("Pod", "alone"),
]
EVERYTHING = [DEPLOYMENT, OLD, NEW, SET, *PODS_OF_BOTH]


@pytest.mark.rule("spot:P14", "spot:F1")
@given(st.permutations(EVERYTHING), st.lists(st.sampled_from(EVERYTHING), max_size=6), st.booleans())
def test_pods_are_found_whatever_is_told_first(
    told: list[dict[str, Any]], gone: list[dict[str, Any]], ask_between: bool
) -> None:
    rig = Rig()
    for each in told:
        rig.put(each)
        if ask_between:
            rig.names("d")
    for each in gone:
        rig.remove(each)
        if ask_between:
            rig.names("d")
    for each in gone:
        rig.put(each)
    assert rig.names("d") == ["web-1-a", "web-1-b", "web-2-a"]
    assert rig.names("s") == ["base-0"]
    assert sorted(rig.cache.cluster.pods) == ["d", "s"]
    rig.remove(OLD)
    assert rig.names("d") == ["web-2-a"], "nobody's who has no ReplicaSet"


@pytest.mark.rule("spot:B9")
def test_a_workload_that_was_made_anew_has_none_of_the_old_ones_pods() -> None:
    rig = Rig()
    for each in EVERYTHING:
        rig.put(each)
    rig.put(obj("Deployment", "web", "d2"))
    assert "d" not in rig.cache.cluster.owners
    assert rig.names("d2") == []


def test_a_pod_that_changes_hands_is_counted_where_it_is_now() -> None:
    rig = Rig()
    for each in EVERYTHING:
        rig.put(each)
    rig.put(obj("Pod", "web-1-a", owner=("StatefulSet", "base", "s")))
    assert rig.names("d") == ["web-1-b", "web-2-a"]
    assert rig.names("s") == ["base-0", "web-1-a"]
    rig.put(obj("Pod", "web-1-a"))
    assert rig.names("s") == ["base-0"]


def test_what_is_written_on_a_pod_is_read() -> None:
    rig = Rig()
    marks = {"labels": {CLASS: "on-demand"}, "annotations": {DECISION: '{"token":"t1"}'}}
    rig.put(DEPLOYMENT)
    rig.put(OLD)
    rig.put(obj("Pod", "web-1-a", owner=("ReplicaSet", "web-1", "r1"), metadata=marks))
    (pod,) = rig.cache.cluster.pods["d"]
    assert (pod.pod_class, pod.token) == (Capacity.ON_DEMAND, "t1")


@pytest.mark.rule("spot:P11")
def test_the_last_policy_that_could_be_read_is_remembered_until_the_workload_goes() -> None:
    rig = Rig()
    rig.put(with_policy("3"))
    assert rig.cache.memories["d"].policy == Count(3)
    rig.put(with_policy("many"))
    assert rig.cache.memories["d"].policy == Count(3)
    rig.remove(DEPLOYMENT)
    assert not rig.cache.memories


@pytest.mark.rule("spot:P11", "spot:S26")
def test_a_namespace_says_what_its_workloads_leave_open() -> None:
    rig = Rig()
    rig.put(DEPLOYMENT)
    rig.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "annotations": {ON_DEMAND: "2"}}})
    assert rig.cache.memories["d"].policy == Count(2)
    rig.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "annotations": {ON_DEMAND: "-2"}}})
    assert rig.cache.memories["d"].policy == Count(2)


@pytest.mark.finding("N19")
@pytest.mark.rule("spot:P11")
def test_a_namespace_that_is_not_known_yet_says_nothing_of_its_workloads() -> None:
    rig = Rig()
    plain = {**with_policy("3"), "metadata": {"name": "d", "namespace": "shop", "uid": "d"}}
    namespace = {"kind": "Namespace", "metadata": {"name": "shop", "annotations": {ON_DEMAND: "many"}}}
    rig.put(plain)
    assert rig.cache.memories == {}, "its namespace may say more"
    rig.put(namespace)
    assert (rig.cache.memories, rig.cache.policies) == ({}, {}), "no valid value is known: not the default"
    rig.cache.recall_policies({"d": Count(2)})
    assert (rig.cache.memories["d"].policy, rig.cache.policies) == (Count(2), {"d": Count(2)})
    rig.put({"kind": "Namespace", "metadata": {"name": "shop"}})
    assert (rig.cache.memories["d"].policy, rig.cache.policies) == (Default(), {})


@pytest.mark.finding("N19")
@pytest.mark.rule("spot:P11")
@pytest.mark.parametrize("first", ["record", "workload"])
def test_a_recorded_policy_holds_where_the_value_cannot_be_read(first: str) -> None:
    rig = Rig()
    rig.put({"kind": "Namespace", "metadata": {"name": "shop"}})
    if first == "workload":
        rig.put(with_policy("many"))
    rig.cache.recall_policies({"d": Count(3), "gone": Count(9)})
    rig.put(with_policy("many"))
    assert rig.cache.memories["d"].policy == Count(3)
    rig.put(with_policy("2"))
    assert (rig.cache.memories["d"].policy, rig.cache.policies) == (Count(2), {"d": Count(2)}), "what is readable holds"
    rig.remove(with_policy("2"))
    assert rig.cache.policies == {}


def with_policy(text: str) -> dict[str, Any]:
    return obj("Deployment", "web", "d", metadata={"annotations": {ON_DEMAND: text}})


@pytest.mark.rule("spot:P12", "spot:P33")
def test_a_notice_without_a_time_counts_from_when_it_was_first_seen() -> None:
    rig = Rig()
    taint = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}
    rig.put(node(taints=[taint]))
    rig.now += 50
    rig.put(node(taints=[taint], unschedulable=True))
    facts = rig.cache.cluster.nodes["n"]
    assert (facts.capacity, facts.state, facts.deadline) == (Capacity.SPOT, NodeState.DOOMED, NOW + 120)
    rig.put(node())
    rig.now += 50
    rig.put(node(taints=[taint]))
    assert rig.cache.cluster.nodes["n"].deadline == NOW + 100 + 120, "another notice"
    rig.remove(node())
    assert "n" not in rig.cache.cluster.nodes


def test_a_node_that_only_gives_a_sign_of_life_changes_nothing() -> None:
    rig = Rig()
    rig.put(node())
    before = rig.node_changes
    rig.put(node() | {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    assert rig.node_changes == before


def test_other_settings_are_taken_over_by_what_is_there() -> None:
    rig = Rig()
    rig.put(node(labels={"pool": "cheap"}))
    rig.put(with_policy("3"))
    assert str(rig.cache.cluster.nodes["n"].capacity) == "unknown"
    line = msgspec.convert({"source": "label", "key": "pool", "value": "cheap", "capacity": "spot"}, type(SIGNALS[0]))
    rig.cache.reconfigure((line, *SIGNALS), TargetRules())
    assert str(rig.cache.cluster.nodes["n"].capacity) == "spot"


def node(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    labels = {"node.kubernetes.io/capacity": "spot"} if labels is None else labels
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}, "spec": spec}


def event(name: str, reason: str, at: str, node: str = "n") -> dict[str, Any]:
    about = {"apiVersion": "v1", "kind": "Node", "name": node}
    return obj("Event", name, involvedObject=about, reason=reason, firstTimestamp=at, lastTimestamp=at, count=1)


@pytest.mark.rule("spot:P33", "spot:F10")
@pytest.mark.parametrize("event_first", [True, False])
def test_an_event_about_a_node_is_a_signal_until_it_is_forgotten(*, event_first: bool) -> None:
    rig = Rig()
    node = obj("Node", "n", metadata={"namespace": "", "creationTimestamp": "2030-03-17T17:40:00Z"})
    told = event("n.1", "SpotInterruption", "2030-03-17T17:46:40Z")
    for each in (told, node) if event_first else (node, told):
        rig.put(each)
    rig.put(event("n.2", "NodeHasSufficientMemory", "2030-03-17T17:46:40Z"))
    facts = rig.cache.cluster.nodes["n"]
    assert (facts.state, facts.deadline, facts.why) == (NodeState.DOOMED, NOW + 120, "event SpotInterruption")
    rig.remove(told)
    assert rig.cache.cluster.nodes["n"].state is NodeState.OK


@pytest.mark.rule("spot:P33")
def test_an_event_about_an_earlier_node_of_that_name_means_nothing() -> None:
    rig = Rig()
    rig.put(event("n.1", "SpotInterruption", "2030-03-17T17:00:00Z"))
    rig.put(obj("Node", "n", metadata={"namespace": "", "creationTimestamp": "2030-03-17T17:40:00Z"}))
    assert rig.cache.cluster.nodes["n"].state is NodeState.OK


@pytest.mark.rule("spot:P33", "spot:P35")
def test_reasons_of_a_new_table_are_found_among_the_events_that_are_there() -> None:
    rig = Rig()
    rig.put(obj("Node", "n", metadata={"namespace": "", "creationTimestamp": "2030-03-17T17:40:00Z"}))
    rig.put(event("n.1", "Preempted", "2030-03-17T17:46:40Z"))
    assert rig.cache.cluster.nodes["n"].state is NodeState.OK
    ours = Signal(source="event", key="Preempted", state="doomed", notice_seconds=30)
    rig.cache.reconfigure((ours, *SIGNALS), TargetRules())
    assert (rig.cache.cluster.nodes["n"].state, rig.cache.cluster.nodes["n"].deadline) == (NodeState.DOOMED, NOW + 30)


@pytest.mark.rule("spot:P25", "spot:B8")
@pytest.mark.parametrize("first", ["nodes", "workloads"])
def test_who_names_nodes_is_pinned_to_what_they_are_by_now(first: str) -> None:
    rig = Rig()
    pinned = {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "n1"}}}}
    workloads = [obj("Deployment", "web", "d", spec=pinned), obj("Deployment", "free", "f")]
    labels = {"node.kubernetes.io/capacity": "spot"}
    nodes = [obj("Node", name, metadata={"namespace": "", "labels": labels}) for name in ("n1", "n2")]
    for each in [*nodes, *workloads] if first == "nodes" else [*workloads, *nodes]:
        rig.put(each)
    owners = rig.cache.cluster.owners
    assert (owners["d"].pinned, owners["d"].conflict) == (Capacity.SPOT, "spec.nodeSelector")
    assert owners["f"].pinned is None
    rig.put(obj("Node", "n1", metadata={"namespace": "", "labels": {"node.kubernetes.io/capacity": "on-demand"}}))
    assert owners["d"].pinned is Capacity.ON_DEMAND
    rig.remove(nodes[0])
    assert owners["d"].pinned is None, "the next node of that name may be of either kind"
    rig.remove(workloads[0])
    rig.put(nodes[0])
    assert "d" not in owners
