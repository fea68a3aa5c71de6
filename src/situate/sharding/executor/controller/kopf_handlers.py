"""A handler that was written for Kopf, as the reconciler of an executor.

    executor = Executor(identity, KopfHandler(build, retries=3), config)

Kopf's own loop does not run then: the executor watches, starts, cancels and repeats, and what the handler wants to be
written goes through `Work`, fenced. What needs Kopf's loop is left to it: `on.delete`, indices, sub-handlers, Events.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf

from situate.objects.settings.section import shown
from situate.sharding.executor.controller.kopf_call import (
    ARGUMENTS,
    LOG,
    bare,
    call,
    logger_for,
    of_body,
    unknown_arguments,
)
from situate.sharding.executor.controller.work import NotOwner, Work
from situate.sharding.executor.kopf_progress import Attempts, attempts_of, merged, record_of, with_record
from situate.sharding.executor.next_step import Outcome
from situate.sharding.model.field_paths import Content
from situate.sharding.model.supervisor_config import BadConfiguration


class OutsideStatus(Exception):
    """The handler's patch changes more than the status, which is all that an executor may write; the text says what."""


class NotStored(Exception):
    """The server has dropped how often the handler was tried, so no limit could ever be reached."""


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class KopfHandler:
    """What an `Executor` takes as its handler. Limits and modes mean what they mean to Kopf's decorators.

    A `kopf.TemporaryError` is `Outcome.again` after its delay, a `kopf.PermanentError` is `Outcome.failed`. Calls are
    counted in the object, so that limits hold whichever executor makes them.
    """

    fn: Callable[..., Any]
    """Decorated by Kopf or not. One that is not `async` runs in a thread, and should look at `stopped`."""
    id: str = ""
    """Its name in the status; empty: the function's."""
    returned: Outcome | None = field(default_factory=Outcome.succeeded)
    """What it means that it returns, unless it returns an `Outcome`; None: all is well until the spec changes."""
    param: Any = None
    memo: Any = None
    """Each call gets a shallow copy; what must outlive a call belongs into `work.checkpoint`."""
    errors: kopf.ErrorsMode = kopf.ErrorsMode.TEMPORARY
    """What any other exception is taken for."""
    timeout: float | None = None
    """Seconds since the first call after which there is no other one; None: no limit."""
    retries: int | None = None
    """So many calls at most; None: no limit."""
    backoff: float | None = None
    """Seconds after any other exception; None: the executor's own, which grow."""
    wall: Callable[[], datetime] = field(default=utc_now, repr=False)

    def __post_init__(self) -> None:
        """Raises `BadConfiguration`."""
        fn: object = self.fn
        if not callable(fn):
            raise BadConfiguration(f"a Kopf handler is {shown(fn)}, allowed: a function")
        if not self.id:
            object.__setattr__(self, "id", getattr(bare(fn), "__name__", ""))
        if not self.id:
            raise BadConfiguration("id of a Kopf handler is empty, and the function has no name to take for it")
        for name, least in (("timeout", 0), ("retries", 1), ("backoff", 0)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < least):
                raise BadConfiguration(
                    f"{name} of Kopf handler {self.id} is {shown(value)}, allowed: a number from {least}, or None"
                )
        if unknown := unknown_arguments(fn):
            raise BadConfiguration(
                f"Kopf handler {self.id} asks for {', '.join(unknown)}; an executor gives {', '.join(ARGUMENTS)}"
            )

    async def __call__(self, obj: Content, work: Work) -> Outcome | None:
        """One call of the handler. Raises what the executor is to repeat by its own back-off, and `NotOwner`."""
        now = self.wall()
        attempts = attempts_of(obj, self.id, now)
        runtime = now - attempts.started
        if over := self._over(runtime, attempts.retries):
            return await self._end(work, kopf.Patch(), Outcome.failed(over))
        body = kopf.Body(copy.deepcopy(obj))  # type: ignore[arg-type]  # a TypedDict of what any object has
        patch = kopf.Patch(body=body)
        arguments = {
            **of_body(body),
            "patch": patch,
            "logger": logger_for(body),
            "param": self.param,
            "memo": copy.copy(self.memo),
            "retry": attempts.retries,
            "started": attempts.started,
            "runtime": runtime,
        }
        try:
            result = await call(self.fn, work, arguments)
        except NotOwner:
            raise
        except kopf.PermanentError as error:
            return await self._end(work, patch, Outcome.failed(_said(error)))
        except kopf.TemporaryError as error:
            delay_s = error.delay or 0.0
            over = await self._counted(work, patch, attempts, delay_s, error)
            return Outcome.failed(over) if over else Outcome.again(delay_s)
        except Exception as error:  # whatever else a user's code may raise
            return await self._after(error, work, patch, attempts)
        if isinstance(result, Outcome):
            return await self._end(work, patch, result)
        return await self._end(work, patch, self.returned, result)

    async def _after(self, error: Exception, work: Work, patch: kopf.Patch, attempts: Attempts) -> Outcome | None:
        """An exception that says nothing to Kopf."""
        if self.errors is kopf.ErrorsMode.IGNORED:
            LOG.warning("Kopf handler %s has failed, which is ignored", self.id, exc_info=error)
            return await self._end(work, patch, self.returned)
        if self.errors is kopf.ErrorsMode.PERMANENT:
            return await self._end(work, patch, Outcome.failed(_said(error)))
        over = await self._counted(work, patch, attempts, self.backoff or 0.0, error)
        if over:
            return Outcome.failed(over)
        if self.backoff is None:
            raise error
        return Outcome.again(self.backoff)

    async def _counted(
        self, work: Work, patch: kopf.Patch, attempts: Attempts, delay_s: float, error: Exception
    ) -> str:
        """Stores one more call. The limit that a call after the delay would pass, in words; empty: none."""
        tried = replace(attempts, retries=attempts.retries + 1)
        over = self._over(self.wall() - attempts.started + timedelta(seconds=delay_s), tried.retries)
        record = None if over else tried.record(_said(error))
        written = await work.patch_status(self._change(work, patch, None, record))
        if record is not None and self._limited and record_of(written, self.id).get("retries") != tried.retries:
            raise NotStored(
                f"Kopf handler {self.id} has a limit, and status.kopf.progress was not stored: declare "
                "x-kubernetes-preserve-unknown-fields for status.kopf in the CustomResourceDefinition"
            ) from error
        return f"{over}: {_said(error)}" if over else ""

    @property
    def _limited(self) -> bool:
        return self.timeout is not None or self.retries is not None

    def _over(self, runtime: timedelta, tried: int) -> str:
        seconds = runtime.total_seconds()
        if self.timeout is not None and seconds >= self.timeout:
            return f"{self.id} may be tried for {self.timeout:g} s, and would be after {seconds:g} s"
        if self.retries is not None and tried >= self.retries:
            return f"{self.id} may be tried {self.retries} times, and has been"
        return ""

    async def _end(self, work: Work, patch: kopf.Patch, outcome: Outcome | None, result: Any = None) -> Outcome | None:
        """Writes what is left to be written; nothing where there is nothing."""
        if patch or result is not None or record_of(work.object, self.id):
            await work.patch_status(self._change(work, patch, result, None))
        return outcome

    def _change(
        self, work: Work, patch: kopf.Patch, result: Any, record: Mapping[str, Any] | None
    ) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
        """Of the status: the handler's patch, what it returned, and the record of its calls; None: no record."""

        def changed(status: dict[str, Any]) -> Mapping[str, Any]:
            before = {**work.object, "status": status}
            after = merged(copy.deepcopy(before), patch)
            for change in patch.fns:
                change(after)  # type: ignore[arg-type]  # a TypedDict of what any object has
            outside = [key for key in {**before, **after} if key != "status" and before.get(key) != after.get(key)]
            if outside:
                raise OutsideStatus(
                    f"{work.object['metadata']['name']}: Kopf handler {self.id} changes {', '.join(sorted(outside))}, "
                    "and an executor writes the status only; write the rest through a client of your own"
                )
            told = {} if result is None else {self.id: result}
            return with_record({**(after.get("status") or {}), **told}, self.id, record)

        return changed


def _said(error: Exception) -> str:
    """What Kopf's users raise speaks for itself."""
    name = type(error).__name__
    if not str(error):
        return name
    return str(error) if isinstance(error, kopf.TemporaryError | kopf.PermanentError) else f"{name}: {error}"
