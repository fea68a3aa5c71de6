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
from situate.testing.sharding.history import EXECUTORS, FASTEST, OBJECTS, Settings
from situate.testing.sharding.world.archive_faults import Trouble
from situate.testing.sharding.world.executor_world import NAMESPACE, Member
from situate.testing.sharding.world.reports import PATHS, REPORTS
from situate.testing.sharding.world.sharding_world import Stage
from situate.testing.sharding.world.supervisor_world import LABELS, PODS, Leader
from situate.testing.virtual_time.network import CALM, Weather, Wire
from situate.testing.virtual_time.processes import ProcessState

FOREIGN: Final = "others.example.com/hold"
BALANCE: Final = RebalanceConfig(Goal.EVEN, hysteresis_s=5.0, interval_s=10.0, cool_down_s=5.0, quiet_period_s=3.0)
_WEATHER: Final[dict[str, Weather]] = {
    "request lost": Weather(lose_request=0.15),
    "answer lost": Weather(lose_answer=0.15),
    "refused": Weather(refuse=0.2),
    "conflict": Weather(conflict=0.2),
    "late writes": Weather(late_write_s=25.0),
    "late events": Weather(event_delay_s=10.0, event_jitter_s=20.0),
    "event lost": Weather(lose_event=0.3),
    "events swapped": Weather(swap_events=0.3),
}
_AGAIN_S: Final = 3.0
"""Seconds from the end of a process to the start of its replacement."""
_LEAVES_S: Final = 0.0004
"""Seconds after which a request has left and has not arrived yet."""
_WRITER: Final = Writer(Role.OTHER)


class UserKeptOut(Exception):
    """An edit that a user may make was refused (8.2: the fence must not lock users out)."""


def config_of(settings: Settings) -> SupervisorConfig:
    """Return the shipped configuration, with shorter times."""
    return SupervisorConfig(
        archive_ttl=4.0,
        requeue_delay=20.0,
        drain_timeout=8.0,
        max_reassigns=50,
        drain_unhealthy=settings.drain_unhealthy,
        orphan_policy=OrphanPolicy.FAIL if settings.fail_orphans else OrphanPolicy.REASSIGN,
    )


class Performer:
    """Performs the steps of one history."""

    def __init__(self, stage: Stage, settings: Settings) -> None:
        self.stage = stage
        self.forsaken: set[str] = set()
        """UIDs whose finalizer a user removed. Their archiving is not checked."""
        self._rng = Random(f"shipped {settings} {stage.network.rng.random()}")
        self._settings = settings
        self._present: dict[str, Member] = {}
        """By pod name: the executor in the present pod."""
        self._stubborn: set[str] = set()
        """UIDs of executors whose handlers ignore cancellation."""
        self._finishing: set[str] = set()
        """Names of objects that their handlers complete at the next check."""
        self._numbers = 0
        self._healing = False

    def begin(self) -> None:
        for _ in range(2):
            self._supervise()
        for number in range(EXECUTORS):
            self._employ(f"e{number}")
        for _ in range(OBJECTS):
            self._create()

    def perform(self, step: steps.AnyStep) -> None:
        """Perform a step at once. Its later effects are on the timeline."""
        stage, later = self.stage, self.stage.world.timeline.after
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
                self._pause(self._executor(number), seconds)
            case steps.StubbornExecutor(executor=number):
                self._stubborn.add(self._executor(number).uid)
            case steps.KillExecutor(executor=number, terminated=terminated):
                self._kill(self._executor(number), terminated=terminated)
            case steps.KillExecutorAt(executor=number, call=executor_call, before=before):
                stage.dying[self._executor(number).uid] = executor_call, before
            case steps.EndExecutor(executor=number):
                self._end(self._executor(number))
            case steps.PauseSupervisor(seconds=seconds):
                if (leader := self._leader()) is not None:
                    leader.process.pause()
                    later(seconds, leader.process.resume)
            case steps.KillSupervisor():
                if (leader := self._leader()) is not None:
                    leader.crash()
            case steps.KillSupervisorAt(call=supervisor_call, before=before):
                for each in self._supervisors():
                    stage.dying[each.name] = supervisor_call, before
            case steps.Storm(kind=kind):
                stage.network.weather = _WEATHER[kind]
            case steps.Calm():
                stage.network.weather, stage.trouble = CALM, Trouble.NONE
            case steps.CutWatches():
                stage.cut_watches()
            case steps.Partition():
                self._cut(step)
            case steps.SetClock(supervisor=number, by=by):
                if supervisors := self._supervisors():
                    supervisors[number % len(supervisors)].wall_s = by
            case steps.LoseNode(executor=number, declared=declared):
                self._lose_node(self._executor(number), declared=declared)
            case steps.ForceDelete(executor=number, again=again):
                self._force_delete(self._executor(number), again=again)
            case steps.LoseLabel(executor=number):
                self._label(self._executor(number), {})
            case steps.Flap(executor=number, seconds=seconds):
                member = self._executor(number)
                self._tell(member, ready=False)
                later(seconds, partial(self._tell, member, ready=True))
            case steps.Cordon(executor=number, on=on):
                self._cordon(self._executor(number), on=on)
            case steps.JoinMany(count=count):
                for _ in range(count):
                    self._numbers += 1
                    self._employ(f"joined-{self._numbers}")
            case steps.RollingRestart():
                for place, member in enumerate(self._living()[:EXECUTORS]):
                    later(1.0 * place, partial(self._end, member))
            case steps.ArchiveTrouble(kind=trouble):
                stage.trouble = Trouble(trouble)
            case steps.ArchiveRefuses():
                stage.trouble = Trouble.REFUSED
            case steps.ArchiveDown(seconds=seconds):
                stage.trouble = Trouble.DOWN
                later(seconds, self._archive_is_back)
            case steps.Complete(object=number):
                self._with(number, self._finishing.add)
            case steps.DeleteObject(object=number):
                self._with(number, self._delete)
            case steps.Recreate(object=number):
                self._with(number, self._recreate)
            case steps.ForeignFinalizer(object=number, on=on):
                self._with(number, partial(self._hold, on=on))
            case steps.EditAssignment(object=number, to=to):
                executor = self._executor(to).pod if to >= 0 else None
                self._with(number, lambda name: self._edit_assignment(name, executor))
            case steps.RemoveFinalizer(object=number):
                self._with(number, self._forsake)
            case steps.EditObject(object=number):
                self._with(number, self._edit_work)
            case never:
                assert_never(never)

    def heal(self) -> None:
        """End every fault, and restart all missing processes."""
        stage = self.stage
        self._healing = True
        stage.network.weather, stage.trouble = CALM, Trouble.NONE
        stage.dying.clear()
        for leader in self._supervisors():
            leader.wall_s = 0.0
            leader.process.resume()
            _mend(leader.wires)
        for member in self._living():
            _mend(member.wires)
            member.process.resume()
            if member.uid in self._stubborn or self._present.get(member.pod) is not member:
                member.crash()
            else:
                self._restore(member)
        needed = len(stage.objects()) // (self._settings.capacity or OBJECTS) + 1
        for number in range(max(EXECUTORS, needed)):
            member_there = self._present.get(f"e{number}")
            if member_there is None or not member_there.process.is_alive:
                self._employ(f"e{number}")
        while len(self._supervisors()) < 2:
            self._supervise()
        for stored in stage.objects():
            if FOREIGN in (stored.object()["metadata"].get("finalizers") or ()):
                self._hold(stored.name, on=False)

    def tidy(self) -> None:
        """Replace each dead process, as the controller of a workload does."""
        stage = self.stage
        for leader in tuple(stage.leaders):
            if not leader.process.is_alive:
                stage.happened["leader killed"] += 1
                stage.leaders.remove(leader)
                stage.buried.append(leader)
                self._later(self._supervise)
        for member in tuple(self._present.values()):
            if not member.process.is_alive:
                self._bury(member, terminated=True)

    def unsettled(self) -> str | None:
        """Return the first open problem at the end, or None."""
        living = {each.uid for each in self._living()}
        for stored in self.stage.objects():
            view = view_of(stored.object(), PATHS)
            if view.completed_at is not None and view.completed_at > self.stage.wall() and not view.deleting:
                continue  # its completion time is still ahead: a supervisor with a fast clock wrote it
            if view.completed or view.deleting:
                return f"{view.name} is not archived: {view}"
            if view.executor_uid not in living or view.drain is not None:
                return f"{view.name} has no live executor: {view}"
        return None

    def _later(self, call: Callable[[], object]) -> None:
        self.stage.world.timeline.after(_AGAIN_S, call)

    def _speed(self) -> float:
        return self._rng.uniform(1.0, FASTEST) if self._settings.drifting else 1.0

    def _supervise(self) -> None:
        self._numbers += 1
        self.stage.lead(f"s{self._numbers}", self._speed(), rebalance=BALANCE)

    def _employ(self, name: str) -> None:
        """Create a pod of this name with an executor. An existing one is deleted by force."""
        self._present[name] = self.stage.work(
            name, self._script, concurrency=5, speed=self._speed(), capacity=self._settings.capacity
        )

    async def _script(self, member: Member, obj: Content, work: Work) -> Outcome | None:
        """Run a handler: write progress at intervals, and sometimes end.

        While healing, handlers write no progress and do not end by chance. A completed object would have to be archived
        before the history ends.
        """
        rng, name = Random(f"{work.token} {member.uid}"), str(obj["metadata"]["name"])
        await self._rest(member, rng.uniform(0.5, 6.0))
        while True:
            if name in self._finishing or (not self._healing and rng.random() < 0.12):
                self._finishing.discard(name)
                return Outcome.succeeded()
            if not self._healing:
                await work.patch_status(self._progress(member))
                if rng.random() < 0.1:
                    return Outcome.again(rng.uniform(0.5, 3.0))
            await self._rest(member, rng.uniform(2.0, 10.0))

    async def _rest(self, member: Member, seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if member.uid in self._stubborn:
                await asyncio.sleep(1e9)
            raise

    def _progress(self, member: Member) -> dict[str, Any]:
        self._numbers += 1
        return {"by": member.uid, "step": self._numbers}

    def _living(self) -> list[Member]:
        return [each for each in self.stage.members if each.process.is_alive]

    def _executor(self, number: int) -> Member:
        living = self._living() or self.stage.members
        return living[number % len(living)]

    def _supervisors(self) -> list[Leader]:
        return [each for each in self.stage.leaders if each.process.is_alive]

    def _leader(self) -> Leader | None:
        running = (each for each in self.stage.leaders if each.process.state is ProcessState.RUNNING)
        return next((each for each in running if each.leads), None)

    def _is_there(self, member: Member) -> bool:
        return self._present.get(member.pod) is member

    def _with(self, number: int, deed: Callable[[str], object]) -> None:
        """Act on one of the present objects."""
        if names := [stored.name for stored in self.stage.objects()]:
            deed(names[number % len(names)])

    def _create(self) -> None:
        self._numbers += 1
        self.stage.create(f"o{self._numbers}")

    def _pause(self, member: Member, seconds: float) -> None:
        """Pause an executor, with a write on its way if it works."""
        if member.process.state is not ProcessState.RUNNING:
            return
        if member.running:
            work, loop = member.works[member.running[0]], member.process.loop
            loop.call_soon_threadsafe(lambda: loop.create_task(self._write(member, work)))
            self.stage.run(_LEAVES_S)
        member.pause()
        self.stage.world.timeline.after(seconds, partial(self._resume, member))

    async def _write(self, member: Member, work: Work) -> None:
        with suppress(NotOwner, KubeError):  # no code waits for it
            await work.patch_status(self._progress(member))

    def _resume(self, member: Member) -> None:
        tenure, now = member.executor.tenure, self.stage.world.now * member.speed
        if member.process.state is ProcessState.PAUSED and not tenure.over and tenure.deadline < now:
            self.stage.happened["resumed after its lease"] += 1
        member.process.resume()

    def _kill(self, member: Member, *, terminated: bool) -> None:
        if member.process.is_alive:
            member.crash()
            if self._is_there(member):
                self._bury(member, terminated=terminated)

    def _bury(self, member: Member, *, terminated: bool) -> None:
        """Mark the pod of a dead executor, and plan its replacement."""
        self._tell(member, ready=False, terminated=terminated)
        del self._present[member.pod]
        self._later(partial(self._succeed, member.pod))

    def _succeed(self, name: str) -> None:
        """Create another pod of that name, unless one exists."""
        if name not in self._present:
            self._employ(name)

    def _end(self, member: Member) -> None:
        """End an executor with SIGTERM, and with SIGKILL when the pod's grace period is over."""
        if not member.process.is_alive:
            return
        member.stop()
        if self._is_there(member):
            self.stage.call("DELETE", f"{PODS}/{member.pod}", {"gracePeriodSeconds": 30})
            self.stage.world.timeline.after(12.0, partial(self._ended, member))

    def _ended(self, member: Member) -> None:
        if member.process.is_alive:
            member.crash()
        if self._is_there(member):
            self._tell(member, ready=False, terminated=True)
            self._employ(member.pod)

    def _tell(self, member: Member, *, ready: bool, terminated: bool = False) -> None:
        if self._is_there(member):
            self.stage.tell_pod(member.pod, ready=ready, terminated=terminated)

    def _restore(self, member: Member) -> None:
        """Make the executor's pod ready, labelled and not cordoned."""
        stored = self.stage.api.store.get("pods", NAMESPACE, member.pod)
        if stored is None:
            return
        pod = stored.object()
        metadata = pod["metadata"]
        if pod["status"]["conditions"][0]["status"] != "True":
            self._tell(member, ready=True)
        if metadata.get("labels") != LABELS:
            self._label(member, LABELS)
        if metadata.get("annotations", {}).get(CORDON, "false") != "false":
            self._cordon(member, on=False)

    def _label(self, member: Member, labels: dict[str, str]) -> None:
        if self._is_there(member):
            pod = self.stage.call("GET", f"{PODS}/{member.pod}")
            self.stage.call("PUT", f"{PODS}/{member.pod}", pod | {"metadata": pod["metadata"] | {"labels": labels}})

    def _cordon(self, member: Member, *, on: bool) -> None:
        if self._is_there(member):
            self.stage.cordon(member.pod, "true" if on else "false")

    def _cut(self, step: steps.Partition) -> None:
        found = self._executor(step.number) if step.who == "executor" else self._leader()
        if found is None:
            return
        for wire in found.wires:
            wire.mute, wire.deaf = step.direction != "from", step.direction != "to"
        self.stage.world.timeline.after(step.seconds, partial(_mend, found.wires))

    def _lose_node(self, member: Member, *, declared: bool) -> None:
        for wire in member.wires:
            wire.mute = wire.deaf = True
        if not self._is_there(member):
            return
        self._tell(member, ready=False)
        if declared and member.process.is_alive:  # by an operator that has verified that the machine is off
            member.crash()
            taint = {"key": OUT_OF_SERVICE, "effect": "NoExecute"}
            node = {"metadata": {"name": self.stage.nodes[member.pod]}, "spec": {"taints": [taint]}}
            self.stage.call("POST", "/api/v1/nodes", node)
        del self._present[member.pod]
        self.stage.world.timeline.after(20.0, partial(self._succeed, member.pod))

    def _force_delete(self, member: Member, *, again: bool) -> None:
        if self._is_there(member):
            self.stage.call("DELETE", f"{PODS}/{member.pod}", {"gracePeriodSeconds": 0})
            del self._present[member.pod]
            if again:
                self._employ(member.pod)

    def _archive_is_back(self) -> None:
        if self.stage.trouble is Trouble.DOWN:
            self.stage.trouble = Trouble.NONE

    def _delete(self, name: str) -> None:
        self.stage.call("DELETE", REPORTS.path(NAMESPACE, name))

    def _recreate(self, name: str) -> None:
        self._delete(name)
        self._make_again(name, 100)

    def _make_again(self, name: str, tries: int) -> None:
        if not self.stage.exists(name):
            self.stage.happened["name used again"] += 1
            self.stage.create(name)
        elif tries and not self._healing:
            self.stage.world.timeline.after(0.25, partial(self._make_again, name, tries - 1))

    def _view(self, name: str) -> ObjectView:
        return view_of(self.stage.get(name), PATHS)

    def _edit(self, name: str, change: Callable[[Content], dict[str, Any]]) -> str:
        """Edit the present object as a user. Return the refusal, or an empty text."""
        before = self.stage.get(name)
        after = change(before)
        if refusal := self.stage.refusal(before, after, _WRITER):
            return refusal
        self.stage.call("PUT", REPORTS.path(NAMESPACE, name), after)
        return ""

    def _hold(self, name: str, *, on: bool) -> None:
        """Set or remove a foreign finalizer. It cannot be added to an object that is being deleted."""
        if not (on and self._view(name).deleting):
            self._edit(name, partial(_with_finalizer, FOREIGN, on))

    def _edit_assignment(self, name: str, executor: str | None) -> None:
        view = self._view(name)
        if view.executor and not view.completed:
            refusal = self._edit(name, lambda content: dict(PATHS.assign_to(content, executor)))
            if not refusal:
                self.stage.prompt.edited(view.uid)
            self.stage.happened["edit refused" if refusal else "assignment edited"] += 1

    def _forsake(self, name: str) -> None:
        uid = self._view(name).uid
        if not self._edit(name, partial(_with_finalizer, FINALIZER, False)):
            self.forsaken.add(uid)

    def _edit_work(self, name: str) -> None:
        def change(content: Content) -> dict[str, Any]:
            self._numbers += 1
            labels = {**content["metadata"].get("labels", {}), "team": f"t{self._numbers}"}
            metadata, spec = {**content["metadata"], "labels": labels}, {**content["spec"], "work": self._numbers}
            return {**content, "metadata": metadata, "spec": spec}

        if refusal := self._edit(name, change):
            raise UserKeptOut(f"a user's edit of {name} is refused: {refusal}")


def _mend(wires: list[Wire]) -> None:
    for wire in wires:
        wire.mute = False
        wire.hear_again()


def _with_finalizer(finalizer: str, on: bool, content: Content) -> dict[str, Any]:
    kept = [each for each in content["metadata"].get("finalizers", []) if each != finalizer]
    metadata = {**content["metadata"], "finalizers": [*kept, *([finalizer] if on else [])]}
    return {**content, "metadata": metadata}
