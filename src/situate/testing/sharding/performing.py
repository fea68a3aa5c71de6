"""Perform the steps of a history of sharding, and heal everything at its end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, assert_never

from situate.sharding.model.names import FINALIZER
from situate.sharding.model.supervisor_config import OrphanPolicy, SupervisorConfig
from situate.testing.sharding import steps
from situate.testing.sharding.archives import Trouble
from situate.testing.sharding.executors import Executor
from situate.testing.sharding.history import EXECUTORS, OBJECTS, Settings
from situate.testing.sharding.pods import Host
from situate.testing.sharding.processes import Weather
from situate.testing.sharding.store import PATHS, Refused, Stored
from situate.testing.sharding.supervisors import Supervisor
from situate.testing.sharding.town import FASTEST, Town

FOREIGN: Final = "others.example.com/hold"
_WEATHER: Final[dict[str, dict[str, float]]] = {
    "request lost": {"lose_request": 0.15},
    "answer lost": {"lose_answer": 0.15},
    "refused": {"refuse": 0.2},
    "conflict": {"conflict": 0.2},
    "late writes": {"late_writes_s": 25.0},
    "late events": {"late_events_s": 30.0},
    "event lost": {"lose_event": 0.3},
    "events swapped": {"swap_events": 0.3},
}
_AGAIN_S: Final = 3.0
"""Seconds from the end of a process to the start of its replacement."""


class UserKeptOut(Exception):
    """The server refused a user's edit of the user's own fields. Fencing must not lock users out."""


class Performer:
    """Performs the steps of one history."""

    def __init__(self, town: Town, settings: Settings) -> None:
        self.town = town
        self._settings = settings
        self._careless = settings.fencing in ("policy", "none")
        self._config = SupervisorConfig(
            archive_ttl=6.0,
            requeue_delay=20.0,
            drain_timeout=10.0,
            max_reassigns=50,
            drain_unhealthy=settings.drain_unhealthy,
            orphan_policy=OrphanPolicy.FAIL if settings.fail_orphans else OrphanPolicy.REASSIGN,
        )
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
        town, later = self.town, self.town.timeline.after
        match step:
            case steps.Pass():
                pass
            case steps.Create(count=count):
                for _ in range(count):
                    self._create()
            case steps.PauseExecutor(executor=number, seconds=seconds):
                executor = self._executor(number)
                for name, run in [*executor.runs.items()][:1]:
                    executor.write_under_way(name, run)
                executor.pause()
                later(seconds, partial(self._resume, executor))
            case steps.BlockExecutor(executor=number, seconds=seconds):
                executor = self._executor(number)
                executor.block()
                later(seconds, partial(self._resume, executor))
            case steps.StubbornExecutor(executor=number):
                executor = self._executor(number)
                executor.stubborn = True
                for run in executor.runs.values():
                    run.stubborn = True
            case steps.KillExecutor(executor=number, terminated=terminated):
                self._kill(self._executor(number), terminated=terminated)
            case steps.KillExecutorAt(executor=number, call=call, before=before):
                self._executor(number).dies_at = (call, "before" if before else "after")
            case steps.EndExecutor(executor=number):
                self._end(self._executor(number))
            case steps.PauseSupervisor(seconds=seconds):
                if (leader := self._leader()) is not None:
                    leader.pause()
                    later(seconds, leader.resume)
            case steps.KillSupervisor():
                if (leader := self._leader()) is not None:
                    self._bury(leader)
            case steps.KillSupervisorAt(call=call, before=before):
                for supervisor in town.supervisors:
                    supervisor.dies_at = (call, "before" if before else "after")
            case steps.Storm(kind=kind):
                town.weather = Weather(**_WEATHER[kind])
            case steps.Calm():
                town.weather, town.archive.trouble = Weather(), Trouble.NONE
            case steps.CutWatches():
                for supervisor in town.supervisors:
                    supervisor.turn(supervisor.relist)
            case steps.Partition():
                self._cut(step)
            case steps.SetClock(supervisor=number, by=by):
                if town.supervisors:
                    town.supervisors[number % len(town.supervisors)].wall_s = by
            case steps.LoseNode(executor=number, declared=declared):
                self._lose_node(self._executor(number), declared=declared)
            case steps.ForceDelete(executor=number, again=again):
                self._force_delete(self._executor(number), again=again)
            case steps.LoseLabel(executor=number):
                self._tell(self._executor(number), selected=False)
            case steps.Flap(executor=number, seconds=seconds):
                executor = self._executor(number)
                self._tell(executor, ready=False)
                later(seconds, partial(self._tell, executor, ready=True))
            case steps.Cordon(executor=number, on=on):
                self._tell(self._executor(number), cordoned=on)
            case steps.JoinMany(count=count):
                for _ in range(count):
                    self._numbers += 1
                    self._employ(f"joined-{self._numbers}")
            case steps.RollingRestart():
                for place, executor in enumerate(town.living()[:EXECUTORS]):
                    later(2.0 * place, partial(self._end, executor))
            case steps.ArchiveTrouble(kind=kind):
                town.archive.trouble = Trouble(kind)
            case steps.ArchiveRefuses():
                town.archive.trouble = Trouble.REFUSED
            case steps.ArchiveDown(seconds=seconds):
                town.archive.trouble = Trouble.DOWN
                later(seconds, self._archive_is_back)
            case steps.Complete(object=number):
                for executor in town.living():
                    for name, run in [*executor.runs.items()]:
                        if name == self._object(number):
                            executor.turn(partial(executor.finish, name, run))
            case steps.DeleteObject(object=number):
                self._with(number, town.store.delete)
            case steps.Recreate(object=number):
                self._with(number, self._recreate)
            case steps.ForeignFinalizer(object=number, on=on):
                self._with(number, lambda name: town.store.edit(name, partial(_with_finalizer, FOREIGN, on)))
            case steps.EditAssignment(object=number, to=to):
                executor_id = self._executor(to).me.id if to >= 0 else None
                self._with(number, lambda name: self._edit_assignment(name, executor_id))
            case steps.RemoveFinalizer(object=number):
                self._with(number, self._forsake)
            case steps.EditObject(object=number):
                self._with(number, self._edit)
            case never:
                assert_never(never)

    def heal(self) -> None:
        """End every fault, and restart all missing processes."""
        town = self.town
        self._healing = True
        town.weather, town.archive.trouble = Weather(), Trouble.NONE
        for process in (*town.executors, *town.supervisors):
            process.dies_at = None
            process.deaf = process.mute = False
            if process.alive and (process.paused or process.blocked):
                process.resume()
        for supervisor in town.supervisors:
            supervisor.wall_s = 0.0
        for executor in town.living():
            if executor.stubborn or executor.me.id not in town.hosts:
                executor.die()
            else:
                self._tell(executor, ready=True, selected=True, cordoned=False)
        for number in range(EXECUTORS):
            if not any(executor.me.id == f"e{number}" for executor in town.living()):
                self._employ(f"e{number}")
        while len([each for each in town.supervisors if each.alive]) < 2:
            self._supervise()
        for name in [*town.store.objects]:
            town.store.edit(name, partial(_with_finalizer, FOREIGN, False))

    def tidy(self) -> None:
        """Replace each dead process, as the controller of a workload does."""
        for supervisor in self.town.supervisors:
            if not supervisor.alive:
                self._bury(supervisor)
        for host in [*self.town.hosts.values()]:
            executor = next(each for each in self.town.executors if each.me.uid == host.uid)
            if not executor.alive and not host.terminated:
                host.terminated = True
                self.town.tell_of(host)
                self._later(partial(self._succeed, host))

    def _later(self, call: Callable[[], object]) -> None:
        self.town.timeline.after(_AGAIN_S, call)

    def _speed(self) -> float:
        return self.town.rng.uniform(1.0, FASTEST) if self._settings.drifting else 1.0

    def _supervise(self) -> None:
        self._numbers += 1
        name = f"s{self._numbers}"
        supervisor = Supervisor(self.town, name, self._speed(), self._config, careless=self._careless)
        self.town.supervisors.append(supervisor)
        supervisor.begin()

    def _bury(self, supervisor: Supervisor) -> None:
        if supervisor.alive:
            self.town.happened["leader killed"] += 1
            supervisor.die()
        self.town.supervisors.remove(supervisor)
        self._later(self._supervise)

    def _employ(self, name: str) -> None:
        """Create a pod of this name with an executor."""
        town = self.town
        self._numbers += 1
        host = Host(name, f"{name}-{self._numbers}", town.now)
        former = town.hosts.get(name)
        if former is not None:
            former.there = False
            town.tell_of(former)
        town.hosts[name] = host
        executor = Executor(town, name, host.uid, self._speed(), careless=self._careless)
        town.join(executor)
        town.tell_of(host)
        executor.begin()

    def _succeed(self, host: Host) -> None:
        """Replace the pod of a host by another one of its name, unless one exists."""
        if self.town.hosts.get(host.name) in (None, host):
            self._employ(host.name)

    def _executor(self, number: int) -> Executor:
        living = self.town.living() or self.town.executors
        return living[number % len(living)]

    def _leader(self) -> Supervisor | None:
        return next((each for each in self.town.supervisors if each.alive and not each.paused and each.leads()), None)

    def _object(self, number: int) -> str:
        names = sorted(self.town.store.objects)
        return names[number % len(names)] if names else ""

    def _with(self, number: int, deed: Callable[[str], object]) -> None:
        if name := self._object(number):
            deed(name)

    def _create(self) -> None:
        self._numbers += 1
        name = f"o{self._numbers}"
        self.town.store.create(name, f"{name}-uid")

    def _resume(self, executor: Executor) -> None:
        if executor.alive:
            if executor.paused and executor.tenure.deadline < executor.now():
                self.town.happened["resumed after its lease"] += 1
            executor.resume()

    def _kill(self, executor: Executor, *, terminated: bool) -> None:
        if not executor.alive:
            return
        executor.die()
        host = self.town.hosts.get(executor.me.id)
        if host is not None and host.uid == executor.me.uid:
            host.terminated, host.ready = terminated, False
            self.town.tell_of(host)
            self._later(partial(self._succeed, host))

    def _end(self, executor: Executor) -> None:
        if not executor.alive:
            return
        host = self.town.hosts.get(executor.me.id)
        executor.turn(executor.end)
        if host is not None and host.uid == executor.me.uid:
            host.terminating = True
            self.town.tell_of(host)
            self.town.timeline.after(12.0, partial(self._ended, executor, host))

    def _ended(self, executor: Executor, host: Host) -> None:
        """Kill the executor if it still lives, and start its replacement."""
        if executor.alive:
            executor.die()
        host.terminated = True
        self.town.tell_of(host)
        self._succeed(host)

    def _tell(self, executor: Executor, **said: bool) -> None:
        host = self.town.hosts.get(executor.me.id)
        if host is not None and host.uid == executor.me.uid:
            for key, value in said.items():
                setattr(host, key, value)
            self.town.tell_of(host)

    def _cut(self, step: steps.Partition) -> None:
        process = self._executor(step.number) if step.who == "executor" else self._leader()
        if process is None:
            return
        process.mute, process.deaf = step.direction != "from", step.direction != "to"

        def over() -> None:
            process.mute = process.deaf = False

        self.town.timeline.after(step.seconds, over)

    def _lose_node(self, executor: Executor, *, declared: bool) -> None:
        executor.mute = executor.deaf = True
        host = self.town.hosts.get(executor.me.id)
        if host is None or host.uid != executor.me.uid:
            return
        self._tell(executor, ready=False)
        if declared:  # by an operator that has verified that the machine is off
            executor.die()
            for supervisor in self.town.supervisors:
                supervisor.tell(partial(supervisor.node_lost, host))
        self.town.timeline.after(20.0, partial(self._succeed, host))

    def _force_delete(self, executor: Executor, *, again: bool) -> None:
        host = self.town.hosts.get(executor.me.id)
        if host is None or host.uid != executor.me.uid:
            return
        host.there = False
        del self.town.hosts[host.name]
        self.town.tell_of(host)
        if again:
            self._employ(host.name)

    def _archive_is_back(self) -> None:
        if self.town.archive.trouble is Trouble.DOWN:
            self.town.archive.trouble = Trouble.NONE

    def _recreate(self, name: str) -> None:
        self.town.store.delete(name)
        self._make_again(name, 100)

    def _make_again(self, name: str, tries: int) -> None:
        if name not in self.town.store.objects:
            self._numbers += 1
            self.town.happened["name used again"] += 1
            self.town.store.create(name, f"{name}-uid-{self._numbers}")
        elif tries and not self._healing:
            self.town.timeline.after(0.25, partial(self._make_again, name, tries - 1))

    def _edit_assignment(self, name: str, executor: str | None) -> None:
        view = self.town.store.objects[name].view
        if view.executor and not view.completed:
            answer = self.town.store.edit(name, lambda content: dict(PATHS.assign_to(content, executor)))
            self.town.happened["assignment edited" if isinstance(answer, Stored) else "edit refused"] += 1

    def _forsake(self, name: str) -> None:
        uid = self.town.store.objects[name].view.uid
        answer = self.town.store.edit(name, partial(_with_finalizer, FINALIZER, False))
        if not isinstance(answer, Refused):
            self.town.forsaken.add(uid)

    def _edit(self, name: str) -> None:
        def change(content: dict[str, Any]) -> dict[str, Any]:
            labels = {**content["metadata"].get("labels", {}), "team": f"t{self.town.counted()}"}
            spec = {**content["spec"], "pages": self.town.counted()}
            return {**content, "metadata": {**content["metadata"], "labels": labels}, "spec": spec}

        if isinstance(self.town.store.edit(name, change), Refused):
            raise UserKeptOut(f"a user's edit of {name} is refused")


def _with_finalizer(finalizer: str, on: bool, content: dict[str, Any]) -> dict[str, Any]:
    kept = [each for each in content["metadata"].get("finalizers", []) if each != finalizer]
    metadata = {**content["metadata"], "finalizers": [*kept, *([finalizer] if on else [])]}
    return {**content, "metadata": metadata}
