"""Play histories of the scheduler: every step, the invariants after each, and the healing at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, assert_never

import msgspec

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.scheduler.config.setup import Setup
from situate.sim.shrink import shrink
from situate.testing.builders.objects import pod as pod_object
from situate.testing.histories.play import HistoryResult
from situate.testing.histories.steps import Calm, CutWatches, KillLeader, ServerDown, StopLeader
from situate.testing.scheduler import history as steps
from situate.testing.scheduler.history import AnyStep, SchedulerHistory
from situate.testing.scheduler.invariants import SchedulerBreach, SchedulerWatchdog, overfull_node, unsettled_pod
from situate.testing.scheduler.world import FOREIGN_NODE, NAMESPACE, SchedulerMember, SchedulerWorld
from situate.testing.virtual_time.isolation import disable_collector, suppress_logs
from situate.testing.virtual_time.network import NO_FAULTS, NetworkFaults
from situate.testing.virtual_time.processes import ProcessesStuck, ProcessState

HEALING_S = 900.0
"""Seconds after the last fault within which every Pod that can have a node must have one."""
QUIET_S = 60.0
"""Seconds without a write after which no work is left."""
KILL_WITHIN_S = 60.0
"""Seconds after which a planned kill or pause of the leader is dropped if the leader sends no such write."""
_PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"

_STORMS = {
    "request lost": NetworkFaults(lose_request=0.3),
    "answer lost": NetworkFaults(lose_answer=0.3),
    "refused": NetworkFaults(refuse=0.5),
    "conflict": NetworkFaults(conflict=0.5),
    "late events": NetworkFaults(event_delay_s=20.0),
    "blind": NetworkFaults(lose_answer=0.3, event_delay_s=20.0),
}


def play(history: SchedulerHistory, setup: Setup | None = None) -> HistoryResult:
    """Run a history from an empty cluster, with the built-in profile or another setup. Equal histories run equally."""
    with disable_collector(), suppress_logs():
        return _play(history, setup)


def shortened(history: SchedulerHistory, setup: Setup | None = None, *, most_tries: int = 100) -> SchedulerHistory:
    """Return a shorter history that still fails with this setup."""

    def of(steps: Sequence[AnyStep]) -> SchedulerHistory:
        return msgspec.structs.replace(history, steps=tuple(steps))

    return of(shrink(history.steps, lambda steps: play(of(steps), setup).breach is not None, most_tries=most_tries))


def _play(history: SchedulerHistory, setup: Setup | None) -> HistoryResult:
    world = SchedulerWorld(history.seed, setup)
    watchdog = SchedulerWatchdog(world)
    played = HistoryResult()
    story = _StepPerformer(world, watchdog.happened)
    try:
        for number, step in enumerate(history.steps):
            played.at_step = number
            watchdog.happened[type(step).__name__] += 1
            story.perform(step)
            world.let_pass(step.wait)
            watchdog.check()
        _heal(world, watchdog)
    except (SchedulerBreach, ProcessesStuck) as breach:
        played.breach = str(breach)
    finally:
        played.happened = watchdog.happened + world.network.happened + world.events
        played.writes = watchdog.writes
        played.virtual_s = world.now
        played.digest = watchdog.digest()
        world.close()
    return played


def _heal(world: SchedulerWorld, watchdog: SchedulerWatchdog) -> None:
    """End every fault, wait until no work is left, and then wait for a time without writes."""
    world.network.faults = NO_FAULTS
    world.network.down = False
    world.network.send_listeners.clear()
    for member in world.members:
        member.process.resume()
    _restore_nodes(world)
    end = world.now + HEALING_S
    while world.now < end:
        before = watchdog.writes
        world.let_pass(QUIET_S)
        watchdog.check()
        if (missing := unsettled_pod(world)) is None and watchdog.writes == before:
            break
    else:
        raise SchedulerBreach(f"{HEALING_S:g} s after the last fault: {missing or 'the scheduler still writes'}")
    over = overfull_node(world)
    if over:
        raise SchedulerBreach(over)


class _StepPerformer:
    """Performs steps. A step that is impossible now, such as killing a leader when none leads, does nothing."""

    def __init__(self, world: SchedulerWorld, happened: Counter[str]) -> None:
        self._world = world
        self._happened = happened
        self._created_count = 0

    def perform(self, step: AnyStep) -> None:
        world = self._world
        match step:
            case steps.CreatePods(count=count, cpu_milli=cpu, priority=priority):
                self._create_pods(count, cpu, priority)
            case steps.DeletePod(number=number):
                self._act_on_pod(number, world.pods(), lambda name: world.call("DELETE", f"{_PODS_PATH}/{name}"))
            case steps.LabelPods():
                for pod in _pending_pods(world):
                    labels = {"metadata": {"labels": {"seen": f"at-{int(world.now)}"}}}
                    world.call("PATCH", f"{_PODS_PATH}/{pod['metadata']['name']}", labels, patch=True)
            case steps.BindElsewhere(number=number):
                self._act_on_pod(number, _pending_pods(world), self._bind_elsewhere)
            case KillLeader():
                if (member := world.leader()) is not None:
                    world.end(member)
            case steps.KillLeaderAt(message=message, answered=answered):
                self._plan_at_write(message, answered, "killed", world.end)
            case steps.PauseLeaderAt(message=message, answered=answered, seconds=seconds):
                self._plan_at_write(message, answered, "paused", partial(self._pause, seconds=seconds))
            case StopLeader():
                if (member := world.leader()) is not None:
                    world.stop(member)
            case steps.RemoveNode(node=node):
                world.call("DELETE", f"/api/v1/nodes/node-{node}")
            case steps.RestoreNodes():
                _restore_nodes(world)
            case steps.CordonNode(node=node):
                world.call("PATCH", f"/api/v1/nodes/node-{node}", {"spec": {"unschedulable": True}}, patch=True)
            case steps.Storm(kind=kind):
                world.network.faults = _STORMS[kind]
            case Calm():
                world.network.faults = NO_FAULTS
            case CutWatches(compact=compact):
                if compact:
                    world.cluster.api.store.compact()
                world.network.cut_watches()
            case ServerDown(seconds=seconds):
                world.network.down = True
                world.network.cut_watches()
                world.timeline.call_after(seconds, lambda: setattr(world.network, "down", False))
            case _:
                assert_never(step)

    def _create_pods(self, count: int, cpu: int, priority: int) -> None:
        for _ in range(count):
            self._created_count += 1
            made = pod_object(f"pod-{self._created_count}", cpu=f"{cpu}m" if cpu else "", scheduler="situate")
            made["spec"] |= {"terminationGracePeriodSeconds": 1, "priorityClassName": f"worth-{priority}"}
            answer = self._world.call("POST", _PODS_PATH, made)
            assert answer["kind"] == "Pod", answer

    def _act_on_pod(self, number: int, pods: Sequence[Any], do: Callable[[str], object]) -> None:
        if pods:
            do(pods[number % len(pods)]["metadata"]["name"])

    def _bind_elsewhere(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": FOREIGN_NODE}}
        if self._world.call("POST", f"{_PODS_PATH}/{name}/binding", body).get("status") == "Success":
            self._happened["bound by another scheduler"] += 1

    def _plan_at_write(self, message: str, answered: bool, what: str, do: Callable[[SchedulerMember], None]) -> None:
        """Plan an action on a leader at its next write of a kind."""
        world, happened = self._world, self._happened
        until = world.now + KILL_WITHIN_S

        def meant(request: Request) -> bool:
            if message == "delete":
                return request.method == "DELETE"
            return request.method != "GET" and request.path.endswith(f"/{message}")

        def met(identity: Identity, when: str) -> None:
            member = next((m for m in world.members if m.identity == identity.user), None)
            if member is not None and world.now <= until:
                happened[f"leader {what} {when}"] += 1
                do(member)

        def left(request: Request, identity: Identity) -> None:
            if meant(request):
                world.network.send_listeners.remove(left)
                met(identity, f"before its {message} left")

        def arrived(request: Request, _: Response | Watch, identity: Identity) -> None:
            if meant(request):
                world.request_listeners.remove(arrived)
                met(identity, f"before the answer to its {message}")

        if answered:
            world.request_listeners.append(arrived)
        else:
            world.network.send_listeners.append(left)

    def _pause(self, member: SchedulerMember, seconds: float) -> None:
        member.process.pause()
        self._world.timeline.call_after(seconds, lambda: self._resume(member))

    def _resume(self, member: SchedulerMember) -> None:
        """Resume a process (SIGCONT).

        A leader paused longer than its Lease believes that it leads until it reads the clock.
        """
        if member.process.state is ProcessState.PAUSED:
            elector = member.controller.elector
            self._happened["stale leader woke up"] += elector is not None and not elector.is_leader()
            member.process.resume()


def _pending_pods(world: SchedulerWorld) -> list[dict[str, Any]]:
    return [each for each in world.pods() if not each["spec"].get("nodeName")]


def _restore_nodes(world: SchedulerWorld) -> None:
    present = {each["metadata"]["name"] for each in world.objects("nodes")}
    for number in range(steps.NODES):
        if f"node-{number}" not in present:
            world.add_node(number)
        world.call("PATCH", f"/api/v1/nodes/node-{number}", {"spec": {"unschedulable": None}}, patch=True)
