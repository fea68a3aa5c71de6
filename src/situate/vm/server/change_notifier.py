"""Rounds of checks after changes, for all waiting requests together: many wait, and changes come in bursts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from operator import is_
from typing import Final, Generic, Protocol, TypeVar

T = TypeVar("T")
_MIN_INTERVAL_S: Final = 0.005
"""Least time between two rounds."""


class ChangeNotifier:
    """Rounds of one process. `run` is a task of the process, until cancelled."""

    def __init__(self) -> None:
        self._waiting: dict[_Check, None] = {}
        self._changed = asyncio.Event()

    def notify_change(self) -> None:
        """Start a round: a change may complete an answer."""
        self._changed.set()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            for each in list(self._waiting):
                each.check()
            await asyncio.sleep(_MIN_INTERVAL_S)

    async def wait(
        self, look: Callable[[float], T | None], seen: Callable[[], tuple[object, ...]], within_s: float
    ) -> T | None:
        """Return the first result of `check` that is not None. `check` receives the seconds waited so far.

        It is called at once, whenever one of the objects from `seen` has been replaced, and at the end.
        """
        began = asyncio.get_running_loop().time()
        found = look(0.0)
        if found is not None:
            return found
        waiter = _Waiter(look, seen, began)
        self._waiting[waiter] = None
        try:
            async with asyncio.timeout(within_s):
                return await waiter.answer
        except TimeoutError:
            return look(within_s)
        finally:
            del self._waiting[waiter]


class _Check(Protocol):
    def check(self) -> None: ...


class _Waiter(Generic[T]):
    def __init__(self, look: Callable[[float], T | None], seen: Callable[[], tuple[object, ...]], began: float) -> None:
        self._look, self._seen, self._began = look, seen, began
        self._last = seen()
        self.answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def check(self) -> None:
        now = self._seen()
        if self.answer.done() or all(map(is_, now, self._last)):
            return
        self._last = now
        try:
            found = self._look(asyncio.get_running_loop().time() - self._began)
        except Exception as defect:  # its own waiter raises it; the others continue
            self.answer.set_exception(defect)
            return
        if found is not None:
            self.answer.set_result(found)
