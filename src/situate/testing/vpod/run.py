"""Plays histories: every step, the invariants after each, healing at the end, and the shrinking of a failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

import msgspec

from situate.sim.shrink import shrink
from situate.testing.network import CALM, Weather
from situate.testing.processes import Stuck
from situate.testing.vpod import history as steps
from situate.testing.vpod.history import AnyStep, History
from situate.testing.vpod.invariants import Breach, Watchdog, satisfied
from situate.testing.vpod.world import GROUPS_PATH, NAMESPACE, STATEFULSET, TENANTS, VPodWorld

HEALING_S = 900.0
"""Once all is calm, everything that is wanted runs within this time."""
QUIET_S = 120.0
"""Afterwards nothing is written for so long (B5)."""

_STORMS = {
    "request lost": Weather(lose_request=0.3),
    "answer lost": Weather(lose_answer=0.3),
    "refused": Weather(refuse=0.5),
    "conflict": Weather(conflict=0.5),
    "late events": Weather(event_delay_s=30.0),
    "lost events": Weather(lose_event=0.3),
    "repeated": Weather(repeat_event=0.5),
    "swapped": Weather(swap_events=0.5),
}


@dataclass(slots=True)
class Played:
    """How a history went."""

    breach: str | None = None
    """The first invariant that did not hold, or what kept the end from being reached."""
    at_step: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    """How often each kind of step, of trouble on the network, and of Event occurred."""
    writes: int = 0
    virtual_s: float = 0.0


def play(history: History) -> Played:
    """Runs a history from an empty cluster. Equal histories go equally."""
    world = VPodWorld(history.seed, history.settings)
    watchdog = Watchdog(world)
    played = Played()
    try:
        for number, step in enumerate(history.steps):
            played.at_step = number
            played.happened[type(step).__name__] += 1
            perform(world, watchdog, step)
            world.let_pass(step.wait)
            watchdog.check()
        _heal(world, watchdog)
    except (Breach, Stuck) as breach:
        played.breach = str(breach)
    finally:
        played.happened.update(world.network.happened)
        played.happened.update({f"Event {reason}": number for reason, number in world.events.items()})
        played.writes = watchdog.writes
        played.virtual_s = world.now
        world.close()
    return played


def shortened(history: History, *, most_tries: int = 200) -> History:
    """A short history that still fails."""

    def fails(candidate: Sequence[AnyStep]) -> bool:
        return play(msgspec.structs.replace(history, steps=tuple(candidate))).breach is not None

    return msgspec.structs.replace(history, steps=shrink(history.steps, fails, most_tries=most_tries))


def perform(world: VPodWorld, watchdog: Watchdog, step: AnyStep) -> None:
    """Does what a step says; what is impossible at the moment, such as killing a leader that is none, is left out."""
    match step:
        case steps.SetSource(source=source, wanted=wanted):
            _set_source(world, source, wanted)
        case steps.DeleteSource(source=source):
            world.call("DELETE", _path(source))
        case steps.KillLeader():
            if (member := world.leader()) is not None:
                world.end(member)
        case steps.KillStandby():
            leader = world.leader()
            standby = next((m for m in world.members if m is not leader), None)
            if standby is not None:
                world.end(standby)
        case steps.PauseLeader(seconds=seconds):
            if (member := world.leader()) is not None:
                member.process.pause()
                world.timeline.after(seconds, member.process.resume)
        case steps.StopLeader():
            if (member := world.leader()) is not None:
                world.stop(member)
        case steps.DeletePod(ordinal=ordinal):
            world.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{STATEFULSET}-{ordinal}")
        case steps.HoldPods(held=held):
            _hold_pods(world, held=held)
        case steps.LoseNode(node=node):
            world.cluster.machinery.stop_kubelet(f"node-{node}")
            world.call("GET", "/api/v1/nodes")
        case steps.RestoreNodes():
            _restore_nodes(world)
        case steps.CordonNode(node=node):
            world.call("PATCH", f"/api/v1/nodes/node-{node}", {"spec": {"unschedulable": True}}, patch=True)
        case steps.AnnotatePod(ordinal=ordinal, on=on):
            annotations = {"eventing.knative.dev/unschedulable": "true" if on else None}
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{STATEFULSET}-{ordinal}"
            world.call("PATCH", path, {"metadata": {"annotations": annotations}}, patch=True)
        case steps.ResetReplicas(replicas=replicas):
            path = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{STATEFULSET}"
            world.call("PATCH", path, {"spec": {"replicas": replicas}}, patch=True)
        case steps.SpoilStatus(source=source, kind=kind):
            _spoil(world, source, kind)
            watchdog.excuse()
        case steps.ChangeCapacity(capacity=capacity):
            world.reconfigure(capacity)
            watchdog.excuse()
        case steps.Storm(kind=kind):
            world.network.weather = _STORMS[kind]
        case steps.Calm():
            world.network.weather = CALM
        case steps.CutWatches(compact=compact):
            if compact:
                world.cluster.api.store.compact()
            world.network.cut_watches()
        case steps.ServerDown(seconds=seconds):
            world.network.down = True
            world.network.cut_watches()
            world.timeline.after(seconds, lambda: setattr(world.network, "down", False))
        case steps.Pass():
            pass
        case _:
            assert_never(step)


def _heal(world: VPodWorld, watchdog: Watchdog) -> None:
    """Ends every fault, waits for what the liveness rules promise, and for silence after that."""
    world.network.weather = CALM
    for member in world.members:
        member.process.resume()
    _hold_pods(world, held=False)
    _restore_nodes(world)
    for ordinal in range(64):
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{STATEFULSET}-{ordinal}"
        annotations = {"eventing.knative.dev/unschedulable": None}
        world.call("PATCH", path, {"metadata": {"annotations": annotations}}, patch=True)
    end = world.now + HEALING_S
    while (missing := satisfied(watchdog)) is not None:
        world.let_pass(5.0)
        watchdog.check()
        if world.now > end:
            raise Breach(f"L: {HEALING_S:g} s after the last fault: {missing}")
    while world.now < end + HEALING_S:
        before = watchdog.writes
        world.let_pass(QUIET_S)
        watchdog.check()
        if (missing := satisfied(watchdog)) is not None:
            raise Breach(f"L: it was well and is not any more: {missing}")
        if watchdog.writes == before:
            return
    raise Breach(f"B5: vpod still writes {2 * HEALING_S:g} s after the last fault")


def _path(source: int) -> str:
    return f"{GROUPS_PATH}/namespaces/{TENANTS[source % len(TENANTS)]}/consumergroups/s{source}"


def _set_source(world: VPodWorld, source: int, wanted: int) -> None:
    answer = world.call("PATCH", _path(source), {"spec": {"replicas": wanted}}, patch=True)
    if answer.get("code") == 404:
        collection, _, name = _path(source).rpartition("/")
        labels = {"kafka.eventing.knative.dev/metadata.kind": "Test"}
        body = {
            "apiVersion": "internal.kafka.eventing.knative.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": name, "labels": labels},
            "spec": {"replicas": wanted, "template": {"spec": {"topics": [name]}}},
        }
        world.call("POST", collection, body)


def _hold_pods(world: VPodWorld, *, held: bool) -> None:
    """All nodes but those that run something already are full, as far as new pods are concerned."""
    for number in range(steps.NODES):
        taints = [{"key": "test/full", "effect": "NoSchedule"}] if held else None
        world.call("PATCH", f"/api/v1/nodes/node-{number}", {"spec": {"taints": taints}}, patch=True)


def _restore_nodes(world: VPodWorld) -> None:
    for number in range(steps.NODES):
        world.cluster.machinery.start_kubelet(f"node-{number}")
        world.call("PATCH", f"/api/v1/nodes/node-{number}", {"spec": {"unschedulable": None}}, patch=True)


def _spoil(world: VPodWorld, source: int, kind: str) -> None:
    """What somebody else's controller, or a person, might write."""
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
    world.call("PATCH", f"{_path(source)}/status", {"status": {"placements": placements}}, patch=True)
