"""The workloads of kube-scheduler's own benchmark, scheduler_perf, with their official thresholds.

Sizes, templates and rates are those of upstream's `performance-config.yaml` files (test/integration/scheduler_perf of
Kubernetes 1.36). What a test does every so many milliseconds happens once in as many pods as kube-scheduler has to
place in that time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace as changed

from bench.engine_objects import HOSTNAME, ZONE, container, equal_pods, node_event, nodes, pod_spec, read_nodes
from bench.engine_play import Play, Workload, on
from bench.engine_volumes import csi_volumes, in_tree_volumes
from situate.framework.volumes.catalog import Catalog
from situate.objects.kinds.pods import Pod, Toleration
from situate.objects.values.timestamps import parse_time

REQUESTS = {"cpu": "100m", "memory": "500Mi"}
PORTS = [{"containerPort": 80, "protocol": "TCP"}]
TEAM = MappingProxyType({"team": "devops"})
NAMED = {"app": "scheduler-perf"}
ONE_NODE = "scheduler-perf-node"
MOONS = ("moon-1", "moon-2", "moon-3")

Build = Callable[[int], Workload]
"""Makes the workload, of which only one in so many pods and nodes is there."""


def spec(requests: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """A pod with one port."""
    made = pod_spec(**more)
    made["containers"] = [container(requests or REQUESTS, ports=PORTS)]
    return made


def term(color: str, key: str, **where: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"color": color}}, "topologyKey": key, **where}


def affine(kind: str, color: str, key: str, *, preferred: bool = False, by_team: bool = False) -> dict[str, Any]:
    """A spec with one term of `podAffinity` or `podAntiAffinity`."""
    where = {"namespaceSelector": {"matchLabels": dict(TEAM)}} if by_team else {"namespaces": ["sched-1", "sched-0"]}
    wanted = term(color, key, **where)
    point = "preferred" if preferred else "required"
    terms = [{"podAffinityTerm": wanted, "weight": 1}] if preferred else [wanted]
    return spec(affinity={kind: {f"{point}DuringSchedulingIgnoredDuringExecution": terms}})


LIGHT = pod_spec()
BASIC = spec()
ANTI = affine("podAntiAffinity", "green", HOSTNAME)
AFFINITY = affine("podAffinity", "blue", ZONE)
PREFERRED = affine("podAffinity", "red", HOSTNAME, preferred=True)
PREFERRED_ANTI = affine("podAntiAffinity", "yellow", HOSTNAME, preferred=True)
LOW = spec({"cpu": "900m", "memory": "500Mi"})
HIGH = spec({"cpu": "3", "memory": "500Mi"}, priority=10)
TOO_LARGE = spec({"cpu": "9", "memory": "500Mi"}, priority=10)


def plain(each: dict[str, Any], initial: int, measured: int, threshold: int, **more: Any) -> Build:
    """Initial pods and measured ones of one kind; `more` goes to the nodes."""

    def build(of: int) -> Workload:
        return Workload(
            nodes(5000 // of, **more),
            equal_pods("pod", measured // of, each),
            equal_pods("init", initial // of, each),
            threshold=threshold,
        )

    return build


def in_two_namespaces(
    each: dict[str, Any],
    color: str,
    initial: int,
    measured: int,
    threshold: int,
    *,
    then: dict[str, Any] | None = None,
    **more: Any,
) -> Build:
    """`then` are the measured ones, if they are others."""

    def build(of: int) -> Workload:
        return Workload(
            nodes(5000 // of, **more),
            equal_pods("pod", measured // of, then or each, "sched-1", {"color": color}),
            equal_pods("init", initial // of, each, "sched-0", {"color": color}),
            threshold=threshold,
        )

    return build


def by_team(
    each: dict[str, Any], color: str, own: int, measured: int, threshold: int, count: int = 5000, **more: Any
) -> Build:
    """A hundred namespaces with so many pods each."""

    def build(of: int) -> Workload:
        namespaces = [f"init-ns-{number}" for number in range(100)]
        initial: list[Pod] = []
        for namespace in namespaces:
            initial += equal_pods("init", own // of, each, namespace, {"color": color})
        return Workload(
            nodes(count // of, **more),
            equal_pods("pod", measured // of, each, "measure-ns-0", {"color": color}),
            initial,
            catalog=Catalog(namespaces=dict.fromkeys((*namespaces, "measure-ns-0"), TEAM)),
            threshold=threshold,
        )

    return build


def mixed_base_pod(of: int) -> Workload:
    kinds = (
        (BASIC, None),
        (AFFINITY, "blue"),
        (ANTI, "green"),
        (PREFERRED, "red"),
        (PREFERRED_ANTI, "yellow"),
    )
    initial: list[Pod] = []
    for number, (each, color) in enumerate(kinds):
        initial += equal_pods(f"init-{number}", 2000 // of, each, "sched-0", {"color": color} if color else None)
    return Workload(
        nodes(5000 // of, ("zone1",)),
        equal_pods("pod", 5000 // of, BASIC),
        initial,
        threshold=140,
    )


def one_large_node(pods: int = 90_000) -> dict[str, str]:
    return {"cpu": "4", "memory": "32Gi", "pods": str(pods)}


def daemon_set(of: int) -> Workload:
    """All pods name one node, and the others have to be seen to be none of theirs."""
    wanted = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [ONE_NODE]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [wanted]}}
    each = pod_spec(affinity={"nodeAffinity": required})
    named = read_nodes([node_event(ONE_NODE, {HOSTNAME: ONE_NODE}, one_large_node())])
    return Workload(
        [*named, *nodes(15_000 // of)],
        equal_pods("daemonset", 30_000 // of, each),
        threshold=1100,
    )


def while_gated(of: int) -> Workload:
    """Pods wait behind a gate while others are deleted, 50 a second."""
    gone = equal_pods("deleting", 20_000 // of, LIGHT)

    def delete(play: Play, turn: int) -> None:
        if turn < len(gone):
            play.engine.remove_pod(gone[turn].metadata.uid, play.now)

    return Workload(
        read_nodes([node_event(ONE_NODE, {HOSTNAME: ONE_NODE}, one_large_node())]),
        equal_pods("pod", 20_000 // of, LIGHT),
        gone,
        equal_pods("gated", 10_000 // of, pod_spec(schedulingGates=[{"name": "scheduling-gate-1"}])),
        threshold=910,
        beside=delete,
        every=18,
    )


def gated_with_affinity(of: int) -> Workload:
    """Pods wait behind a gate whose affinity the measured ones meet: each of these is an event that might wake them."""
    affinity = {"labelSelector": {"matchLabels": NAMED}, "topologyKey": HOSTNAME}
    gated = pod_spec(
        affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [affinity]}},
        schedulingGates=[{"name": "scheduling-gate-1"}],
    )
    return Workload(
        read_nodes([node_event(ONE_NODE, {HOSTNAME: ONE_NODE}, one_large_node())]),
        equal_pods("pod", 20_000 // of, LIGHT, labels=NAMED),
        standing=equal_pods("gated", 10_000 // of, gated, labels=NAMED),
        threshold=110,
    )


def deleted_with_finalizers(of: int) -> Workload:
    """Pods come first that are being deleted, 100 a second, and whose finalizers keep them."""
    ended = parse_time("2026-01-02T03:05:05Z")
    going = equal_pods("deleting", 5000 // of, LIGHT, finalizers=["example.com/test"])

    def delete(play: Play, turn: int) -> None:
        if not turn:
            for pod in going[1:]:
                play.engine.set_pod(pod, play.now - 0.5)
        if turn < len(going):
            pod = going[turn]
            known = play.engine.cache.pod(pod.metadata.uid)
            pod = changed(pod, metadata=changed(pod.metadata, deletion_timestamp=ended))
            play.engine.set_pod(on(pod, known.node) if known is not None else pod, play.now)

    return Workload(
        nodes(5000 // of),
        equal_pods("pod", 5000 // of, LIGHT),
        threshold=830,
        beside=delete,
        every=8,
    )


def mixed_churn(of: int) -> Workload:
    """Every second a node, a pod that fits nowhere and a service come, or go again."""
    room = {"cpu": "4", "memory": "32Gi", "pods": "110"}

    def churn(play: Play, turn: int) -> None:
        engine, now = play.engine, play.now
        name = f"churn-{turn // 2}"
        if turn % 2:
            engine.remove_node(name, now)
            engine.remove_pod(f"default/{name}-0", now)
        else:
            for node in read_nodes([node_event(name, {HOSTNAME: name}, room)]):
                engine.set_node(node, now)
            for pod in equal_pods(name, 1, TOO_LARGE):
                engine.set_pod(pod, now)
        services: Mapping[str, Any] = {} if turn % 2 else {"default": ({"app": "foo"},)}
        engine.set_catalog(replace(engine.cache.catalog, services=services), (), now)

    return Workload(
        nodes(5000 // of),
        equal_pods("pod", 10_000 // of, BASIC),
        threshold=710,
        beside=churn,
        every=710,
    )


def come(each: dict[str, Any], play: Play, turn: int) -> None:
    """One more pod of another kind."""
    for pod in equal_pods(f"churn-{turn}", 1, each):
        play.engine.set_pod(pod, play.now)


def unschedulable(initial: int, threshold: int) -> Build:
    """Five pods a second that fit nowhere come in between, of higher priority."""

    def build(of: int) -> Workload:
        return Workload(
            nodes(5000 // of),
            equal_pods("pod", 10_000 // of, BASIC),
            equal_pods("init", initial // of, BASIC),
            threshold=threshold,
            beside=partial(come, TOO_LARGE),
            every=threshold // 5,
        )

    return build


def preemption_async(of: int) -> Workload:
    """Five pods a second that need three others to go come in between."""
    return Workload(
        nodes(5000 // of),
        equal_pods("pod", 5000 // of, BASIC),
        equal_pods("init", 20_000 // of, LOW),
        threshold=570,
        beside=partial(come, HIGH),
        every=114,
    )


def preemption_basic(of: int) -> Workload:
    return Workload(
        nodes(1000 // of),
        equal_pods("pod", 1000 // of, HIGH),
        equal_pods("init", 4000 // of, LOW),
    )


def spreading(
    each: dict[str, Any],
    labels: dict[str, str],
    measured: int,
    threshold: int,
    namespace: str = "default",
    catalog: Catalog = Catalog(),  # noqa: B008  # frozen
) -> Build:
    def build(of: int) -> Workload:
        return Workload(
            nodes(5000 // of, MOONS),
            equal_pods("pod", measured // of, each, namespace, labels),
            equal_pods("init", 5000 // of, BASIC),
            catalog=catalog,
            threshold=threshold,
        )

    return build


def spread_spec(
    skew: int, key: str, unsatisfiable: str, labels: dict[str, str], policies: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": unsatisfiable,
        "labelSelector": {"matchLabels": labels},
        **policies,
    }
    return spec(topologySpreadConstraints=[constraint])


def node_inclusion(of: int) -> Workload:
    policies = {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Honor"}
    each = spread_spec(1, HOSTNAME, "DoNotSchedule", {"foo": "bar"}, policies)
    taint = {"key": "foo", "value": "", "effect": "NoSchedule"}
    return Workload(
        [*nodes(4000 // of), *nodes(1000 // of, prefix="tainted", taints=[taint])],
        equal_pods("pod", 4000 // of, each, labels={"foo": "bar"}),
        threshold=270,
    )


def extended_resource(of: int) -> Workload:
    """Each node has a resource of its own, and each pod wants one of them."""
    count = 5000 // of
    lines = []
    pods: list[Pod] = []
    for number in range(count):
        name = f"node-{number}"
        room = {"cpu": "4", "memory": "32Gi", "pods": "110", f"foo.example/bar-{number}": "1"}
        lines.append(node_event(name, {HOSTNAME: name}, room))
        pods += equal_pods(f"pod-{number}", 1, pod_spec({f"foo.example/bar-{number}": "1"}))
    return Workload(read_nodes(lines), pods, threshold=180)


def batching(run: int, each: Callable[[str], dict[str, Any]]) -> Build:
    """20,000 pods for as many nodes, one for each: runs of so many equal ones."""

    def build(of: int) -> Workload:
        count = 20_000 // of
        pods: list[Pod] = []
        for number in range(0, count, run):
            pods += equal_pods(f"pod-{number}", min(run, count - number), each(f"registry.example/app:{number}"))
        return Workload(nodes(count), pods)

    return build


def on_a_host_port(image: str) -> dict[str, Any]:
    made = pod_spec()
    made["containers"] = [container(image=image, ports=[{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}])]
    return made


def saturating(image: str) -> dict[str, Any]:
    made = pod_spec()
    made["containers"] = [container({"cpu": "3", "memory": "500Mi"}, image=image)]
    return made


def pods_are_deleted(of: int) -> Workload:
    """Full nodes; each pod that is deleted lets one in that waits."""
    count = 1000 // of
    gone = equal_pods("blocker", count, spec({"cpu": "400m", "memory": "500Mi"}))

    def delete(play: Play, turn: int) -> None:
        play.engine.remove_pod(gone[turn].metadata.uid, play.now)

    return Workload(
        nodes(count // 10),
        equal_pods("pod", count, spec({"cpu": "400m", "memory": "500Mi"})),
        gone,
        beside=delete,
        every=1,
    )


def pods_are_updated(of: int) -> Workload:
    """Tainted nodes; each pod that waits comes to tolerate the taint."""
    count = 1000 // of
    pods = equal_pods("pod", count, LIGHT)

    def tolerate(play: Play, turn: int) -> None:
        pod = pods[turn]
        tolerations = (*pod.spec.tolerations, Toleration("foo", "Exists"))
        play.engine.set_pod(changed(pod, spec=changed(pod.spec, tolerations=tolerations)), play.now)

    taint = {"key": "foo", "value": "", "effect": "NoSchedule"}
    return Workload(nodes(100 // of, taints=[taint]), pods, beside=tolerate, every=1)


def nodes_are_added(of: int) -> Workload:
    """Full nodes; each node that comes takes ten of those that wait."""
    count = 1000 // of
    more = nodes(count // 10, prefix="new")

    def add(play: Play, turn: int) -> None:
        play.engine.set_node(more[turn], play.now)

    each = spec({"cpu": "400m", "memory": "500Mi"})
    return Workload(
        nodes(count // 10),
        equal_pods("pod", count, each),
        equal_pods("init", count, each),
        beside=add,
        every=10,
    )


def workloads() -> Iterator[tuple[str, Build]]:
    """By name, in the order of the official table."""
    yield "SchedulingBasic", plain(BASIC, 1000, 10_000, 680)
    yield "SchedulingBasic50k", plain(BASIC, 5000, 50_000, 810)
    yield "SchedulingDaemonset", daemon_set
    secret = pod_spec(REQUESTS, volumes=[{"name": "secret", "secret": {"secretName": "secret"}}])
    yield "SchedulingSecrets", plain(secret, 1000, 10_000, 790)
    yield "SchedulingWithMixedChurn", mixed_churn
    yield "SchedulingWhileGated", while_gated
    yield "SchedulingDeletedPodsWithFinalizers", deleted_with_finalizers
    yield "Unschedulable", unschedulable(100, 590)
    yield "Unschedulable20k", unschedulable(20_000, 600)
    yield "PreemptionAsync", preemption_async
    yield "PreemptionBasic", preemption_basic
    zones = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [zones]}}
    by_zone = spec(affinity={"nodeAffinity": required})
    yield "SchedulingNodeAffinity", plain(by_zone, 5000, 10_000, 220, zones=("zone1",))
    blue = {"color": "blue"}
    hard = spread_spec(5, ZONE, "DoNotSchedule", blue)
    soft = spread_spec(5, ZONE, "ScheduleAnyway", blue)
    yield "TopologySpreading", spreading(hard, blue, 5000, 460)
    yield "PreferredTopologySpreading", spreading(soft, blue, 5000, 340)
    served = Catalog(services={"service-ns": (NAMED,)})
    yield (
        "DefaultTopologySpreading",
        spreading(LIGHT, NAMED, 50_000, 160, "service-ns", served),
    )
    yield "SchedulingWithNodeInclusionPolicy", node_inclusion
    yield (
        "SchedulingPodMatchingAntiAffinity",
        in_two_namespaces(ANTI, "green", 1000, 5000, 595, then=BASIC),
    )
    yield "MixedSchedulingBasePod", mixed_base_pod
    yield (
        "SchedulingPodAntiAffinity",
        in_two_namespaces(ANTI, "green", 1000, 2000, 60),
    )
    yield (
        "SchedulingPodAffinity",
        in_two_namespaces(AFFINITY, "blue", 5000, 5000, 35, zones=("zone1",)),
    )
    yield (
        "SchedulingPreferredPodAffinity",
        in_two_namespaces(PREFERRED, "red", 5000, 5000, 90),
    )
    yield (
        "SchedulingPreferredPodAntiAffinity",
        in_two_namespaces(PREFERRED_ANTI, "yellow", 5000, 5000, 90),
    )
    team_anti = affine("podAntiAffinity", "green", HOSTNAME, by_team=True)
    yield (
        "SchedulingRequiredPodAntiAffinityWithNSSelector",
        by_team(team_anti, "green", 40, 2000, 24, 6000),
    )
    team_preferred_anti = affine("podAntiAffinity", "green", HOSTNAME, preferred=True, by_team=True)
    yield (
        "SchedulingPreferredAntiAffinityWithNSSelector",
        by_team(team_preferred_anti, "green", 40, 2000, 55),
    )
    team_preferred = affine("podAffinity", "red", HOSTNAME, preferred=True, by_team=True)
    yield (
        "SchedulingPreferredAffinityWithNSSelector",
        by_team(team_preferred, "red", 50, 5000, 90),
    )
    team_affinity = affine("podAffinity", "blue", ZONE, by_team=True)
    yield (
        "SchedulingRequiredPodAffinityWithNSSelector",
        by_team(team_affinity, "blue", 50, 2000, 35, zones=("zone1",)),
    )
    yield "GatedPodsWithPodAffinityImpact", gated_with_affinity
    yield "SchedulingInTreePVs", in_tree_volumes
    yield "SchedulingCSIPVs", csi_volumes
    yield "SchedulingWithExtendedResource", extended_resource
    for run in (10, 1000, 20_000):
        yield f"HostPortConflict{run}", batching(run, on_a_host_port)
        yield f"ResourceSaturation{run}", batching(run, saturating)
    yield "EventHandlingPodDelete", pods_are_deleted
    yield "EventHandlingPodUpdate", pods_are_updated
    yield "EventHandlingNodeAdd", nodes_are_added
