"""Cordon an executor by its Lease, so that its supervisor moves the executor's objects; or uncordon it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import typer

from situate.cli.input.cluster_names import matching_names
from situate.cli.read_cluster.cluster_source import open_client
from situate.cli.sharding.find_supervisor import select_entry
from situate.cli.sharding.options import DrainOptions, ExecutorOptions
from situate.cli.sharding.read_cluster import executor_leases, require_resource
from situate.cli.terminal.failures import ExitCode, WrongInput, report_failures
from situate.cli.terminal.streams import print_error, print_line
from situate.cli.terminal.timeouts import parse_timeout
from situate.kube.client import Client
from situate.kube.errors import NotFound
from situate.kube.patches import MergePatch
from situate.objects.kinds.leases import Lease
from situate.objects.resources import LEASES
from situate.objects.settings.section import spelling_hint
from situate.sharding.leases.executor_report import report_of
from situate.sharding.leases.membership import ExecutorWatch, lease_name
from situate.sharding.model.names import CORDON, EXECUTOR, EXECUTOR_UID, STATUS
from situate.sharding.model.object_view import executor_label, view_of
from situate.sharding.supervisor.controller.config.section import ShardSettings

_POLL_S: Final = 1.0


def complete_executors(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete executors of the pool that the command line names."""

    async def names(client: Client) -> list[str]:
        given = ctx.params
        names = ("file", "assignments", "resource", "pool", "partition", "executor_namespace")
        known: dict[str, Any] = {name: given.get(name) for name in names}
        settings = select_entry(ExecutorOptions(**known))
        leases = await _leases_by_id(client, settings)
        return [each for each, own in leases.items() if any(lease.spec.holder_identity for lease in own)]

    return matching_names(ctx, incomplete, names)


def drain(executor: str, where: ExecutorOptions, how: DrainOptions) -> None:
    """Cordon an executor; exit with 1 if it still holds objects after the time-out."""
    with report_failures():
        wait_s = _wait_s(how)
        done = asyncio.run(_drain(where, select_entry(where), executor, wait_s, dry_run=how.dry_run))
    if not done:
        raise typer.Exit(ExitCode.NO)


def drain_own(where: ExecutorOptions, how: DrainOptions) -> None:
    """Drain the executor in this Pod."""
    with report_failures():
        done = asyncio.run(_drain_own(where, _wait_s(how), dry_run=how.dry_run))
    if not done:
        raise typer.Exit(ExitCode.NO)


def uncordon(executor: str, where: ExecutorOptions, *, dry_run: bool) -> None:
    """Allow new assignments to an executor."""
    with report_failures():
        asyncio.run(_uncordon(where, select_entry(where), executor, dry_run=dry_run))


def _wait_s(how: DrainOptions) -> float | None:
    """Return how long to wait until no object is held; None: not at all, infinite: without a limit."""
    seconds = parse_timeout(how.timeout)
    return seconds if how.wait and not how.dry_run else None


async def _drain(
    where: ExecutorOptions, settings: ShardSettings, executor: str, wait_s: float | None, *, dry_run: bool
) -> bool:
    async with open_client(where) as client:
        lease = await _lease_of(client, settings, executor)
        resource = (await require_resource(settings, client)).resource
        selector = f"{EXECUTOR}={executor_label(executor)}"
        uid = lease.metadata.annotations.get(EXECUTOR_UID) or lease.spec.holder_identity

        async def held(_: Lease) -> int:
            """Count open objects of the executor. The number in its Lease is some seconds old."""
            page = await client.list_all(resource, settings.namespace, label_selector=selector)
            views = (view_of(each.content, settings.paths()) for each in page.items)
            return sum(not view.completed and view.executor_uid == uid for view in views)

        return await _cordon_and_wait(client, lease, executor, held, wait_s, dry_run=dry_run)


async def _uncordon(where: ExecutorOptions, settings: ShardSettings, executor: str, *, dry_run: bool) -> None:
    async with open_client(where) as client:
        lease = await _lease_of(client, settings, executor)
        if lease.metadata.annotations.get(CORDON) != "true":
            print_line(f"executor {executor} was not cordoned by its Lease")
            return
        await _set_cordon(client, lease, None, dry_run=dry_run)
        print_line(f"executor {executor} {'would be' if dry_run else 'is'} uncordoned")


async def _drain_own(where: ExecutorOptions, wait_s: float | None, *, dry_run: bool) -> bool:
    """Drain with the executor's own permissions only."""
    pod, namespace, uid = (os.environ.get(name, "") for name in ("POD_NAME", "POD_NAMESPACE", "POD_UID"))
    if not (pod and namespace and uid):
        raise WrongInput("--self needs POD_NAME, POD_NAMESPACE and POD_UID; set them through the downward API")
    pool = os.environ.get("SITUATE_POOL") or where.pool or "default"
    async with open_client(where) as client:
        name = lease_name(pool, pod, uid)
        try:
            lease = await client.get(LEASES, name, namespace)
        except NotFound:
            print_line(f"Lease {namespace}/{name} does not exist: this executor holds no objects")
            return True
        return await _cordon_and_wait(client, lease, pod, _reported_open_count, wait_s, dry_run=dry_run)


async def _cordon_and_wait(
    client: Client,
    lease: Lease,
    executor: str,
    held: Callable[[Lease], Awaitable[int | None]],
    wait_s: float | None,
    *,
    dry_run: bool,
) -> bool:
    await _set_cordon(client, lease, "true", dry_run=dry_run)
    left = await held(lease)
    done, to_do = ("would be", "would be") if dry_run else ("is", "will be")
    print_line(f"executor {executor} {done} cordoned" + ("" if left is None else f"; {left} objects {to_do} released"))
    if wait_s is None:
        return True
    ends = time.monotonic() + wait_s
    looked = False
    while left != 0 or not looked:  # objects that were being assigned at the cordon are visible at the second read
        if left != 0 and time.monotonic() >= ends:
            print_error(f"executor {executor} still holds {'an unknown number of' if left is None else left} objects")
            return False
        await asyncio.sleep(_POLL_S)
        try:
            now = await client.get(LEASES, lease.metadata.name, lease.metadata.namespace)
        except NotFound:
            break
        if not now.spec.holder_identity:
            break
        left, looked = await held(now), True
    print_line(f"executor {executor} holds no objects any more")
    return True


async def _reported_open_count(lease: Lease) -> int | None:
    """Return the number in the executor's own report, or None.

    It is used for `--self`, whose process releases the remaining objects at its end.
    """
    return report_of(lease.metadata.annotations.get(STATUS))[0].open


async def _set_cordon(client: Client, lease: Lease, value: str | None, *, dry_run: bool) -> None:
    """Set or remove the cordon. With `dry_run` the API server checks the change, but does not store it."""
    patch = MergePatch({"metadata": {"annotations": {CORDON: value}}})
    await client.patch(LEASES, lease.metadata.name, patch, lease.metadata.namespace, dry_run=dry_run)


async def _leases_by_id(client: Client, settings: ShardSettings) -> dict[str, list[Lease]]:
    """Return the Leases of each executor of the pool, including earlier incarnations."""
    watch = ExecutorWatch(settings.selector, settings.executor_namespace)
    found: dict[str, list[Lease]] = {}
    for lease in (await executor_leases(settings, client)).values():
        pod = lease.metadata.annotations.get(EXECUTOR, "")
        found.setdefault(watch.id_of(lease.metadata.namespace, pod), []).append(lease)
    return found


async def _lease_of(client: Client, settings: ShardSettings, executor: str) -> Lease:
    """Return the held Lease of an executor, of several incarnations the youngest. Raises `WrongInput`."""
    found = await _leases_by_id(client, settings)
    if executor not in found:
        known = sorted(found)
        hint = spelling_hint(executor, known)
        listed = ", ".join(known[:20]) or "none"
        raise WrongInput(
            f"executor {executor} not found; pool {settings.pool} has: {listed}{'; ' + hint if hint else ''}"
        )
    held = [each for each in found[executor] if each.spec.holder_identity]
    if not held:
        raise WrongInput(f"executor {executor} has released its Lease and holds no objects")
    return max(held, key=lambda each: (str(each.spec.acquire_time), each.metadata.name))
