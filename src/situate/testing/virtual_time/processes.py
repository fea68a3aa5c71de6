"""Processes on virtual time: each has its own asyncio loop, and all share one `Timeline`.

A paused process keeps its memory and gets no turn, as after SIGSTOP. When it resumes, all its timers are late. A killed
process gets no further turn, not even for its `finally` blocks, as after SIGKILL. A loop has no sockets and no threads
and never waits for the outside, so a history is a function of its seed.
"""

from __future__ import annotations

import asyncio
import enum
import sys
from asyncio import base_events
from asyncio.events import _set_running_loop  # asyncio lists it for authors of loops
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Self, TypeVarTuple

import msgspec

from situate.sim.timeline import ScheduledCall, Timeline

_Ts = TypeVarTuple("_Ts")

_MOST_CALLS_IN_A_TURN = 1_000
_MOST_CALLS_AT_ONE_INSTANT = 100_000


class ProcessesStuck(Exception):
    """The processes do not come to rest at one instant, or the process awaits something and nothing is due."""


class _Call(msgspec.Struct, eq=False):
    """A scheduled callback of a loop: the part of `asyncio.Handle` that asyncio itself relies on."""

    callback: Callable[..., object] | None
    args: tuple[Any, ...]
    context: Context
    due: float = 0.0
    """Time of a timer."""
    planned: ScheduledCall | None = None

    def cancel(self) -> None:
        self.callback = None
        self.args = ()
        if self.planned is not None:
            self.planned.cancel()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.due


class _Task(asyncio.Task[Any]):
    """A task with a number as its hash.

    asyncio keeps tasks in sets and cancels them in set order. By default that order depends on addresses and differs
    between runs.
    """

    __slots__ = ("_number",)

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], loop: VirtualLoop, **options: Any) -> None:
        self._number = number
        super().__init__(coro, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(base_events.BaseEventLoop):
    """An asyncio loop whose clock is a `Timeline`. It runs only when it gets a turn.

    It has its own queue, because asyncio's queue costs too much time for each callback. Its timers are on the timeline,
    so timers of equal time run in the order in which they were set, across all processes.
    """

    get_debug = staticmethod(bool)
    """Return False. asyncio calls it for each future and task, so it is a C function without a Python frame."""

    def __init__(self, timeline: Timeline, speed: float = 1.0) -> None:
        """`speed` is the speed of this loop's clock relative to the timeline."""
        super().__init__()
        self.halted = False
        """Whether callbacks no longer run, not even in the current turn."""
        self.ready_calls: deque[_Call] = deque()
        """The callbacks of the next turn."""
        self._timeline = timeline
        self._speed = speed
        self._tasks_made = 0

    def time(self) -> float:
        return self._timeline.now * self._speed

    def create_task(self, coro: Any, **options: Any) -> Any:
        self._tasks_made += 1
        return _Task(self._tasks_made, coro, self, **options)

    def call_soon(self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None) -> Any:
        call = _Call(callback, args, copy_context() if context is None else context)
        self.ready_calls.append(call)
        return call

    call_soon_threadsafe = call_soon  # no threads exist, and the driver polls the queue

    def call_later(
        self,
        delay: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> Any:
        return self.call_at(self._timeline.now * self._speed + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> Any:
        call = _Call(callback, args, copy_context() if context is None else context, when)
        call.planned = self._timeline.call_at(when / self._speed, partial(self.ready_calls.append, call))
        return call

    def turn(self) -> int:
        """Run the ready callbacks and those that they schedule, up to a limit. Return how many ran."""
        waiting = self.ready_calls
        _set_running_loop(self)
        calls = 0
        try:
            while waiting and calls < _MOST_CALLS_IN_A_TURN and not self.halted:
                calls += 1
                call = waiting.popleft()
                callback = call.callback
                if callback is None:
                    continue
                try:
                    call.context.run(callback, *call.args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as problem:
                    said = f"Exception in callback {callback!r}"
                    self.call_exception_handler({"message": said, "exception": problem})
        finally:
            _set_running_loop(None)
        return calls

    def close(self) -> None:
        self.ready_calls.clear()
        super().close()


class ProcessState(enum.Enum):
    RUNNING = "running"
    PAUSED = "paused"
    KILLED = "killed"
    ENDED = "ended"


class Process:
    """One process: its own loop and the coroutine that it runs."""

    def __init__(
        self, name: str, timeline: Timeline, main: Callable[[], Coroutine[Any, Any, None]], speed: float = 1.0
    ) -> None:
        """`speed` is the speed of its clock relative to the timeline."""
        self.name = name
        self.loop = VirtualLoop(timeline, speed)
        self.state = ProcessState.RUNNING
        self.complaints: list[dict[str, Any]] = []
        """Contexts passed to asyncio's exception handler. Each is a defect of the code under test."""
        self.turns = 0
        """Number of turns. Between two turns, nothing in the memory of the process changes."""
        self.loop.set_exception_handler(lambda _, context: self.complaints.append(context))
        self._task: asyncio.Task[None] = self.loop.create_task(main(), name=name)

    def turn(self) -> int:
        """Give the process a turn, record its end, and return the number of callbacks."""
        self.turns += 1
        calls = self.loop.turn()
        if self._task.done():
            self.state = ProcessState.ENDED
        return calls

    @property
    def is_alive(self) -> bool:
        """Return whether the process may still get a turn."""
        return self.state in (ProcessState.RUNNING, ProcessState.PAUSED)

    def pause(self) -> None:
        if self.state is ProcessState.RUNNING:
            self.state = ProcessState.PAUSED

    def resume(self) -> None:
        if self.state is ProcessState.PAUSED:
            self.state = ProcessState.RUNNING

    def kill(self) -> None:
        """Give no further turn. `World.close` unwinds the coroutines that it awaited."""
        if self.state is not ProcessState.ENDED:
            self.state = ProcessState.KILLED
            self.loop.halted = True

    def failure(self) -> BaseException | None:
        """Return the exception that ended the process. Return None while it runs and after an orderly end."""
        if not self._task.done() or self._task.cancelled():
            return None
        return self._task.exception()

    def close(self) -> None:
        """Cancel the remaining tasks. The transport must already refuse, so that no write reaches the cluster."""
        self.loop.set_exception_handler(lambda _, __: None)
        self.loop.halted = False
        for _ in range(100):
            tasks = asyncio.all_tasks(self.loop)
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            self.loop.turn()
        self.failure()
        self.loop.close()


class World:
    """Several processes and a timeline. The driver gives turns in the order in which processes were started."""

    def __init__(self, timeline: Timeline | None = None) -> None:
        self.timeline = timeline or Timeline()
        self.processes: list[Process] = []
        # queue and process of each living process: dead ones become many over a history
        self._alive: tuple[tuple[deque[_Call], Process], ...] = ()

    @property
    def now(self) -> float:
        return self.timeline.now

    def start(self, name: str, main: Callable[[], Coroutine[Any, Any, None]], speed: float = 1.0) -> Process:
        """Start a process. Several may have one name, as after a restart. `speed` is the speed of its clock."""
        process = Process(name, self.timeline, main, speed)
        self.processes.append(process)
        self._alive += ((process.loop.ready_calls, process),)
        return process

    def run_until(self, when: float, *, stop: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass until `when`, or until `stop()` is true after a turn. Return whether it was.

        Raises `ProcessesStuck` when the processes keep each other busy without time passing.
        """
        self._alive = tuple([each for each in self._alive if each[1].is_alive])
        hooks = sys.get_asyncgen_hooks()
        timeline = self.timeline
        calls, instant = 0, timeline.now
        try:
            while True:
                if called := self._run_turns():
                    if timeline.now > instant:
                        calls, instant = 0, timeline.now
                    calls += called
                    if calls > _MOST_CALLS_AT_ONE_INSTANT:
                        raise ProcessesStuck(
                            f"the processes are still busy at {instant:.3f} s: {self._running_names()}"
                        )
                    if stop():
                        return True
                elif not timeline.advance(when):
                    return stop()
        finally:
            sys.set_asyncgen_hooks(*hooks)

    def run(self, main: Callable[[], Coroutine[Any, Any, None]], *, at_most_s: float = 3600.0) -> None:
        """Run one coroutine to its end while the other processes run. Raise its exception."""
        process = self.start("main", main)
        self.run_until(self.now + at_most_s, stop=lambda: process.state is ProcessState.ENDED)
        if process.state is not ProcessState.ENDED:
            raise ProcessesStuck(f"still running after {at_most_s} virtual seconds")
        self.processes.remove(process)
        self._alive = tuple([each for each in self._alive if each[1] is not process])
        failure = process.failure()
        process.close()
        if failure is not None:
            raise failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Unwind every process. The virtual clock does not advance meanwhile."""
        for process in self.processes:
            process.close()
        self.processes.clear()
        self._alive = ()

    def _run_turns(self) -> int:
        calls = 0
        for waiting, process in self._alive:
            if waiting and process.state is ProcessState.RUNNING:
                calls += process.turn()
        return calls

    def _running_names(self) -> str:
        return ", ".join(p.name for p in self.processes if p.state is ProcessState.RUNNING) or "none is running"
