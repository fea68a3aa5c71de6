"""Perform the steps of a history, and count each step that took effect.

A step that is impossible now, such as killing a leader when none leads, does nothing and is not counted.
"""

from __future__ import annotations

from typing import Any

from situate.testing.histories.steps import Calm, CordonNode, Pass, RestoreNodes, Storm
from situate.testing.vpod import history as steps
from situate.testing.vpod.history import AnyStep
from situate.testing.vpod.invariants.rules import VpodWatchdog
from situate.testing.vpod.recovery import record_late_events, recover, restore_nodes, set_nodes_full
from situate.testing.vpod.world.world import GROUPS_PATH, NAMESPACE, STATEFULSET, TENANTS, VPodMember, VPodWorld
from situate.vpod.model.vpod import PRIORITY_ANNOTATION_KEY, WEIGHT_ANNOTATION_KEY
from situate.vpod.scaling.drain import vpods_on_drained_pods

DEAF_FOR_S = 0.05
"""Seconds within which any answer has arrived."""
DRAIN_WITHIN_S = 60.0
"""Seconds within which a drain must begin to be disturbed."""
CUT_FOR_S = 12.0
"""Seconds from a disturbed scale-down until statuses can be written again. A round comes earlier and cannot evict."""

_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_SET = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{STATEFULSET}"
_UNSCHEDULABLE = "eventing.knative.dev/unschedulable"
_LOAD = (steps.SetSource, steps.DeleteSource, Pass, steps.Rest)


def perform(world: VPodWorld, watchdog: VpodWatchdog, step: AnyStep) -> None:
    """Perform a step. Any step but load ends the timing of promises."""
    if not isinstance(step, _LOAD):
        watchdog.liveness.end_timing()
    if _perform_step(world, watchdog, step):
        world.happened[type(step).__name__] += 1
    watchdog.liveness.update_times()


def _perform_step(world: VPodWorld, watchdog: VpodWatchdog, step: AnyStep) -> bool:
    match step:
        case steps.SetSource(source=source, wanted=wanted):
            _set_source(world, source, wanted)
        case steps.DeleteSource(source=source):
            return _is_done(world.call("DELETE", _source_path(source)))
        case steps.LoseScaleAnswer():
            _lose_scale_answer(world)
        case steps.DeletePod(ordinal=ordinal):
            return _is_done(world.call("DELETE", f"{_PODS}/{STATEFULSET}-{ordinal}"))
        case steps.HoldPods(held=held):
            return set_nodes_full(world, held=held)
        case steps.LoseNode(node=node):
            return _lose_node(world, node)
        case steps.LoseZone(zone=zone):
            return sum([_lose_node(world, node) for node in range(zone, steps.NODES, 3)]) > 0
        case RestoreNodes():
            return restore_nodes(world)
        case CordonNode(node=node):
            answer = world.call("PATCH", f"/api/v1/nodes/node-{node}", {"spec": {"unschedulable": True}}, patch=True)
            return _is_done(answer) and node in _nodes_in_use(world)
        case steps.AnnotatePod(ordinal=ordinal, on=on):
            return _annotate(world, watchdog, ordinal, on=on)
        case steps.ResetReplicas(replicas=replicas):
            before = watchdog.replicas()
            world.call("PATCH", _SET, {"spec": {"replicas": replicas}}, patch=True)
            return watchdog.replicas() != before
        case steps.SpoilStatus(source=source, kind=kind):
            return _spoil_status(world, watchdog, source, kind)
        case steps.ChangeCapacity(capacity=capacity):
            before = world.capacity
            world.reconfigure(capacity)
            return capacity != before
        case steps.FailWrites(source=source):
            world.network.failing_path = f"/consumergroups/s{source}/"
        case steps.MeetDrain(by=by):
            return _disturb_drain(world, by) if world.settings.drain else _await_scale_cut(world, watchdog)
        case steps.Rest():
            return recover(world, watchdog)
        case _:
            if isinstance(step, Storm | Calm):
                record_late_events(world)
            return world.process_faults.perform(step)
    return True


def _is_done(answer: dict[str, Any]) -> bool:
    """Return whether the server carried out the request."""
    return answer.get("kind") != "Status" or answer.get("status") == "Success"


def _nodes_in_use(world: VPodWorld) -> set[int]:
    """Return the nodes on which our pods run."""
    names = (pod["spec"].get("nodeName", "") for pod in world.pod_objects())
    return {int(name.removeprefix("node-")) for name in names if name}


def _lose_node(world: VPodWorld, node: int) -> bool:
    world.cluster.machinery.stop_kubelet(f"node-{node}")
    world.lost_nodes.add(node)
    world.plan_step()
    return node in _nodes_in_use(world)


def _annotate(world: VPodWorld, watchdog: VpodWatchdog, ordinal: int, *, on: bool) -> bool:
    pods = {pod["metadata"]["name"]: pod["metadata"].get("annotations") or {} for pod in world.pod_objects()}
    annotated = [name for name, annotations in pods.items() if annotations.get(_UNSCHEDULABLE) == "true"]
    name = f"{STATEFULSET}-{ordinal}" if on else next(iter(annotated), "")
    if name not in pods or (on and name in annotated):
        return False
    path = f"{_PODS}/{name}"
    world.call("PATCH", path, {"metadata": {"annotations": {_UNSCHEDULABLE: "true" if on else None}}}, patch=True)
    world.happened["AnnotatePod off"] += not on
    world.happened["AnnotatePod in mid-range"] += on and 0 < ordinal < watchdog.replicas() - 1
    return on


def _lose_scale_answer(world: VPodWorld) -> None:
    def lose(member: VPodMember) -> None:
        member.wire.deaf = True
        world.timeline.call_after(DEAF_FOR_S, member.wire.deliver_pending)

    faults = world.process_faults
    faults.await_answer(
        lambda request, answer: request.path.endswith("/scale") and answer.status < 300, faults.until_limit(lose)
    )


def _disturb_drain(world: VPodWorld, by: str) -> bool:
    """Remove demand, wait for a drain, and disturb it."""
    for source in range(0, steps.SOURCES, 2):
        _set_source(world, source, 0)
    if not world.let_pass(DRAIN_WITHIN_S, stop=lambda: _draining_leader(world) is not None):
        return False
    leader = _draining_leader(world)
    state = leader.controller.reconciler.state if leader is not None else None
    assert leader is not None
    assert state is not None
    match by:
        case "demand":
            for source in range(0, steps.SOURCES, 2):
                _set_source(world, source, 5)
        case "crash":
            world.end(leader)
        case _:
            stuck = next(iter(vpods_on_drained_pods(state)), None)
            world.network.failing_path = f"/consumergroups/{stuck.name}/" if stuck is not None else ""
            if stuck is None:
                return False
    world.happened[f"drain met {by}"] += 1
    return True


def _await_scale_cut(world: VPodWorld, watchdog: VpodWatchdog) -> bool:
    """Remove demand while no status can be written, until the scale has been cut.

    The statuses then still name removed pods, which the evictor must find.
    """
    before = watchdog.replicas()
    for source in range(0, steps.SOURCES, 2):
        _set_source(world, source, 0)
    world.network.failing_path = "/consumergroups/"
    met = world.let_pass(DRAIN_WITHIN_S, stop=lambda: watchdog.replicas() < before)
    world.happened["cut met"] += met
    world.let_pass(CUT_FOR_S)
    world.network.failing_path = ""
    return met


def _draining_leader(world: VPodWorld) -> VPodMember | None:
    leader = world.leader()
    state = leader.controller.reconciler.state if leader is not None else None
    return leader if state is not None and state.drain is not None else None


def _source_key(source: int) -> str:
    return f"{TENANTS[source % len(TENANTS)]}/s{source}"


def _source_path(source: int) -> str:
    return f"{GROUPS_PATH}/namespaces/{TENANTS[source % len(TENANTS)]}/consumergroups/s{source}"


def _set_source(world: VPodWorld, source: int, wanted: int) -> None:
    if world.has_group(_source_key(source)):
        world.call("PATCH", _source_path(source), {"spec": {"replicas": wanted}}, patch=True)
        return
    collection, _, name = _source_path(source).rpartition("/")
    annotations = {}
    if world.settings.weights and source % 3 == 0:
        annotations[WEIGHT_ANNOTATION_KEY] = "2"
    if world.settings.priorities and source % 4 == 0:
        annotations[PRIORITY_ANNOTATION_KEY] = "10"
    body = {
        "apiVersion": "internal.kafka.eventing.knative.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {
            "name": name,
            "labels": {"kafka.eventing.knative.dev/metadata.kind": "Test"},
            "annotations": annotations,
        },
        "spec": {"replicas": wanted, "template": {"spec": {"topics": [name]}}},
    }
    world.call("POST", collection, body)


def _spoil_status(world: VPodWorld, watchdog: VpodWatchdog, source: int, kind: str) -> bool:
    """Write an invalid status, as another controller or a person might."""
    pod = f"{STATEFULSET}-0"
    placements: object
    match kind:
        case "no ordinal":
            placements = [{"podName": "nothing", "vreplicas": 3}]
        case "huge ordinal":
            placements = [{"podName": f"{STATEFULSET}-999999999", "vreplicas": 2}]
        case "foreign pod":
            placements = [{"podName": "other-set-0", "vreplicas": 2}]
        case "negative":
            placements = [{"podName": pod, "vreplicas": -4}]
        case "duplicates":
            placements = [{"podName": pod, "vreplicas": 1}, {"podName": pod, "vreplicas": 1}]
        case "moved":
            placements = [{"podName": f"{STATEFULSET}-1", "vreplicas": 2}]
        case _:
            placements = None
    if not world.has_group(_source_key(source)):
        return False
    world.call("PATCH", f"{_source_path(source)}/status", {"status": {"placements": placements}}, patch=True)
    watchdog.record_outside_write(_source_key(source))
    world.happened[f"SpoilStatus {kind}"] += 1
    return True
