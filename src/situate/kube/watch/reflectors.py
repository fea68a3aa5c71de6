"""Creates the reflector of one object, and waits for, lists again and checks several reflectors together."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any, TypeVar

from situate.kube.client import Client
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.store import Store
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.resources import ResourceType

T = TypeVar("T", bound=KubernetesObject)


def object_reflector(
    client: Client, resource: ResourceType[T], name: str, namespace: str | None, rng: random.Random
) -> Reflector[T]:
    """Create a reflector of one object; `namespace` None: the object is cluster-scoped."""
    store: Store[T] = Store(f"{resource.group_resource} {name}")
    return Reflector(client, resource, store, rng=rng, namespace=namespace, field_selector=f"metadata.name={name}")


async def wait_all_synced(required: Iterable[Reflector[Any]], optional: Iterable[Reflector[Any]] = ()) -> None:
    """Wait until everything is listed; an optional resource may also be one that the cluster does not serve."""
    for reflector in required:
        await reflector.store.wait_synced()
    for reflector in optional:
        await _wait_synced_or_unserved(reflector)


async def relist_all(reflectors: Iterable[Reflector[Any]]) -> None:
    """Compare every store with a fresh list and repair it. Raises the client's errors."""
    await asyncio.gather(*(reflector.relist() for reflector in reflectors))


def first_problem(reflectors: Iterable[Reflector[Any]]) -> str | None:
    """Return why the first incomplete store is not complete; None once everything was listed."""
    problems = (reflector.not_ready() for reflector in reflectors)
    return next((problem for problem in problems if problem is not None), None)


async def _wait_synced_or_unserved(reflector: Reflector[Any]) -> None:
    seen = asyncio.ensure_future(reflector.store.wait_synced())
    not_served = asyncio.ensure_future(reflector.not_served.wait())
    try:
        await asyncio.wait((seen, not_served), return_when=asyncio.FIRST_COMPLETED)
    finally:
        seen.cancel()
        not_served.cancel()
