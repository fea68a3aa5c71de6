"""What requests are answered from: the ledger of the process that leads, what it watches, and its way to write."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, Protocol, TypeVar

from situate.kube.client import Client
from situate.kube.errors import KubeError, TooManyRequests
from situate.kube.patches import Patch
from situate.kube.watch.reflector import Reflector
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.resources import ResourceType
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.reconcile.outcomes import Retriable
from situate.vm.controller.informers import VmWatched
from situate.vm.ledger.ledger import Ledger

T = TypeVar("T", bound=KubernetesObject)
_AT_ONCE: Final = 48
"""Requests of which something is being written: of many at once each would take too long, and all would fail."""


class Leading(Protocol):
    """What leads, or does not: `situate.vm.controller.controller.VmController`."""

    ledger: Ledger
    watched: VmWatched
    actuator: Actuator | None
    """None while it does not lead."""


class NotLeading(Exception):
    """Another replica answers; nothing was written."""


class NotWritten(Exception):
    """The message says why; it may have been carried out all the same."""


class NotInTime(NotWritten):
    """The API server is slow, or says that it has too much to do."""


class Desk:
    """Of one process."""

    def __init__(self, leading: Leading, client: Client, call_timeout_s: float) -> None:
        """`client`: for what is written before an answer; `call_timeout_s`: how long that may take."""
        self._leading = leading
        self._client = client
        self._call_timeout_s = call_timeout_s
        self.lane = asyncio.Semaphore(_AT_ONCE)
        """Of requests: from what is written before the answer to what is written because of it."""

    @property
    def ledger(self) -> Ledger:
        return self._leading.ledger

    @property
    def watched(self) -> VmWatched:
        return self._leading.watched

    def leads(self) -> bool:
        """At this very moment (B44)."""
        actuator = self._leading.actuator
        return actuator is not None and actuator.allowed()

    async def patch(self, reflector: Reflector[T], resource: ResourceType[T], target: T, patch: Patch) -> None:
        """What the server says then is known at once. Raises `NotLeading` and `NotWritten`."""
        actuator, meta = self._leading.actuator, target.metadata
        if actuator is None:
            raise NotLeading
        try:
            async with asyncio.timeout(self._call_timeout_s):
                request: Coroutine[Any, Any, T] = self._client.patch(resource, meta.name, patch, meta.namespace)
                reflector.learn(await actuator.write(request))
        except Retriable as problem:
            raise NotLeading from problem
        except TooManyRequests as problem:
            raise NotInTime(str(problem)) from problem
        except KubeError as problem:
            raise NotWritten(str(problem)) from problem
        except TimeoutError:
            raise NotInTime(f"no answer within {self._call_timeout_s:g} s") from None
