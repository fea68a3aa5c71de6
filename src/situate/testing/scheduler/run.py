"""Play histories of the scheduler: every step, the invariants after each, and the healing at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from situate.scheduler.config.setup import Setup
from situate.testing.builders.objects import pod as pod_object
from situate.testing.histories.play import HistoryResult, Product, shorten_history
from situate.testing.histories.process_faults import ProcessFaults
from situate.testing.histories.run import run_history
from situate.testing.histories.steps import CordonNode, RestoreNodes
from situate.testing.histories.watchdog import HistoryBreach
from situate.testing.scheduler import history as steps
from situate.testing.scheduler.history import AnyStep, SchedulerHistory, generate
from situate.testing.scheduler.invariants import SchedulerWatchdog, overfull_node, unsettled_pod
from situate.testing.scheduler.world import FOREIGN_NODE, NAMESPACE, SchedulerWorld
from situate.testing.virtual_time.isolation import isolate_history

HEALING_S = 900.0
"""Seconds after the last fault within which every Pod that can have a node must have one."""
QUIET_S = 60.0
"""Seconds without a write after which no work is left."""
KILL_WITHIN_S = 60.0
"""Seconds after which a planned kill or pause of the leader is dropped if the leader sends no such write."""
_PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"

_MOMENTS = (
    "before its binding left",
    "before the answer to its binding",
    "before its status left",
    "before the answer to its status",
    "before the answer to its delete",
)

FAULTS: Final = {
    "preemption": ("victim deleted",),
    "another scheduler": ("bound by another scheduler",),
    "network": (
        "request lost",
        "answer lost",
        "request refused",
        "write in conflict",
        "event delayed",
        "watch cut",
        "binding written answered 409",
    ),
    "leader killed": tuple(f"leader killed {moment}" for moment in _MOMENTS),
    "leader paused": ("stale leader woke up", *(f"leader paused {moment}" for moment in _MOMENTS)),
}
"""Kinds of faults, each with the names that must occur."""


@isolate_history()
def play(history: SchedulerHistory, setup: Setup | None = None) -> HistoryResult:
    """Run a history from an empty cluster, with the built-in profile or another setup. Equal histories run equally."""
    world = SchedulerWorld(history.seed, setup)
    watchdog = SchedulerWatchdog(world)
    performer = _StepPerformer(world)
    played = run_history(
        history, world, watchdog, perform=performer.perform, heal=lambda: _heal(world, watchdog, performer)
    )
    played.happened.update(world.events)  # users' tests count Events by their plain reason
    return played


def shortened(history: SchedulerHistory, setup: Setup | None = None, *, most_tries: int = 100) -> SchedulerHistory:
    """Return a shorter history that still fails with this setup."""
    return shorten_history(history, lambda shorter: play(shorter, setup), most_tries)


def _heal(world: SchedulerWorld, watchdog: SchedulerWatchdog, performer: _StepPerformer) -> None:
    """End every fault, wait until no work is left, and then wait for a time without writes."""
    performer.faults.heal()
    _restore_nodes(world)
    end = world.now + HEALING_S
    while world.now < end:
        before = watchdog.writes
        world.let_pass(QUIET_S)
        watchdog.check()
        if (missing := unsettled_pod(world)) is None and watchdog.writes == before:
            break
    else:
        raise HistoryBreach(f"{HEALING_S:g} s after the last fault: {missing or 'the scheduler still writes'}")
    over = overfull_node(world)
    if over:
        raise HistoryBreach(over)


class _StepPerformer:
    """Performs steps. A step that is impossible now, such as killing a leader when none leads, does nothing."""

    def __init__(self, world: SchedulerWorld) -> None:
        self.faults = ProcessFaults(world, steps.STORMS, trigger_limit_s=KILL_WITHIN_S)
        self._world = world
        self._created_count = 0

    def perform(self, step: AnyStep) -> None:
        world = self._world
        world.happened[type(step).__name__] += 1
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
            case steps.RemoveNode(node=node):
                world.call("DELETE", f"/api/v1/nodes/node-{node}")
            case RestoreNodes():
                _restore_nodes(world)
            case CordonNode(node=node):
                world.call("PATCH", f"/api/v1/nodes/node-{node}", {"spec": {"unschedulable": True}}, patch=True)
            case _:
                self.faults.perform(step)

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
            self._world.happened["bound by another scheduler"] += 1


def _pending_pods(world: SchedulerWorld) -> list[dict[str, Any]]:
    return [each for each in world.pods() if not each["spec"].get("nodeName")]


def _restore_nodes(world: SchedulerWorld) -> None:
    present = {each["metadata"]["name"] for each in world.objects("nodes")}
    for number in range(steps.NODES):
        if f"node-{number}" not in present:
            world.add_node(number)
        world.call("PATCH", f"/api/v1/nodes/node-{number}", {"spec": {"unschedulable": None}}, patch=True)


PRODUCT: Final = Product("situate.testing.scheduler", generate, SchedulerHistory.from_json, play, FAULTS, "scheduler-")
