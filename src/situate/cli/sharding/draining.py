"""Cordon an executor by its Lease, so that its supervisor moves the executor's objects; or lift that."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import typer

from situate.cli.failures import ExitCode, WrongInput, mendable_failures
from situate.cli.options import ContextOption, KubeconfigOption, OptionalFileOption, SetOption
from situate.cli.sharding.entry import ExecutorNamespaceOption, PartitionOption, PoolOption, ResourceOption, entry_of
from situate.cli.sharding.reading import executor_leases, required
from situate.cli.streams import complain, say
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.kube.connection import Connection
from situate.kube.errors import NotFound
from situate.kube.patches import MergePatch
from situate.objects.coordination import Lease
from situate.objects.durations import BadDuration, parse_duration
from situate.objects.resources import LEASES
from situate.objects.settings import did_you_mean
from situate.sharding.assignment import executor_label, view_of
from situate.sharding.controller.section import ShardSettings
from situate.sharding.leases import ExecutorWatch, lease_name
from situate.sharding.names import CORDON, EXECUTOR, EXECUTOR_UID, STATUS
from situate.sharding.reports import report_of

_LOOK_S: Final = 1.0
ExecutorArgument = Annotated[
    str, typer.Argument(metavar="EXECUTOR", help="Its id, as `situate sharding status` shows it.")
]
TimeoutOption = Annotated[str, typer.Option("--timeout", help="With --wait: for so long at most.")]


def drain(
    executor: Annotated[
        str | None, typer.Argument(metavar="EXECUTOR", help="Its id, as `situate sharding status` shows it.")
    ] = None,
    own: Annotated[
        bool, typer.Option("--self", help="The executor in this pod, as POD_NAME, POD_NAMESPACE and POD_UID say.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Until it holds nothing any more.")] = False,
    timeout: TimeoutOption = "60s",
    file: OptionalFileOption = None,
    resource: ResourceOption = None,
    pool: PoolOption = None,
    partition: PartitionOption = None,
    executor_namespace: ExecutorNamespaceOption = None,
    assignments: SetOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Give an executor no new objects, and let it release those that it has; others take them over.

    Exits with 1 if --wait was in vain. In a PreStop hook: situate sharding drain --self --wait
    """
    with mendable_failures():
        seconds = _seconds(timeout)
        if own == (executor is not None):
            raise WrongInput("which one? name an executor, or say --self; not both")
        if own:
            done = asyncio.run(_drain_own(pool or "default", seconds if wait else None))
        else:
            settings = entry_of(file, assignments, resource, pool, partition, executor_namespace)
            connection = find_connection(kubeconfig, context)
            done = asyncio.run(_drain(connection, settings, executor or "", seconds if wait else None))
    if not done:
        raise typer.Exit(ExitCode.NO)


def undrain(
    executor: ExecutorArgument,
    file: OptionalFileOption = None,
    resource: ResourceOption = None,
    pool: PoolOption = None,
    partition: PartitionOption = None,
    executor_namespace: ExecutorNamespaceOption = None,
    assignments: SetOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Give an executor new objects again."""
    with mendable_failures():
        settings = entry_of(file, assignments, resource, pool, partition, executor_namespace)
        asyncio.run(_undrain(find_connection(kubeconfig, context), settings, executor))


async def _drain(connection: Connection, settings: ShardSettings, executor: str, wait_s: float | None) -> bool:
    client = connect(connection, random.Random())
    try:
        lease = await _lease_of(client, settings, executor)
        resource = (await required(settings, client)).resource
        selector = f"{EXECUTOR}={executor_label(executor)}"
        uid = lease.metadata.annotations.get(EXECUTOR_UID) or lease.spec.holder_identity

        async def held(_: Lease) -> int:
            """By the objects: what its Lease says of itself is some seconds old."""
            page = await client.list_all(resource, settings.namespace, label_selector=selector)
            views = (view_of(each.content, settings.paths()) for each in page.items)
            return sum(not view.completed and view.executor_uid == uid for view in views)

        return await _cordoned(client, lease, executor, wait_s, held)
    finally:
        await client.close()


async def _undrain(connection: Connection, settings: ShardSettings, executor: str) -> None:
    client = connect(connection, random.Random())
    try:
        lease = await _lease_of(client, settings, executor)
        if lease.metadata.annotations.get(CORDON) != "true":
            say(f"executor {executor} was not cordoned by its Lease")
            return
        await _mark(client, lease, None)
        say(f"executor {executor} may be given objects again")
    finally:
        await client.close()


async def _drain_own(pool: str, wait_s: float | None) -> bool:
    """Of this pod: needs no more rights than the executor has."""
    pod, namespace, uid = (os.environ.get(name, "") for name in ("POD_NAME", "POD_NAMESPACE", "POD_UID"))
    if not (pod and namespace and uid):
        raise WrongInput("--self: POD_NAME, POD_NAMESPACE and POD_UID must be given through the downward API")
    pool = os.environ.get("SITUATE_POOL") or pool
    client = connect(find_connection(), random.Random())
    try:
        name = lease_name(pool, pod, uid)
        try:
            lease = await client.get(LEASES, name, namespace)
        except NotFound:
            say(f"there is no Lease {namespace}/{name}: this executor holds nothing")
            return True
        return await _cordoned(client, lease, pod, wait_s, _reported)
    finally:
        await client.close()


async def _cordoned(
    client: Client, lease: Lease, executor: str, wait_s: float | None, held: Callable[[Lease], Awaitable[int | None]]
) -> bool:
    await _mark(client, lease, "true")
    left = await held(lease)
    say(f"executor {executor} is cordoned" + ("" if left is None else f"; {left} objects are to be released"))
    if wait_s is None:
        return True
    ends = time.monotonic() + wait_s
    looked = False
    while left != 0 or not looked:  # what was on its way when it was cordoned has arrived by the second look
        if left != 0 and time.monotonic() >= ends:
            complain(f"executor {executor} still holds {'an unknown number of' if left is None else left} objects")
            return False
        await asyncio.sleep(_LOOK_S)
        try:
            now = await client.get(LEASES, lease.metadata.name, lease.metadata.namespace)
        except NotFound:
            break
        if not now.spec.holder_identity:
            break
        left, looked = await held(now), True
    say(f"executor {executor} holds nothing any more")
    return True


async def _reported(lease: Lease) -> int | None:
    """As it says itself; None: it does not. For `--self`, whose process releases what is left at its end."""
    return report_of(lease.metadata.annotations.get(STATUS))[0].open


async def _mark(client: Client, lease: Lease, value: str | None) -> None:
    patch = MergePatch({"metadata": {"annotations": {CORDON: value}}})
    await client.patch(LEASES, lease.metadata.name, patch, lease.metadata.namespace)


async def _lease_of(client: Client, settings: ShardSettings, executor: str) -> Lease:
    """Of several incarnations the one that holds its Lease, the youngest first. Raises `WrongInput`."""
    watch = ExecutorWatch(settings.selector, settings.executor_namespace)
    found: dict[str, list[Lease]] = {}
    for lease in (await executor_leases(settings, client)).values():
        pod = lease.metadata.annotations.get(EXECUTOR, "")
        found.setdefault(watch.id_of(lease.metadata.namespace, pod), []).append(lease)
    if executor not in found:
        known = sorted(found)
        hint = did_you_mean(executor, known)
        listed = ", ".join(known[:20]) or "none"
        raise WrongInput(f"executor {executor}: pool {settings.pool} has: {listed}{'; ' + hint if hint else ''}")
    held = [each for each in found[executor] if each.spec.holder_identity]
    if not held:
        raise WrongInput(f"executor {executor} has released its Lease: it holds nothing")
    return max(held, key=lambda each: (str(each.spec.acquire_time), each.metadata.name))


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except BadDuration as bad:
        raise WrongInput(f"--timeout: found {text!r}; {bad}") from None
