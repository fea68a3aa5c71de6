"""Read and write the supervisor's objects in one term.

The supervisor sends a write only while no other supervisor can lead, and abandons it before another one can lead. The
timeout of a write is therefore at most the time between the end of a term and the first possible take-over of the
Lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from situate.kube.client import Client
from situate.kube.election.election import Leadership
from situate.kube.election.lease_record import LeaseName
from situate.kube.errors import KubeError, NotFound, Unreachable
from situate.kube.patches import JsonPatch, MergePatch
from situate.objects.kinds.config_maps import ConfigMap
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import CONFIGMAPS, LEASES
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.leadership.leader import require_leadership
from situate.sharding.executor.controller.objects import Request
from situate.sharding.model.actions import Write
from situate.sharding.model.executors import LeftoverLease
from situate.sharding.model.field_paths import ObjectAdapter
from situate.sharding.model.names import STATUS
from situate.sharding.model.object_view import ObjectView, view_of
from situate.sharding.supervisor.controller.act.metrics import Counts
from situate.sharding.supervisor.scope import Scope

READ_S: Final = 10.0
"""How long a read may take before it counts as failed."""
_T = TypeVar("_T")


class NoStatusSubresource(KubeError):
    """The object exists, but its kind has no status subresource."""


class Sender:
    """The reads and writes of one term."""

    def __init__(
        self,
        client: Client,
        scope: Scope,
        adapter: ObjectAdapter,
        leadership: Leadership,
        term: int,
        learn: Callable[[Unstructured], None],
        known: Callable[[Request], ObjectView | None],
        counts: Counts,
    ) -> None:
        """`term` is written on objects. `learn` gets each object that the server returns; `known` then has its view."""
        self.term = term
        self._client = client
        self._guarded = client.with_write_check(self._check_leadership)
        self._actuator = Actuator(self._check_leadership)
        self._scope = scope
        self._adapter = adapter
        self._leadership = leadership
        self._learn = learn
        self._known = known
        self._counts = counts
        self._write_s = scope.election.lease_s - scope.election.renew_deadline_s

    def term_for(self, view: ObjectView) -> int:
        """Return the term to write on this object.

        An object from another partition bears a term of another Lease, and the written term must not be lower.
        """
        return max(self.term, view.term) if self._scope.partition_table else self.term

    def may_write(self) -> bool:
        """Return whether a write may be sent now."""
        return self._leadership.is_valid()

    async def read(self, request: Request) -> ObjectView | None:
        """Read the object from the API server; None: it does not exist. Raises the client's errors."""
        namespace = request.namespace or None
        try:
            found = await _call_within(READ_S, lambda: self._client.get(self._scope.resource, request.name, namespace))
        except NotFound:
            return None
        self._learn(found)
        return view_of(found.content, self._adapter, found.raw)

    async def patch(self, request: Request, write: Write) -> ObjectView:
        """Patch the object and return its new view. Raises `NotLeading` and the client's errors."""
        subresource = write.subresource if self._scope.status_subresource else ""
        patch = JsonPatch(write.operations)
        namespace = request.namespace or None
        try:
            answer = await self._write(
                lambda: self._guarded.patch(self._scope.resource, request.name, patch, namespace, subresource or None)
            )
        except NotFound as missing:
            if subresource and await self.read(request) is not None:
                raise NoStatusSubresource(
                    f"{self._scope.resource.group_resource} has no status subresource: declare one in its "
                    "CustomResourceDefinition, or configure the supervisor with status_subresource=False"
                ) from missing
            raise
        self._counts.writes += 1
        meta = answer.metadata
        if meta.deletion_timestamp is None or meta.finalizers:  # else this write removed the object
            self._learn(answer)
            known = self._known(request)
            if known is not None and known.resource_version == meta.resource_version:
                return known
        return view_of(answer.content, self._adapter, answer.raw)

    async def delete(self, request: Request, uid: str, resource_version: str = "") -> None:
        """Delete the object if it has this UID, and this version if one is given. Raises like `patch`."""
        await self._write(
            lambda: self._guarded.delete(
                self._scope.resource,
                request.name,
                request.namespace or None,
                uid=uid,
                resource_version=resource_version,
                propagation=self._scope.archive_propagation,
            )
        )

    async def delete_lease(self, leftover: LeftoverLease) -> None:
        """Delete an executor's Lease if it is unchanged since it was last seen. Raises like `patch`."""
        await self._write(
            lambda: self._guarded.delete(
                LEASES, leftover.lease, leftover.namespace, uid=leftover.uid, resource_version=leftover.version
            )
        )

    async def read_table(self, namespace: str, name: str) -> ConfigMap | None:
        """Read a ConfigMap from the API server; None: it does not exist. Raises the client's errors."""
        try:
            return await _call_within(READ_S, lambda: self._client.get(CONFIGMAPS, name, namespace))
        except NotFound:
            return None

    async def write_report(self, lease: LeaseName, text: str) -> None:
        """Write the report to the supervisors' Lease without changing its holder. Raises like `patch`."""
        said = MergePatch({"metadata": {"annotations": {STATUS: text}}})
        await self._write(lambda: self._guarded.patch(LEASES, lease.name, said, lease.namespace))

    async def wait_writes(self) -> None:
        """Wait for the answers to all writes in progress: a term ends only then."""
        await self._actuator.wait_answers()

    async def _write(self, call: Callable[[], Awaitable[_T]]) -> _T:
        return await self._actuator.write(_call_within(self._write_s, call))

    def _check_leadership(self) -> None:
        require_leadership(f"supervisor {self._scope.lease}", self._leadership)


async def _call_within(seconds: float, call: Callable[[], Awaitable[_T]]) -> _T:
    try:
        async with asyncio.timeout(seconds):
            return await call()
    except TimeoutError as error:
        raise Unreachable(f"no answer within {seconds:g} s", outcome_unknown=True) from error
