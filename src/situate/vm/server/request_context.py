"""Basis of all answers: the leader's ledger, its watches, and its writes."""

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
from situate.runtime.leadership.leader import NotLeading
from situate.vm.controller.informers import VmInformers
from situate.vm.ledger.ledger import Ledger

T = TypeVar("T", bound=KubernetesObject)
_MAX_CONCURRENT_WRITES: Final = 48
"""Number of requests with ongoing writes. With more, each would take too long, and all would fail."""


class Replica(Protocol):
    """A process that leads or waits: `situate.vm.controller.controller.VmController`."""

    ledger: Ledger
    informers: VmInformers
    actuator: Actuator | None
    """None while it does not lead."""


class NotWritten(Exception):
    """The write failed, for the reason in the message. It may still have been carried out."""


class NotInTime(NotWritten):
    """The API server is slow, or reports overload."""


class RequestContext:
    """Basis of the answers of one process."""

    def __init__(self, leading: Replica, client: Client, call_timeout_s: float) -> None:
        """`client`: for writes before an answer. `call_timeout_s`: their time limit."""
        self._leading = leading
        self._client = client
        self._call_timeout_s = call_timeout_s
        self.lane = asyncio.Semaphore(_MAX_CONCURRENT_WRITES)
        """Limits requests between the write before the answer and the resulting write."""

    @property
    def ledger(self) -> Ledger:
        return self._leading.ledger

    @property
    def informers(self) -> VmInformers:
        return self._leading.informers

    def is_leading(self) -> bool:
        """Return whether this process leads now (B44)."""
        actuator = self._leading.actuator
        return actuator is not None and actuator.may_write()

    async def patch(self, reflector: Reflector[T], resource: ResourceType[T], target: T, patch: Patch) -> None:
        """Patch an object, and put the answer into the store at once. Raises `NotLeading` and `NotWritten`."""
        actuator, meta = self._leading.actuator, target.metadata
        if actuator is None:
            raise NotLeading("vm")
        try:
            async with asyncio.timeout(self._call_timeout_s):
                request: Coroutine[Any, Any, T] = self._client.patch(resource, meta.name, patch, meta.namespace)
                reflector.learn(await actuator.write(request))
        except TooManyRequests as problem:
            raise NotInTime(str(problem)) from problem
        except KubeError as problem:
            raise NotWritten(str(problem)) from problem
        except TimeoutError:
            raise NotInTime(f"no answer within {self._call_timeout_s:g} s") from None
