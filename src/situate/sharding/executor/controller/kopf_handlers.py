"""Run a handler that was written for Kopf as the handler of an executor.

    executor = Executor(identity, KopfHandler(build, retries=3), config)

Kopf's own loop does not run. The executor watches, starts, cancels and retries, and `Work` sends the handler's changes
as fenced writes. Features that need Kopf's loop stay there: `on.delete`, indices, sub-handlers, Events.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf

from situate.objects.settings.section import format_value
from situate.sharding.executor.controller.kopf_call import (
    ARGUMENTS,
    LOG,
    body_arguments,
    call_function,
    logger_for,
    unknown_arguments,
    unwrap_partials,
)
from situate.sharding.executor.controller.work import NotOwner, Work
from situate.sharding.executor.kopf_progress import Attempts, attempts_of, merge_patch, record_of, with_record
from situate.sharding.executor.next_step import Outcome
from situate.sharding.model.field_paths import Content
from situate.sharding.model.supervisor_config import BadConfiguration


class OutsideStatus(Exception):
    """The handler's patch changes fields outside the status, the only part that an executor may write."""


class NotStored(Exception):
    """The server did not store the number of attempts, so a limit would never be reached."""


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class KopfHandler:
    """A handler for an `Executor`. Limits and modes have the meaning of Kopf's decorators.

    A `kopf.TemporaryError` becomes `Outcome.again` after its delay, and a `kopf.PermanentError` becomes
    `Outcome.failed`. The object stores the number of calls, so that the limits hold across executors.
    """

    fn: Callable[..., Any]
    """A function, decorated by Kopf or not. If it is not `async`, it runs in a thread and should check `stopped`."""
    id: str = ""
    """Name of the handler in the status; empty: the name of the function."""
    returned: Outcome | None = field(default_factory=Outcome.succeeded)
    """Result of a call that does not return an `Outcome`. None: the object is settled until its spec changes."""
    param: Any = None
    memo: Any = None
    """Each call gets a shallow copy. Data that must outlive a call belongs in `work.checkpoint`."""
    errors: kopf.ErrorsMode = kopf.ErrorsMode.TEMPORARY
    """Handling of all other exceptions."""
    timeout: float | None = None
    """Seconds since the first call after which the handler is not called again; None: no limit."""
    retries: int | None = None
    """Maximum number of calls; None: no limit."""
    backoff: float | None = None
    """Seconds of delay after any other exception; None: the growing back-off of the executor."""
    wall: Callable[[], datetime] = field(default=utc_now, repr=False)

    def __post_init__(self) -> None:
        """Validate the fields. Raises `BadConfiguration`."""
        fn: object = self.fn
        if not callable(fn):
            raise BadConfiguration(f"a Kopf handler is {format_value(fn)}, allowed: a function")
        if not self.id:
            object.__setattr__(self, "id", getattr(unwrap_partials(fn), "__name__", ""))
        if not self.id:
            raise BadConfiguration("id of a Kopf handler is empty, and its function has no name; set id")
        for name, least in (("timeout", 0), ("retries", 1), ("backoff", 0)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < least):
                raise BadConfiguration(
                    f"{name} of Kopf handler {self.id} is {format_value(value)}, allowed: a number from {least}, or "
                    "None"
                )
        if unknown := unknown_arguments(fn):
            raise BadConfiguration(
                f"Kopf handler {self.id} has the unknown parameters {', '.join(unknown)}, allowed: "
                f"{', '.join(ARGUMENTS)}"
            )

    async def __call__(self, obj: Content, work: Work) -> Outcome | None:
        """Call the handler once. Raises `NotOwner`, and the errors that the executor must retry by its own back-off."""
        now = self.wall()
        attempts = attempts_of(obj, self.id, now)
        runtime = now - attempts.started
        if over := self._exceeded_limit(runtime, attempts.retries):
            return await self._write_result(work, kopf.Patch(), Outcome.failed(over))
        body = kopf.Body(copy.deepcopy(obj))  # type: ignore[arg-type]  # a TypedDict of what any object has
        patch = kopf.Patch(body=body)
        arguments = {
            **body_arguments(body),
            "patch": patch,
            "logger": logger_for(body),
            "param": self.param,
            "memo": copy.copy(self.memo),
            "retry": attempts.retries,
            "started": attempts.started,
            "runtime": runtime,
        }
        try:
            result = await call_function(self.fn, work, arguments)
        except NotOwner:
            raise
        except kopf.PermanentError as error:
            return await self._write_result(work, patch, Outcome.failed(_error_text(error)))
        except kopf.TemporaryError as error:
            delay_s = error.delay or 0.0
            over = await self._count_attempt(work, patch, attempts, delay_s, error)
            return Outcome.failed(over) if over else Outcome.again(delay_s)
        except Exception as error:  # user code may raise any exception
            return await self._handle_exception(error, work, patch, attempts)
        if isinstance(result, Outcome):
            return await self._write_result(work, patch, result)
        return await self._write_result(work, patch, self.returned, result)

    async def _handle_exception(
        self, error: Exception, work: Work, patch: kopf.Patch, attempts: Attempts
    ) -> Outcome | None:
        """Handle an exception that has no meaning for Kopf, as `errors` says."""
        if self.errors is kopf.ErrorsMode.IGNORED:
            LOG.warning("Kopf handler %s failed, error ignored", self.id, exc_info=error)
            return await self._write_result(work, patch, self.returned)
        if self.errors is kopf.ErrorsMode.PERMANENT:
            return await self._write_result(work, patch, Outcome.failed(_error_text(error)))
        over = await self._count_attempt(work, patch, attempts, self.backoff or 0.0, error)
        if over:
            return Outcome.failed(over)
        if self.backoff is None:
            raise error
        return Outcome.again(self.backoff)

    async def _count_attempt(
        self, work: Work, patch: kopf.Patch, attempts: Attempts, delay_s: float, error: Exception
    ) -> str:
        """Store one more call. Return which limit a call after the delay would exceed, as a sentence; empty: none."""
        tried = replace(attempts, retries=attempts.retries + 1)
        over = self._exceeded_limit(self.wall() - attempts.started + timedelta(seconds=delay_s), tried.retries)
        record = None if over else tried.record(_error_text(error))
        written = await work.patch_status(self._status_change(work, patch, None, record))
        if record is not None and self._has_limit and record_of(written, self.id).get("retries") != tried.retries:
            raise NotStored(
                f"Kopf handler {self.id} has a limit, but status.kopf.progress was not stored: declare "
                "x-kubernetes-preserve-unknown-fields for status.kopf in the CustomResourceDefinition"
            ) from error
        return f"{over}: {_error_text(error)}" if over else ""

    @property
    def _has_limit(self) -> bool:
        return self.timeout is not None or self.retries is not None

    def _exceeded_limit(self, runtime: timedelta, tried: int) -> str:
        seconds = runtime.total_seconds()
        if self.timeout is not None and seconds >= self.timeout:
            return f"{self.id} reached its timeout of {self.timeout:g} s: the next call would start after {seconds:g} s"
        if self.retries is not None and tried >= self.retries:
            return f"{self.id} reached its limit of {self.retries} calls"
        return ""

    async def _write_result(
        self, work: Work, patch: kopf.Patch, outcome: Outcome | None, result: Any = None
    ) -> Outcome | None:
        """Write the remaining changes, if there are any."""
        if patch or result is not None or record_of(work.object, self.id):
            await work.patch_status(self._status_change(work, patch, result, None))
        return outcome

    def _status_change(
        self, work: Work, patch: kopf.Patch, result: Any, record: Mapping[str, Any] | None
    ) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
        """Return the change of the status: the handler's patch, its result, and the record of its calls.

        `record` None removes the record.
        """

        def changed(status: dict[str, Any]) -> Mapping[str, Any]:
            before = {**work.object, "status": status}
            after = merge_patch(copy.deepcopy(before), patch)
            for change in patch.fns:
                change(after)  # type: ignore[arg-type]  # a TypedDict of what any object has
            outside = [key for key in {**before, **after} if key != "status" and before.get(key) != after.get(key)]
            if outside:
                raise OutsideStatus(
                    f"{work.object['metadata']['name']}: Kopf handler {self.id} changes {', '.join(sorted(outside))}, "
                    "but an executor writes only the status; write other fields with your own client"
                )
            told = {} if result is None else {self.id: result}
            return with_record({**(after.get("status") or {}), **told}, self.id, record)

        return changed


def _error_text(error: Exception) -> str:
    """Return the error text. Kopf's own exceptions need no class name."""
    name = type(error).__name__
    if not str(error):
        return name
    return str(error) if isinstance(error, kopf.TemporaryError | kopf.PermanentError) else f"{name}: {error}"
