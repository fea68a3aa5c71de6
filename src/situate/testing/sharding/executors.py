"""An executor of a history of decisions. It uses the shipped `next_step`, `Tenure`, `Forgone` and patches.

The loops around them are simulated: renewing, listing, watching, confirming, working. A careless executor does not
check whether it still holds an object that it writes, and sends no preconditions. Only the policy stops its stale
writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from situate.sharding.executor.next_step import (
    Forgone,
    Local,
    Me,
    Release,
    Rest,
    Situation,
    Start,
    Stop,
    StopReason,
    next_step,
    owns,
)
from situate.sharding.fencing.admit import Role, Writer
from situate.sharding.leases.membership import LeaseTimes
from situate.sharding.leases.tenure import Tenure
from situate.sharding.model.object_view import ObjectView, released
from situate.sharding.model.patches import fenced_patch, guarded_patch
from situate.testing.sharding import events
from situate.testing.sharding.processes import Process
from situate.testing.sharding.store import PATHS, Refused, Stored
from situate.testing.sharding.town import Town

TIMES: Final = LeaseTimes()
STALL_LIMIT_S: Final = 5.0
_PRECONDITIONS: Final = 2
"""Number of operations at the head of a guarded patch."""


@dataclass(slots=True, eq=False)
class Run:
    """A running handler."""

    stored: Stored
    epoch: int
    tenure: int
    stopping: bool = False
    stubborn: bool = False
    """Whether it ignores its cancellation."""
    timed: bool = False
    """Whether the process ends if the handler does not."""
    still: bool = False
    """Whether its process is paused beyond the time it may work. Nothing of it runs then."""


class Executor(Process):
    """One incarnation. `begin` starts it."""

    def __init__(self, town: Town, id_: str, uid: str, speed: float, *, careless: bool) -> None:
        super().__init__(town, uid, speed)
        self.town = town
        self.me = Me(id_, uid)
        self.tenure = Tenure(TIMES)
        self.runs: dict[str, Run] = {}
        self.views: dict[str, ObjectView] = {}
        self.draining = False
        """Whether it is about to end."""
        self.stubborn = False
        """Whether its next handlers ignore their cancellation."""
        self._careless = careless
        self._forgone = Forgone()
        self._asking: set[str] = set()
        """Names of the objects that it is reading from the server."""
        self._resume_at: dict[str, float] = {}
        self._armed = False
        self._blocked_at = 0.0
        self._listing = False

    def begin(self) -> None:
        self._beat()

    def block(self) -> None:
        """Block its event loop."""
        self.blocked = True
        self._blocked_at = self.now()

    def resume(self) -> None:
        super().resume()
        for name in [*self.runs]:
            self._look(name)

    def end(self) -> None:
        """Begin to end, as after SIGTERM."""
        self.draining = True
        for name in {*self.views, *self.runs}:
            self._look(name)
        self._end_if_idle()

    def die(self) -> None:
        super().die()
        self.town.note(events.Crash(self.town.now, self.me.id, self.me.uid))
        self.runs.clear()

    def pause(self) -> None:
        super().pause()
        # no other executor may begin before the deadline, and from then on nothing of this one runs
        left_s = max(0.0, self.tenure.deadline - self.now()) / self.speed if not self.tenure.over else 0.0
        self.town.timeline.after(left_s, self._stands_still)

    def saw(self, name: str, stored: Stored | None) -> None:
        """Handle a watch event."""
        if stored is None or stored.view.executor != self.me.id:
            self.views.pop(name, None)
        else:
            self.views[name] = stored.view
        run = self.runs.get(name)
        if run is not None and stored is not None and stored.view.uid == run.stored.view.uid:
            run.stored = stored
        self._look(name)

    @property
    def _leased(self) -> bool:
        return self.tenure.valid(self.now())

    def _beat(self) -> None:
        self.after(TIMES.renew_s, self._beat, thread=True)
        self._renew()
        if not self.blocked:
            self._list()

    def _renew(self) -> None:
        stalled = self.blocked and self.now() - self._blocked_at > STALL_LIMIT_S
        if stalled or (self.tenure.over and self.runs):
            return
        sent_at = self.now()
        self.ask(
            "renewal", partial(self.town.renewed, self), partial(self._renewed, sent_at), thread=True, timeout_s=2.0
        )

    def _renewed(self, sent_at: float, answer: bool | Refused | None) -> None:
        if answer is True:
            self.tenure.renewed(sent_at)
            self._arm()
            self._try_to_begin()
        else:
            self.after(TIMES.retry_s, self._renew, thread=True)

    def _list(self) -> None:
        if not self._listing:
            self._listing = True
            sent_at = self.now()
            listed = partial(self.town.store.of_executor, self.me.id)
            self.ask("read objects", listed, partial(self._listed, sent_at), timeout_s=4.0)

    def _listed(self, sent_at: float, answer: dict[str, Stored] | Refused | None) -> None:
        self._listing = False
        if not isinstance(answer, dict):
            return
        names = {*self.views, *answer, *self.runs}
        self.views = {name: stored.view for name, stored in answer.items()}
        self.tenure.knows(sent_at)
        self._arm()
        self._try_to_begin()
        for name in sorted(names):
            self._look(name)

    def _arm(self) -> None:
        """Plan a check for the time at which the tenure may be over."""
        if not self._armed and not self.tenure.over:
            self._armed = True
            self.after(self.tenure.deadline - self.now(), self._watch_over, thread=True)

    def _watch_over(self) -> None:
        self._armed = False
        tenure = self.tenure
        if tenure.over:
            return
        if self.now() < tenure.deadline:
            self._arm()
            return
        tenure.lose(tenure.deadline)
        self.town.happened["lease lost"] += 1
        self.after(tenure.ends_process_at() - self.now(), self._end_if_busy, thread=True)
        self.turn(self._cancel_all)

    def _cancel_all(self) -> None:
        for name in [*self.runs]:
            self._look(name)

    def _end_if_busy(self) -> None:
        if self.tenure.over and self.runs and self.now() >= self.tenure.ends_process_at():
            self.town.happened["process ended itself"] += 1
            self.die()

    def _stands_still(self) -> None:
        if not (self.alive and self.paused):
            return
        for name, run in self.runs.items():
            if not run.still:
                run.still = True
                self.town.note(events.Stop(self.town.now, self.me.id, self.me.uid, name))

    def _try_to_begin(self) -> None:
        """Begin a tenure if possible.

        Except at the first tenure, it forgoes the objects found then: they were assigned under a lost Lease.
        """
        tenure = self.tenure
        if not tenure.over or self.runs or self.draining or not tenure.may_begin(self.now()):
            return
        if tenure.number > 0:
            self._forgone = Forgone().with_all({view.uid: view for view in self.views.values()}, self.me)
        tenure.begin()
        self._arm()
        for name in sorted(self.views):
            self._look(name)

    def _local(self, name: str, uid: str) -> Local:
        run = self.runs.get(name)
        return Local(
            running=None if run is None else run.epoch,
            running_uid="" if run is None else run.stored.view.uid,
            resume_at=self._resume_at.get(name),
            forgone=self._forgone.of(uid),
        )

    def _step(self, name: str, view: ObjectView | None) -> object:
        situation = Situation(self.me, self.now(), self._leased, self.draining)
        return next_step(view, 1, self._local(name, "" if view is None else view.uid), situation)

    def _look(self, name: str) -> None:
        if name in self._asking:
            return
        view = self.views.get(name)
        match self._step(name, view):
            case Start():
                self._confirm(name)
            case Stop(reason):
                self._stop(name, self.runs[name], reason)
            case Release() if view is not None:
                self._release(name, view)
            case Rest(until) if until is not None:
                self.after(until - self.now(), partial(self._look, name))

    def _confirm(self, name: str) -> None:
        self._asking.add(name)
        asked_at, slots = self.now(), list[int]()

        def read() -> Stored | Refused:
            slots.append(self.town.reserve())  # events between the answer and its arrival are unknown to it
            return self.town.store.get(name)

        self.ask("read object", read, lambda answer: self._confirmed(name, asked_at, slots, answer))

    def _confirmed(self, name: str, asked_at: float, slots: list[int], answer: Stored | Refused | None) -> None:
        self._asking.discard(name)
        if answer is Refused.GONE:
            self.views.pop(name, None)
        elif not isinstance(answer, Stored) or self.now() - asked_at >= TIMES.renew_deadline_s / 2:
            self.after(1.0, partial(self._look, name))
        else:
            self.views[name] = answer.view
            step = self._step(name, answer.view)
            if not isinstance(step, Start):
                self._look(name)
                return
            self.runs[name] = run = Run(answer, step.epoch, self.tenure.number, stubborn=self.stubborn)
            self._resume_at.pop(name, None)
            self.town.put(slots[0], events.Start(self.town.now, self.me.id, self.me.uid, name, step.epoch))
            self.after(self.world.rng.uniform(0.5, 6.0), partial(self._work, name, run))

    def write_under_way(self, name: str, run: Run) -> None:
        """Send a write that is on its way when the process is stopped."""
        self._write(name, run, done=False, then=lambda _: None)

    def finish(self, name: str, run: Run) -> None:
        """Let the handler complete the object."""
        if self.runs.get(name) is run and not run.stopping:
            self._write(name, run, done=True, then=lambda answer: self._worked(name, run, answer, done=True))

    def _work(self, name: str, run: Run) -> None:
        """Write progress, or complete the object."""
        if self.runs.get(name) is not run or run.stopping:
            return
        done = self.world.rng.random() < 0.12
        self._write(name, run, done=done, then=lambda answer: self._worked(name, run, answer, done=done))

    def _worked(self, name: str, run: Run, answer: Stored | Refused | None, *, done: bool) -> None:
        if self.runs.get(name) is not run:
            return
        rng = self.world.rng
        if isinstance(answer, Stored):
            run.stored = answer
            if done:
                self._ended(name, run)
            elif rng.random() < 0.1:  # it has failed, or requests another call
                self._resume_at[name] = self.now() + rng.uniform(0.5, 3.0)
                self._ended(name, run)
            else:
                self.after(rng.uniform(1.0, 8.0), partial(self._work, name, run))
        elif answer is None or answer is Refused.FAILED:
            self.after(1.0, partial(self._work, name, run))
        else:
            self.ask("read object", partial(self.town.store.get, name), partial(self._read_again, name, run))

    def _read_again(self, name: str, run: Run, answer: Stored | Refused | None) -> None:
        if self.runs.get(name) is not run:
            return
        if answer is None or answer is Refused.FAILED:
            self.after(1.0, partial(self._work, name, run))
            return
        mine = isinstance(answer, Stored) and owns(answer.view, self.me) and answer.view.epoch == run.epoch
        if isinstance(answer, Stored) and mine and answer.view.uid == run.stored.view.uid:
            run.stored = answer
            self._work(name, run)
        else:
            self._ended(name, run)

    def _write(self, name: str, run: Run, *, done: bool, then: Callable[[Stored | Refused | None], object]) -> None:
        """Write progress or the terminal marks."""
        content = run.stored.content
        if done:
            after = PATHS.complete(content, self.town.wall(), successful=True)
        else:
            status: dict[str, Any] = {**content.get("status", {}), "by": self.me.uid, "step": self.town.counted()}
            after = {**content, "status": status}
        if self._careless:
            operations = guarded_patch(content, after)[_PRECONDITIONS:]
        else:
            if not self._leased or run.tenure != self.tenure.number:
                return  # as `may_write` of the shell
            operations = fenced_patch(content, after, run.epoch, self.me.uid)
        write = partial(self._land, name, operations, run.epoch, "status")
        self.ask("status", write, then, late_s=self.world.weather.late_writes_s)

    def _land(self, name: str, operations: Any, epoch: int, subresource: str) -> Stored | Refused:
        """Carry out a write on the server."""
        writer = Writer(Role.EXECUTOR, self.me.uid)
        if self._careless and self.town.store.policy and (stored := self.town.store.objects.get(name)) is not None:
            # It does not send its epoch, and the policy sees the incarnation alone: it may write an object that it
            # holds again.
            epoch = stored.view.epoch if stored.view.executor_uid == self.me.uid else epoch
        answer = self.town.store.patch(name, operations, writer, subresource)
        self.town.wrote(self.me, name, epoch, answer)
        return answer

    def _stop(self, name: str, run: Run, reason: StopReason) -> None:
        grace_s = TIMES.cancel_grace_s
        if reason is StopReason.NOT_OURS and not run.timed:
            run.timed = True
            self.after(grace_s, partial(self._must_have_ended, name, run))
        if run.stopping:
            return
        run.stopping = True
        if not run.stubborn:
            self.after(self.world.rng.uniform(0.0, 0.9) * grace_s, partial(self._ended, name, run))

    def _must_have_ended(self, name: str, run: Run) -> None:
        if self.runs.get(name) is run:
            self.town.happened["process ended itself"] += 1
            self.die()

    def _ended(self, name: str, run: Run) -> None:
        """Handle the end of a handler."""
        if self.runs.get(name) is not run:
            return
        if self._careless:  # it stops too late
            self._write(name, run, done=False, then=lambda _: None)
        if not self.alive:
            return  # that was its last write
        del self.runs[name]
        if not run.still:
            self.town.note(events.Stop(self.town.now, self.me.id, self.me.uid, name))
        self._try_to_begin()
        self._look(name)
        self._end_if_idle()

    def _release(self, name: str, view: ObjectView) -> None:
        if not self._leased:
            return
        self._asking.add(name)
        operations = fenced_patch(view.content, released(view.content, PATHS), view.epoch, self.me.uid)
        late_s = self.world.weather.late_writes_s
        land = partial(self._land, name, operations, view.epoch, "")
        self.ask("release", land, partial(self._released, name), late_s=late_s)

    def _released(self, name: str, answer: Stored | Refused | None) -> None:
        if isinstance(answer, Stored):
            self._asking.discard(name)
            self.saw(name, answer)
            self._end_if_idle()
            return
        self.ask("read object", partial(self.town.store.get, name), partial(self._release_again, name))

    def _release_again(self, name: str, answer: Stored | Refused | None) -> None:
        self._asking.discard(name)
        if isinstance(answer, Stored) or answer is Refused.GONE:
            self.saw(name, answer if isinstance(answer, Stored) else None)
        else:
            self.after(1.0, partial(self._look, name))

    def _end_if_idle(self) -> None:
        """After SIGTERM, release the Lease and die once no handler runs and no object is held."""
        held = any(owns(view, self.me) for view in self.views.values()) and self._leased
        if self.draining and self.alive and not self.runs and not self._asking and not held:
            self.ask("release of the lease", partial(self.town.given_back, self), lambda _: None)
            self.die()
