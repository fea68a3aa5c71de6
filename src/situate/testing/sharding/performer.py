"""Perform the steps of a history on the shipped supervisor and executors, and heal everything at its end.

An executor has one event loop here, without a thread for its Lease. So a blocked loop is a paused process. Tests with
real executors cover the thread that renews the Lease and ends the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Final, assert_never

from situate.kube.errors import KubeError
from situate.sharding.executor.controller.work import NotOwner, Work
from situate.sharding.executor.next_step import Outcome
from situate.sharding.fencing.admit import Role, Writer
from situate.sharding.leases.membership import OUT_OF_SERVICE
from situate.sharding.model.field_paths import Content
from situate.sharding.model.names import CORDON, FINALIZER
from situate.sharding.model.object_view import ObjectView, view_of
from situate.sharding.model.supervisor_config import OrphanPolicy, SupervisorConfig
from situate.sharding.rebalancing import Goal, RebalanceConfig
from situate.testing.sharding import steps
from situate.testing.sharding.history import EXECUTORS, FASTEST, OBJECTS, ShardingHistorySettings
from situate.testing.sharding.world.executor_world import NAMESPACE, ExecutorProcess
from situate.testing.sharding.world.reports import PATHS, REPORTS
from situate.testing.sharding.world.sharding_world import ShardingWorld
from situate.testing.sharding.world.supervisor_world import LABELS, PODS, SupervisorProcess
from situate.testing.virtual_time.network import NO_FAULTS, NetworkFaults, Wire
from situate.testing.virtual_time.processes import ProcessState

FOREIGN: Final = "others.example.com/hold"
BALANCE: Final = RebalanceConfig(Goal.EVEN, hysteresis_s=5.0, interval_s=10.0, cool_down_s=5.0, quiet_period_s=3.0)
_STORM_FAULTS: Final[dict[str, NetworkFaults]] = {
    "request lost": NetworkFaults(lose_request=0.15),
    "answer lost": NetworkFaults(lose_answer=0.15),
    "refused": NetworkFaults(refuse=0.2),
    "conflict": NetworkFaults(conflict=0.2),
    "late writes": NetworkFaults(late_write_s=25.0),
    "late events": NetworkFaults(event_delay_s=10.0, event_jitter_s=20.0),
    "event lost": NetworkFaults(lose_event=0.3),
    "events swapped": NetworkFaults(swap_events=0.3),
}
_SUCCESSOR_DELAY_S: Final = 3.0
"""Seconds from the end of a process to the start of its replacement."""
_LEAVES_S: Final = 0.0004
"""Seconds after which a request has left and has not arrived yet."""
_WRITER: Final = Writer(Role.OTHER)


class UserEditRefused(Exception):
    """An edit that a user may make was refused (8.2: the fence must not lock users out)."""


def supervisor_config(settings: ShardingHistorySettings) -> SupervisorConfig:
    """Return the shipped configuration, with shorter times."""
    return SupervisorConfig(
        archive_ttl=4.0,
        requeue_delay=20.0,
        drain_timeout=8.0,
        max_reassigns=50,
        drain_unhealthy=settings.drain_unhealthy,
        orphan_policy=OrphanPolicy.FAIL if settings.fail_orphans else OrphanPolicy.REASSIGN,
    )


class ShardingPerformer:
    """Performs the steps of one history."""

    def __init__(self, stage: ShardingWorld, settings: ShardingHistorySettings) -> None:
        self.world = stage
        self.abandoned_uids: set[str] = set()
        """UIDs whose finalizer a user removed. Their archiving is not checked."""
        self._rng = Random(f"shipped {settings} {stage.network.rng.random()}")
        self._settings = settings
        self._present: dict[str, ExecutorProcess] = {}
        """By pod name: the executor in the present pod."""
        self._stubborn: set[str] = set()
        """UIDs of executors whose handlers ignore cancellation."""
        self._finishing: set[str] = set()
        """Names of objects that their handlers complete at the next check."""
        self._numbers = 0
        self._healing = False

    def begin(self) -> None:
        for _ in range(2):
            self._start_supervisor()
        for number in range(EXECUTORS):
            self._start_executor(f"e{number}")
        for _ in range(OBJECTS):
            self._create()

    def perform(self, step: steps.AnyStep) -> None:
        """Perform a step at once. Its later effects are on the timeline."""
        stage, later = self.world, self.world.world.timeline.call_after
        match step:
            case steps.Pass():
                pass
            case steps.Create(count=count):
                for _ in range(count):
                    self._create()
            case (
                steps.PauseExecutor(executor=number, seconds=seconds)
                | steps.BlockExecutor(executor=number, seconds=seconds)
            ):
                self._pause(self._select_executor(number), seconds)
            case steps.StubbornExecutor(executor=number):
                self._stubborn.add(self._select_executor(number).uid)
            case steps.KillExecutor(executor=number, terminated=terminated):
                self._kill(self._select_executor(number), terminated=terminated)
            case steps.KillExecutorAt(executor=number, call=executor_call, before=before):
                stage.planned_kills[self._select_executor(number).uid] = executor_call, before
            case steps.EndExecutor(executor=number):
                self._end(self._select_executor(number))
            case steps.PauseSupervisor(seconds=seconds):
                if (leader := self._running_leader()) is not None:
                    leader.process.pause()
                    later(seconds, leader.process.resume)
            case steps.KillSupervisor():
                if (leader := self._running_leader()) is not None:
                    leader.crash()
            case steps.KillSupervisorAt(call=supervisor_call, before=before):
                for each in self._living_supervisors():
                    stage.planned_kills[each.name] = supervisor_call, before
            case steps.Storm(kind=kind):
                stage.network.faults = _STORM_FAULTS[kind]
            case steps.Calm():
                stage.network.faults, stage.archive_fault = NO_FAULTS, ""
            case steps.CutWatches():
                stage.cut_watches()
            case steps.Partition():
                self._cut_off(step)
            case steps.SetClock(supervisor=number, by=by):
                if supervisors := self._living_supervisors():
                    supervisors[number % len(supervisors)].wall_s = by
            case steps.LoseNode(executor=number, declared=declared):
                self._lose_node(self._select_executor(number), declared=declared)
            case steps.ForceDelete(executor=number, again=again):
                self._force_delete(self._select_executor(number), again=again)
            case steps.LoseLabel(executor=number):
                self._label(self._select_executor(number), {})
            case steps.Flap(executor=number, seconds=seconds):
                member = self._select_executor(number)
                self._write_pod_status(member, ready=False)
                later(seconds, partial(self._write_pod_status, member, ready=True))
            case steps.Cordon(executor=number, on=on):
                self._cordon(self._select_executor(number), on=on)
            case steps.JoinMany(count=count):
                for _ in range(count):
                    self._numbers += 1
                    self._start_executor(f"joined-{self._numbers}")
            case steps.RollingRestart():
                for place, member in enumerate(self._living_members()[:EXECUTORS]):
                    later(1.0 * place, partial(self._end, member))
            case steps.ArchiveTrouble(kind=trouble):
                stage.archive_fault = trouble
            case steps.ArchiveRefuses():
                stage.archive_fault = "too large"
            case steps.ArchiveDown(seconds=seconds):
                stage.archive_fault = "outage"
                later(seconds, self._restore_archive)
            case steps.Complete(object=number):
                self._act_on_object(number, self._finishing.add)
            case steps.DeleteObject(object=number):
                self._act_on_object(number, self._delete)
            case steps.Recreate(object=number):
                self._act_on_object(number, self._recreate)
            case steps.ForeignFinalizer(object=number, on=on):
                self._act_on_object(number, partial(self._set_foreign_finalizer, on=on))
            case steps.EditAssignment(object=number, to=to):
                executor = self._select_executor(to).pod if to >= 0 else None
                self._act_on_object(number, lambda name: self._edit_assignment(name, executor))
            case steps.RemoveFinalizer(object=number):
                self._act_on_object(number, self._remove_finalizer)
            case steps.EditObject(object=number):
                self._act_on_object(number, self._edit_work)
            case never:
                assert_never(never)

    def heal(self) -> None:
        """End every fault, and restart all missing processes."""
        stage = self.world
        self._healing = True
        stage.network.faults, stage.archive_fault = NO_FAULTS, ""
        stage.planned_kills.clear()
        for leader in self._living_supervisors():
            leader.wall_s = 0.0
            leader.process.resume()
            _restore_wires(leader.wires)
        for member in self._living_members():
            _restore_wires(member.wires)
            member.process.resume()
            if member.uid in self._stubborn or self._present.get(member.pod) is not member:
                member.crash()
            else:
                self._restore(member)
        needed = len(stage.ordered_objects()) // (self._settings.capacity or OBJECTS) + 1
        for number in range(max(EXECUTORS, needed)):
            member_there = self._present.get(f"e{number}")
            if member_there is None or not member_there.process.is_alive:
                self._start_executor(f"e{number}")
        while len(self._living_supervisors()) < 2:
            self._start_supervisor()
        for stored in stage.ordered_objects():
            if FOREIGN in (stored.object()["metadata"].get("finalizers") or ()):
                self._set_foreign_finalizer(stored.name, on=False)

    def replace_dead_processes(self) -> None:
        """Replace each dead process, as the controller of a workload does."""
        stage = self.world
        for leader in tuple(stage.leaders):
            if not leader.process.is_alive:
                stage.happened["leader killed"] += 1
                stage.leaders.remove(leader)
                stage.ended_leaders.append(leader)
                self._schedule_call(self._start_supervisor)
        for member in tuple(self._present.values()):
            if not member.process.is_alive:
                self._replace_dead(member, terminated=True)

    def open_problem(self) -> str | None:
        """Return the first open problem at the end, or None."""
        living = {each.uid for each in self._living_members()}
        for stored in self.world.ordered_objects():
            view = view_of(stored.object(), PATHS)
            if view.completed_at is not None and view.completed_at > self.world.wall() and not view.deleting:
                continue  # its completion time is still ahead: a supervisor with a fast clock wrote it
            if view.completed or view.deleting:
                return f"{view.name} is not archived: {view}"
            if view.executor_uid not in living or view.drain is not None:
                return f"{view.name} has no live executor: {view}"
        return None

    def _schedule_call(self, call: Callable[[], object]) -> None:
        self.world.world.timeline.call_after(_SUCCESSOR_DELAY_S, call)

    def _draw_speed(self) -> float:
        return self._rng.uniform(1.0, FASTEST) if self._settings.drifting else 1.0

    def _start_supervisor(self) -> None:
        self._numbers += 1
        self.world.start_leader(f"s{self._numbers}", self._draw_speed(), rebalance=BALANCE)

    def _start_executor(self, name: str) -> None:
        """Create a pod of this name with an executor. An existing one is deleted by force."""
        self._present[name] = self.world.create_executor(
            name, self._run_handler, concurrency=5, speed=self._draw_speed(), capacity=self._settings.capacity
        )

    async def _run_handler(self, member: ExecutorProcess, obj: Content, work: Work) -> Outcome | None:
        """Run a handler: write progress at intervals, and sometimes end.

        While healing, handlers write no progress and do not end by chance. A completed object would have to be archived
        before the history ends.
        """
        rng, name = Random(f"{work.token} {member.uid}"), str(obj["metadata"]["name"])
        await self._sleep(member, rng.uniform(0.5, 6.0))
        while True:
            if name in self._finishing or (not self._healing and rng.random() < 0.12):
                self._finishing.discard(name)
                return Outcome.succeeded()
            if not self._healing:
                await work.patch_status(self._next_progress(member))
                if rng.random() < 0.1:
                    return Outcome.again(rng.uniform(0.5, 3.0))
            await self._sleep(member, rng.uniform(2.0, 10.0))

    async def _sleep(self, member: ExecutorProcess, seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if member.uid in self._stubborn:
                await asyncio.sleep(1e9)
            raise

    def _next_progress(self, member: ExecutorProcess) -> dict[str, Any]:
        self._numbers += 1
        return {"by": member.uid, "step": self._numbers}

    def _living_members(self) -> list[ExecutorProcess]:
        return [each for each in self.world.members if each.process.is_alive]

    def _select_executor(self, number: int) -> ExecutorProcess:
        living = self._living_members() or self.world.members
        return living[number % len(living)]

    def _living_supervisors(self) -> list[SupervisorProcess]:
        return [each for each in self.world.leaders if each.process.is_alive]

    def _running_leader(self) -> SupervisorProcess | None:
        running = (each for each in self.world.leaders if each.process.state is ProcessState.RUNNING)
        return next((each for each in running if each.is_leader), None)

    def _is_present(self, member: ExecutorProcess) -> bool:
        return self._present.get(member.pod) is member

    def _act_on_object(self, number: int, deed: Callable[[str], object]) -> None:
        """Act on one of the present objects."""
        if names := [stored.name for stored in self.world.ordered_objects()]:
            deed(names[number % len(names)])

    def _create(self) -> None:
        self._numbers += 1
        self.world.create(f"o{self._numbers}")

    def _pause(self, member: ExecutorProcess, seconds: float) -> None:
        """Pause an executor, with a write on its way if it works."""
        if member.process.state is not ProcessState.RUNNING:
            return
        if member.running_names:
            work, loop = member.latest_work[member.running_names[0]], member.process.loop
            loop.call_soon_threadsafe(lambda: loop.create_task(self._write(member, work)))
            self.world.run(_LEAVES_S)
        member.pause()
        self.world.world.timeline.call_after(seconds, partial(self._resume, member))

    async def _write(self, member: ExecutorProcess, work: Work) -> None:
        with suppress(NotOwner, KubeError):  # no code waits for it
            await work.patch_status(self._next_progress(member))

    def _resume(self, member: ExecutorProcess) -> None:
        tenure, now = member.executor.tenure, self.world.world.now * member.speed
        if member.process.state is ProcessState.PAUSED and not tenure.over and tenure.deadline < now:
            self.world.happened["resumed after its lease"] += 1
        member.process.resume()

    def _kill(self, member: ExecutorProcess, *, terminated: bool) -> None:
        if member.process.is_alive:
            member.crash()
            if self._is_present(member):
                self._replace_dead(member, terminated=terminated)

    def _replace_dead(self, member: ExecutorProcess, *, terminated: bool) -> None:
        """Mark the pod of a dead executor, and plan its replacement."""
        self._write_pod_status(member, ready=False, terminated=terminated)
        del self._present[member.pod]
        self._schedule_call(partial(self._start_successor, member.pod))

    def _start_successor(self, name: str) -> None:
        """Create another pod of that name, unless one exists."""
        if name not in self._present:
            self._start_executor(name)

    def _end(self, member: ExecutorProcess) -> None:
        """End an executor with SIGTERM, and with SIGKILL when the pod's grace period is over."""
        if not member.process.is_alive:
            return
        member.stop()
        if self._is_present(member):
            self.world.call("DELETE", f"{PODS}/{member.pod}", {"gracePeriodSeconds": 30})
            self.world.world.timeline.call_after(12.0, partial(self._finish_end, member))

    def _finish_end(self, member: ExecutorProcess) -> None:
        if member.process.is_alive:
            member.crash()
        if self._is_present(member):
            self._write_pod_status(member, ready=False, terminated=True)
            self._start_executor(member.pod)

    def _write_pod_status(self, member: ExecutorProcess, *, ready: bool, terminated: bool = False) -> None:
        if self._is_present(member):
            self.world.write_pod_status(member.pod, ready=ready, terminated=terminated)

    def _restore(self, member: ExecutorProcess) -> None:
        """Make the executor's pod ready, labelled and not cordoned."""
        stored = self.world.api.store.get("pods", NAMESPACE, member.pod)
        if stored is None:
            return
        pod = stored.object()
        metadata = pod["metadata"]
        if pod["status"]["conditions"][0]["status"] != "True":
            self._write_pod_status(member, ready=True)
        if metadata.get("labels") != LABELS:
            self._label(member, LABELS)
        if metadata.get("annotations", {}).get(CORDON, "false") != "false":
            self._cordon(member, on=False)

    def _label(self, member: ExecutorProcess, labels: dict[str, str]) -> None:
        if self._is_present(member):
            pod = self.world.call("GET", f"{PODS}/{member.pod}")
            self.world.call("PUT", f"{PODS}/{member.pod}", pod | {"metadata": pod["metadata"] | {"labels": labels}})

    def _cordon(self, member: ExecutorProcess, *, on: bool) -> None:
        if self._is_present(member):
            self.world.cordon(member.pod, "true" if on else "false")

    def _cut_off(self, step: steps.Partition) -> None:
        found = self._select_executor(step.number) if step.who == "executor" else self._running_leader()
        if found is None:
            return
        for wire in found.wires:
            wire.mute, wire.deaf = step.direction != "from", step.direction != "to"
        self.world.world.timeline.call_after(step.seconds, partial(_restore_wires, found.wires))

    def _lose_node(self, member: ExecutorProcess, *, declared: bool) -> None:
        for wire in member.wires:
            wire.mute = wire.deaf = True
        if not self._is_present(member):
            return
        self._write_pod_status(member, ready=False)
        if declared and member.process.is_alive:  # by an operator that has verified that the machine is off
            member.crash()
            taint = {"key": OUT_OF_SERVICE, "effect": "NoExecute"}
            node = {"metadata": {"name": self.world.nodes[member.pod]}, "spec": {"taints": [taint]}}
            self.world.call("POST", "/api/v1/nodes", node)
        del self._present[member.pod]
        self.world.world.timeline.call_after(20.0, partial(self._start_successor, member.pod))

    def _force_delete(self, member: ExecutorProcess, *, again: bool) -> None:
        if self._is_present(member):
            self.world.call("DELETE", f"{PODS}/{member.pod}", {"gracePeriodSeconds": 0})
            del self._present[member.pod]
            if again:
                self._start_executor(member.pod)

    def _restore_archive(self) -> None:
        if self.world.archive_fault == "outage":
            self.world.archive_fault = ""

    def _delete(self, name: str) -> None:
        self.world.call("DELETE", REPORTS.path(NAMESPACE, name))

    def _recreate(self, name: str) -> None:
        self._delete(name)
        self._create_when_gone(name, 100)

    def _create_when_gone(self, name: str, tries: int) -> None:
        if not self.world.exists(name):
            self.world.happened["name used again"] += 1
            self.world.create(name)
        elif tries and not self._healing:
            self.world.world.timeline.call_after(0.25, partial(self._create_when_gone, name, tries - 1))

    def _view(self, name: str) -> ObjectView:
        return view_of(self.world.get(name), PATHS)

    def _edit(self, name: str, change: Callable[[Content], dict[str, Any]]) -> str:
        """Edit the present object as a user. Return the refusal, or an empty text."""
        before = self.world.get(name)
        after = change(before)
        if refusal := self.world.policy_refusal(before, after, _WRITER):
            return refusal
        self.world.call("PUT", REPORTS.path(NAMESPACE, name), after)
        return ""

    def _set_foreign_finalizer(self, name: str, *, on: bool) -> None:
        """Set or remove a foreign finalizer. It cannot be added to an object that is being deleted."""
        if not (on and self._view(name).deleting):
            self._edit(name, partial(_with_finalizer, FOREIGN, on))

    def _edit_assignment(self, name: str, executor: str | None) -> None:
        view = self._view(name)
        if view.executor and not view.completed:
            refusal = self._edit(name, lambda content: dict(PATHS.assign_to(content, executor)))
            if not refusal:
                self.world.promptness.record_edit(view.uid)
            self.world.happened["edit refused" if refusal else "assignment edited"] += 1

    def _remove_finalizer(self, name: str) -> None:
        uid = self._view(name).uid
        if not self._edit(name, partial(_with_finalizer, FINALIZER, False)):
            self.abandoned_uids.add(uid)

    def _edit_work(self, name: str) -> None:
        def change(content: Content) -> dict[str, Any]:
            self._numbers += 1
            labels = {**content["metadata"].get("labels", {}), "team": f"t{self._numbers}"}
            metadata, spec = {**content["metadata"], "labels": labels}, {**content["spec"], "work": self._numbers}
            return {**content, "metadata": metadata, "spec": spec}

        if refusal := self._edit(name, change):
            raise UserEditRefused(f"a user's edit of {name} is refused: {refusal}")


def _restore_wires(wires: list[Wire]) -> None:
    for wire in wires:
        wire.mute = False
        wire.deliver_pending()


def _with_finalizer(finalizer: str, on: bool, content: Content) -> dict[str, Any]:
    kept = [each for each in content["metadata"].get("finalizers", []) if each != finalizer]
    metadata = {**content["metadata"], "finalizers": [*kept, *([finalizer] if on else [])]}
    return {**content, "metadata": metadata}
