"""Runs the controllers: changes in, looks at keys in turn, writes out. Deterministic: same input, same writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from situate.cluster.controllers.actions import (
    Action,
    Answer,
    Bind,
    Create,
    Delete,
    Note,
    Patch,
    Reader,
    Record,
    Refusal,
    Rng,
    Writer,
)
from situate.cluster.controllers.changes import EVENTS, PODS, Change
from situate.cluster.controllers.controllers import Cluster, Controller
from situate.cluster.controllers.queue import Item, WorkQueue
from situate.cluster.controllers.recorder import Recorder
from situate.cluster.controllers.settings import MachinerySettings


@dataclass(slots=True)
class _Run:
    """The batches of one outcome on their way through the API."""

    item: Item
    batches: Iterator[tuple[Action, ...]]
    waiting: int = 0
    refused: bool = False


class Machinery:
    """All controllers over one API.

    The caller passes every change on to `observe` in the order of the store, and calls `step` when `next_due` has come.
    A write of a step is observed within the same step, so no controller ever decides on an old view of its own work.
    """

    def __init__(self, api: Writer, store: Reader, settings: MachinerySettings, rng: Rng) -> None:
        self._api = api
        self._settings = settings
        self.cluster = Cluster(store, settings, rng)
        self._controllers: dict[str, Controller] = {}
        self._queue = WorkQueue()
        self._changes: deque[Change] = deque()
        self._recorder = Recorder()
        self._tickets = 0
        self._pending: dict[int, tuple[_Run | None, Action]] = {}
        self._busy: set[Item] = set()
        self._again: set[Item] = set()
        self._now = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """The controllers that run."""
        return tuple(self._controllers)

    def observe(self, change: Change) -> None:
        """Take note of a change; the next `step` acts upon it."""
        self._changes.append(change)

    def next_due(self) -> float | None:
        """When `step` has work: minus infinity for now, None for not before something changes."""
        return float("-inf") if self._changes else self._queue.next_due()

    def step(self, now: float) -> None:
        """Do all that is due, until quiet or until `reconciles_per_step`; the rest is due at once."""
        self._now = max(self._now, now)
        for _ in range(self._settings.reconciles_per_step):
            self._take_in()
            item = self._queue.pop(self._now)
            if item is None:
                return
            if item in self._busy:
                self._again.add(item)
                continue
            name, key = item
            outcome = self._controllers[name].reconcile(key, self._now)
            if outcome.again_at is not None:
                self._queue.add_at(item, outcome.again_at)
            self._busy.add(item)
            self._proceed(_Run(item, iter(outcome.batches)))
        self._take_in()

    def settle(self, ticket: int, answer: Answer) -> None:
        """The late answer to a write for which `Writer.perform` gave None."""
        run, action = self._pending.pop(ticket)
        if run is None:
            return
        run.waiting -= 1
        self._judge(run, action, answer)
        if run.waiting == 0:
            self._proceed(run)

    def _take_in(self) -> None:
        while self._changes:
            change = self._changes.popleft()
            if change.resource == EVENTS:
                continue
            if change.resource == PODS:
                self.cluster.pods.apply(change)
            for name, controller in self._controllers.items():
                for key in controller.observe(change, self._now):
                    self._queue.add((name, key))

    def _proceed(self, run: _Run) -> None:
        """Run batch after batch until one has to wait for an answer."""
        while run.waiting == 0:
            batch = None if run.refused else next(run.batches, None)
            if batch is None:
                self._finish(run)
                return
            run.waiting = len(batch)
            for action in batch:
                answer = self._perform(run, action)
                if answer is not None:
                    run.waiting -= 1
                    self._judge(run, action, answer)

    def _finish(self, run: _Run) -> None:
        self._busy.discard(run.item)
        if run.refused:
            self._queue.add_limited(run.item, self._now)
        else:
            self._queue.forget(run.item)
        if run.item in self._again:
            self._again.discard(run.item)
            self._queue.add(run.item)

    def _perform(self, run: _Run, action: Action) -> Answer | None:
        controller = self._controllers[run.item[0]]
        if isinstance(action, Record):
            return Answer(200)
        self._tickets += 1
        answer = self._api.perform(action, controller.user, controller.manager, self._tickets)
        if answer is None:
            self._pending[self._tickets] = (run, action)
        return answer

    def _judge(self, run: _Run, action: Action, answer: Answer) -> None:
        name, key = run.item
        controller = self._controllers[name]
        if answer.ok:
            self._record(action.done, controller)
        elif not _moot(action, answer):
            run.refused = True
            if not isinstance(action, Record) and answer.status != 409:
                self._record(action.failed, controller, answer.message)
            controller.refused(key, Refusal(action, answer))

    def _record(self, note: Note | None, controller: Controller, error: str = "") -> None:
        if note is None or not self._settings.events:
            return
        event = self._recorder.event(note, controller.manager, self._now, error)
        if event is None:
            return
        self._tickets += 1
        answer = self._api.perform(event, controller.user, controller.manager, self._tickets)
        if answer is None:
            self._pending[self._tickets] = (None, event)
        elif not answer.ok and isinstance(event, Patch):
            self._recorder.forget(event.name)


def _moot(action: Action, answer: Answer) -> bool:
    """Whether a refusal means that there is nothing left to do."""
    match action:
        case Create():
            return "NamespaceTerminating" in answer.causes
        case Patch() | Delete() | Bind():
            return answer.status == 404
        case Record():
            return False
        case _:
            assert_never(action)
