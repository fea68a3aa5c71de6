"""Call a function that was written for Kopf: by argument names, and in a thread unless it is async."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import kopf

from situate.sharding.executor.controller.work import Work

BODY_ARGUMENTS: Final = ("spec", "meta", "status", "uid", "name", "namespace", "labels", "annotations")
ARGUMENTS: Final = (
    *("body", *BODY_ARGUMENTS),
    *("patch", "logger", "param", "memo", "retry", "started", "runtime", "stopped", "work"),
)
"""The arguments that a handler may ask for, as in Kopf; `work` is an addition.

There is no `old`, `new`, `diff` or `reason`: a handler is called with the desired state, not with the change.
"""
LOG: Final = logging.getLogger("situate.kopf")

Function = Callable[..., Any]


def unwrap_partials(fn: Function) -> Function:
    """Unwrap every `functools.partial`."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def unknown_arguments(fn: Function) -> list[str]:
    """Return the required arguments that an executor cannot supply."""
    return [
        each.name
        for each in inspect.signature(fn).parameters.values()
        if each.kind is inspect.Parameter.POSITIONAL_ONLY
        or (each.kind in _NAMED_KINDS and each.default is inspect.Parameter.empty and each.name not in ARGUMENTS)
    ]


def body_arguments(body: kopf.Body) -> dict[str, Any]:
    """Return the arguments that are parts of the object."""
    meta = body.meta
    values = (body.spec, meta, body.status, meta.uid, meta.name, meta.namespace, meta.labels, meta.annotations)
    return {"body": body, **dict(zip(BODY_ARGUMENTS, values, strict=True))}


def logger_for(body: kopf.Body) -> logging.LoggerAdapter[logging.Logger]:
    """Return a logger that names the object in every line."""
    return logging.LoggerAdapter(LOG, {"key": f"{body.meta.namespace}/{body.meta.name}"})


async def call_function(fn: Function, work: Work, arguments: Mapping[str, Any]) -> Any:
    """Call the function and return its result.

    On cancellation, an async function ends at once. A thread sees `stopped`, and the call waits for its end.
    """
    is_async = _is_async(fn)
    given = {**arguments, "work": work, "stopped": AsyncStopChecker(work) if is_async else SyncStopChecker(work)}
    wanted = {name: given[name] for name in _accepted_arguments(fn)}
    return await fn(**wanted) if is_async else await work.in_thread(fn, **wanted)


class SyncStopChecker:
    """Kopf's `stopped` in a thread: true as soon as the handler must stop."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __bool__(self) -> bool:
        return self.is_set()

    def is_set(self) -> bool:
        return self._work.stopping.is_set()

    def wait(self, timeout: float | None = None) -> SyncStopChecker:
        """Wait until the handler must stop, or until the timeout has passed."""
        self._work.stopping.wait(timeout)
        return self


class AsyncStopChecker:
    """Kopf's `stopped` in a coroutine. A coroutine is cancelled when it must stop."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __bool__(self) -> bool:
        return self.is_set()

    def is_set(self) -> bool:
        return self._work.stopping.is_set()

    async def wait(self, timeout: float | None = None) -> AsyncStopChecker:
        """Wait for this many seconds, or without end. A cancellation ends the wait early."""
        if timeout is None:
            await asyncio.get_running_loop().create_future()
        else:
            await asyncio.sleep(timeout)
        return self


_NAMED_KINDS: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _is_async(fn: Function) -> bool:
    """Return whether the function, or the `__call__` of an object, is async."""
    inner = unwrap_partials(fn)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(type(inner).__call__)


def _accepted_arguments(fn: Function) -> Iterator[str]:
    """Yield the names of `ARGUMENTS` that the function accepts."""
    parameters = inspect.signature(fn).parameters
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    bound = fn.keywords if isinstance(fn, functools.partial) else {}
    for name in ARGUMENTS:
        if (takes_all or name in parameters) and name not in bound:
            yield name
