"""Plays histories: every step, the invariants after each, and healing at the end."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import assert_never

from situate.cluster.effects import Identity
from situate.cluster.watch import Watch
from situate.objects.messages import Request, Response
from situate.testing.network import CALM, Weather
from situate.testing.playing import Played
from situate.testing.processes import ProcessState, Stuck
from situate.testing.undisturbed import collector_at_rest, logs_off
from situate.testing.vpod import history as steps
from situate.testing.vpod.history import AnyStep, History
from situate.testing.vpod.invariants import Breach, Watchdog, drained, satisfied, unused
from situate.testing.vpod.world import GROUPS_PATH, NAMESPACE, STATEFULSET, TENANTS, VPodMember, VPodWorld
from situate.vpod.drain import leaving
from situate.vpod.model import PRIORITY_ANNOTATION_KEY, WEIGHT_ANNOTATION_KEY

HEALING_S = 900.0
"""Once all is calm, everything that is wanted runs within this time."""
QUIET_S = 120.0
"""Afterwards nothing is written for so long (B5)."""
KILL_WITHIN_S = 30.0
"""A leader that is to be killed at a message is left alone if there is none for so long."""
DRAIN_WITHIN_S = 60.0
"""A drain that is to be met has to begin within this time."""
CUT_FOR_S = 8.0
"""After a cut was met, until statuses can be written again."""

_STORMS = {
    "request lost": Weather(lose_request=0.3),
    "answer lost": Weather(lose_answer=0.3),
    "refused": Weather(refuse=0.5),
    "conflict": Weather(conflict=0.5),
    "late events": Weather(event_delay_s=30.0),
    "lost events": Weather(lose_event=0.3),
    "repeated": Weather(repeat_event=0.5),
    "swapped": Weather(swap_events=0.5),
    "blind": Weather(lose_answer=0.3, event_delay_s=30.0),
}


def play(history: History) -> Played:
    """Runs a history from an empty cluster. Equal histories go equally."""
    with collector_at_rest(), logs_off():
        return _play(history)


def _play(history: History) -> Played:
    world = VPodWorld(history.seed, history.settings)
    watchdog = Watchdog(world)
    played = Played()
    happened = played.happened
    happened.update(history.settings.names())
    world.told.append(lambda request, answer, _: _count_write(happened, request, answer, watchdog))
    try:
        for number, step in enumerate(history.steps):
            played.at_step = number
            happened[type(step).__name__] += 1
            perform(world, watchdog, step, happened)
            world.let_pass(step.wait)
            watchdog.check()
        _heal(world, watchdog)
    except (Breach, Stuck) as breach:
        played.breach = str(breach)
    finally:
        happened.update(world.network.happened)
        happened.update({f"Event {reason}": number for reason, number in world.events.items()})
        played.writes = watchdog.writes
        played.virtual_s = world.now
        played.story = watchdog.story()
        world.close()
    return played


def _count_write(happened: Counter[str], request: Request, answer: Response | Watch, watchdog: Watchdog) -> None:
    """Each kind of action that vpod took."""
    if not isinstance(answer, Response):
        return
    if answer.status >= 300:
        if request.path.endswith("/scale"):
            happened["scale lost or refused"] += 1
    elif request.path.endswith("/scale"):
        happened["scale raised" if watchdog.raised() else "scale cut"] += 1
    elif request.path.endswith("/status"):
        evicted = request.headers.get("content-type") == "application/json-patch+json"
        happened["placement evicted" if evicted else "status written"] += 1
    elif "/consumers" in request.path:
        happened["worker written"] += 1


def perform(world: VPodWorld, watchdog: Watchdog, step: AnyStep, happened: Counter[str] | None = None) -> None:
    """Does what a step says; what is impossible at the moment, such as killing a leader that is none, is left out.

    `happened` counts what a step's name does not say.
    """
    happened = Counter() if happened is None else happened
    match step:
        case steps.SetSource(source=source, wanted=wanted):
            _set_source(world, source, wanted)
        case steps.DeleteSource(source=source):
            world.call("DELETE", _path(source))
        case steps.KillLeader():
            if (member := world.leader()) is not None:
                world.end(member)
        case steps.KillLeaderAt(message=message, answered=answered):
            _kill_at(world, message, answered, happened)
        case steps.KillStandby():
            leader = world.leader()
            standby = next((m for m in world.members if m is not leader), None)
            if standby is not None:
                world.end(standby)
        case steps.PauseLeader(seconds=seconds):
            if (member := world.leader()) is not None:
                member.process.pause()
                world.timeline.after(seconds, partial(_wake, member, happened))
        case steps.StopLeader():
            if (member := world.leader()) is not None:
                world.stop(member)
        case steps.DeletePod(ordinal=ordinal):
            world.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{STATEFULSET}-{ordinal}")
        case steps.HoldPods(held=held, wait=wait):
            _hold_pods(world, held=held)
            if held and wait >= 3600.0:
                happened["an hour without room"] += 1
        case steps.LoseNode(node=node):
            _lose(world, node)
        case steps.LoseZone(zone=zone):
            for node in range(zone, steps.NODES, 3):
                _lose(world, node)
        case steps.RestoreNodes():
            _restore_nodes(world)
        case steps.CordonNode(node=node):
            world.call("PATCH", f"/api/v1/nodes/node-{node}", {"spec": {"unschedulable": True}}, patch=True)
        case steps.AnnotatePod(ordinal=ordinal, on=on):
            if not on:
                happened["AnnotatePod off"] += 1
            annotations = {"eventing.knative.dev/unschedulable": "true" if on else None}
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{STATEFULSET}-{ordinal}"
            world.call("PATCH", path, {"metadata": {"annotations": annotations}}, patch=True)
        case steps.ResetReplicas(replicas=replicas):
            path = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{STATEFULSET}"
            world.call("PATCH", path, {"spec": {"replicas": replicas}}, patch=True)
        case steps.SpoilStatus(source=source, kind=kind):
            happened[f"SpoilStatus {kind}"] += 1
            _spoil(world, source, kind)
            watchdog.outside_write(_key(source))
        case steps.ChangeCapacity(capacity=capacity):
            world.reconfigure(capacity)
        case steps.FailWrites(source=source):
            world.network.failing = f"/consumergroups/s{source}/"
        case steps.MeetDrain(by=by):
            if world.settings.drain:
                _meet_drain(world, by, happened)
            else:
                _meet_cut(world, watchdog, happened)
        case steps.Storm(kind=kind):
            world.network.weather = _STORMS[kind]
        case steps.Calm():
            world.network.weather = CALM
            world.network.failing = ""
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
    world.network.failing = ""
    world.network.down = False
    world.network.leaving.clear()
    for member in world.members:
        member.process.resume()
    _hold_pods(world, held=False)
    _restore_nodes(world)
    for name in world.pods():
        annotations = {"eventing.knative.dev/unschedulable": None}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
        world.call("PATCH", path, {"metadata": {"annotations": annotations}}, patch=True)
    end = world.now + HEALING_S
    while (missing := satisfied(watchdog) or drained(watchdog)) is not None:
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
        if watchdog.writes == before and drained(watchdog) is None:
            if (kept := unused(watchdog)) is not None:
                raise Breach(f"L4: nothing was written for {QUIET_S:g} s and {kept}")
            return
    raise Breach(f"B5: vpod still writes {2 * HEALING_S:g} s after the last fault")


def _wake(member: VPodMember, happened: Counter[str]) -> None:
    """SIGCONT. Whoever slept for longer than its Lease believes that it leads until it looks at the clock."""
    if member.process.state is ProcessState.PAUSED:
        happened["stale leader woke up"] += not member.controller.elector.leading()
        member.process.resume()


def _lose(world: VPodWorld, node: int) -> None:
    world.cluster.machinery.stop_kubelet(f"node-{node}")
    world.plan_step()


def _kill_at(world: VPodWorld, message: str, answered: bool, happened: Counter[str]) -> None:
    """The next write of this kind that a leader makes is its last."""
    until = world.now + KILL_WITHIN_S
    network = world.network

    def meant(request: Request) -> bool:
        return request.method != "GET" and request.path.endswith(f"/{message}")

    def kill(identity: Identity, when: str) -> None:
        member = next((m for m in world.members if m.identity == identity.user), None)
        if member is not None and world.now <= until:
            happened[f"leader killed before {when}"] += 1
            world.end(member)

    def left(request: Request, identity: Identity) -> None:
        if meant(request):
            network.leaving.remove(left)
            kill(identity, f"its {message} left")

    def arrived(request: Request, _: Response | Watch, identity: Identity) -> None:
        if meant(request):
            world.told.remove(arrived)
            kill(identity, f"the answer to its {message}")

    if answered:
        world.told.append(arrived)
    else:
        network.leaving.append(left)


def _meet_drain(world: VPodWorld, by: str, happened: Counter[str]) -> None:
    """Takes demand away, waits for a drain, and gets in its way."""
    for source in range(0, steps.SOURCES, 2):
        _set_source(world, source, 0)
    if not world.let_pass(DRAIN_WITHIN_S, stop=lambda: _draining(world) is not None):
        return
    leader = _draining(world)
    state = leader.controller.placing.state if leader is not None else None
    assert leader is not None
    assert state is not None
    happened[f"drain met {by}"] += 1
    match by:
        case "demand":
            for source in range(0, steps.SOURCES, 2):
                _set_source(world, source, 5)
        case "crash":
            world.end(leader)
        case _:
            stuck = next(iter(leaving(state)), None)
            world.network.failing = f"/consumergroups/{stuck.name}/" if stuck is not None else ""


def _meet_cut(world: VPodWorld, watchdog: Watchdog, happened: Counter[str]) -> None:
    """Takes demand away while no status can be written, until the scale has been cut: then pods that go are still
    named by statuses, for the evictor to find."""
    before = watchdog.replicas()
    for source in range(0, steps.SOURCES, 2):
        _set_source(world, source, 0)
    world.network.failing = "/consumergroups/"
    happened["cut met"] += world.let_pass(DRAIN_WITHIN_S, stop=lambda: watchdog.replicas() < before)
    world.let_pass(CUT_FOR_S)
    world.network.failing = ""


def _draining(world: VPodWorld) -> VPodMember | None:
    leader = world.leader()
    state = leader.controller.placing.state if leader is not None else None
    return leader if state is not None and state.drain is not None else None


def _key(source: int) -> str:
    return f"{TENANTS[source % len(TENANTS)]}/s{source}"


def _path(source: int) -> str:
    return f"{GROUPS_PATH}/namespaces/{TENANTS[source % len(TENANTS)]}/consumergroups/s{source}"


def _set_source(world: VPodWorld, source: int, wanted: int) -> None:
    answer = world.call("PATCH", _path(source), {"spec": {"replicas": wanted}}, patch=True)
    if answer.get("code") == 404:
        collection, _, name = _path(source).rpartition("/")
        labels = {"kafka.eventing.knative.dev/metadata.kind": "Test"}
        annotations = {}
        if world.settings.weights and source % 3 == 0:
            annotations[WEIGHT_ANNOTATION_KEY] = "2"
        if world.settings.priorities and source % 4 == 0:
            annotations[PRIORITY_ANNOTATION_KEY] = "10"
        body = {
            "apiVersion": "internal.kafka.eventing.knative.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": {"replicas": wanted, "template": {"spec": {"topics": [name]}}},
        }
        world.call("POST", collection, body)


def _hold_pods(world: VPodWorld, *, held: bool) -> None:
    """All nodes but those that run something already are full, as far as new pods are concerned."""
    taints = [{"key": "test/full", "effect": "NoSchedule"}] if held else None
    for number in range(steps.NODES):
        if world.node(number)["spec"].get("taints") != taints:
            world.call("PATCH", f"/api/v1/nodes/node-{number}", {"spec": {"taints": taints}}, patch=True)


def _restore_nodes(world: VPodWorld) -> None:
    for number in range(steps.NODES):
        world.cluster.machinery.start_kubelet(f"node-{number}")
        if world.node(number)["spec"].get("unschedulable"):
            world.call("PATCH", f"/api/v1/nodes/node-{number}", {"spec": {"unschedulable": None}}, patch=True)
    world.plan_step()


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
