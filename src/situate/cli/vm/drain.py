"""Implement `situate vm drain` and `uncordon`: let the leader move the VMs of a node away, or let them stay."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any, Final

import typer

from situate.cli.read_cluster.cluster_source import open_client
from situate.cli.terminal.failures import ExitCode, WrongInput, report_failures
from situate.cli.terminal.options import ClusterOptions
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_error, print_line
from situate.cli.terminal.timeouts import parse_timeout
from situate.cli.vm.options import DrainClusterOptions, WaitOptions
from situate.cli.vm.read_cluster import read_settings
from situate.kube.client import Client
from situate.kube.errors import NotFound
from situate.kube.patches import MergePatch
from situate.objects.kinds.nodes import Node
from situate.objects.resources import NODES, PODS
from situate.objects.values.counts import format_count
from situate.vm.api.well_known import DRAIN
from situate.vm.backends.systems import System, select_system

_POLL_S: Final = 1.0
_MOST_NAMES: Final = 10


def start_drain(node: str, where: DrainClusterOptions, waiting: WaitOptions, *, dry_run: bool) -> None:
    """Set the annotation; with `--wait`, exit with 1 if a VM is left at the time-out."""
    with report_failures():
        within_s = parse_timeout(waiting.timeout)
        system = select_system(read_settings(where))
        left = asyncio.run(_drain_node(where, node, system, within_s if waiting.wait else None, dry_run=dry_run))
    if left:
        print_error(
            f"{format_count(len(left), 'VM is', 'VMs are')} left on node {node} after {waiting.timeout}: "
            f"{_names_text(left)}; "
            "`situate vm plan` says why"
        )
        raise typer.Exit(ExitCode.NO)


def end_drain(node: str, where: ClusterOptions, *, dry_run: bool) -> None:
    """Remove the annotation."""
    with report_failures():
        asyncio.run(_cancel_drain(where, node, dry_run=dry_run))


async def _drain_node(
    where: ClusterOptions, name: str, system: System[Any], within_s: float | None, *, dry_run: bool
) -> list[str]:
    """Return the VMs that are left; empty without waiting."""
    async with open_client(where) as client:
        if dry_run:
            node = await _get_node(client, name)
            there = await _machines_on(client, name, system)
            drains = "is drained already" if DRAIN in node.metadata.annotations else "would be drained"
            print_line(
                f"node {name} {drains}: {format_count(len(there), 'VM')} on "
                f"it{': ' if there else ''}{_names_text(there)}"
            )
            return []
        node = await _annotate_node(client, name, "true")
        others = "" if node.spec.unschedulable else f"; other Pods may still go there: kubectl cordon {name}"
        print_line(
            f"node {name} is drained of VMs by the leader: `situate vm status` shows the moves, "
            f"`situate vm plan` the VMs that cannot leave{others}"
        )
        return [] if within_s is None else await _wait_until_empty(client, name, system, within_s)


async def _cancel_drain(where: ClusterOptions, name: str, *, dry_run: bool) -> None:
    async with open_client(where) as client:
        node = await (_get_node(client, name) if dry_run else _annotate_node(client, name, None))
    if any(taint.key == DRAIN for taint in node.spec.taints):
        print_error(f"node {name} has the taint {DRAIN}, which drains it as well: kubectl taint node {name} {DRAIN}-")
    if not dry_run:
        print_line(f"node {name} is no longer drained of VMs")
    elif DRAIN in node.metadata.annotations:
        print_line(f"node {name} would no longer be drained of VMs")
    else:
        print_line(f"node {name} is not drained by its annotation {DRAIN}; nothing would be written")


async def _wait_until_empty(client: Client, name: str, system: System[Any], within_s: float) -> list[str]:
    """Wait until no VM is left, and print the number of VMs at each change."""
    ends = time.monotonic() + within_s
    said: int | None = None
    with progress(f"waiting for the VMs on node {name} to leave"):
        while left := await _machines_on(client, name, system):
            if len(left) != said:
                print_line(f"{format_count(len(left), 'VM is', 'VMs are')} left on node {name}")
                sys.stdout.flush()  # logs show it at once, not at the end of the wait
                said = len(left)
            rest_s = ends - time.monotonic()
            if rest_s <= 0:
                return left
            await asyncio.sleep(min(_POLL_S, rest_s))
    print_line(f"no VM is left on node {name}")
    return []


async def _machines_on(client: Client, node: str, system: System[Any]) -> list[str]:
    """Return `namespace/name` of the VMs whose Pods are on the node and have not ended."""
    pods = (await client.list_all(PODS, field_selector=f"spec.nodeName={node}")).items
    refs = (system.machine_of(pod) for pod in pods if not pod.finished)
    return sorted({str(ref) for ref in refs if ref is not None})


async def _get_node(client: Client, name: str) -> Node:
    _require_name(name)
    try:
        return await client.get(NODES, name)
    except NotFound:
        raise await _unknown_node_error(client, name) from None


async def _annotate_node(client: Client, name: str, value: str | None) -> Node:
    _require_name(name)
    try:
        return await client.patch(NODES, name, MergePatch({"metadata": {"annotations": {DRAIN: value}}}))
    except NotFound:
        raise await _unknown_node_error(client, name) from None


def _require_name(name: str) -> None:
    if not name:
        raise WrongInput("no node is named: give a name from `kubectl get nodes`")


async def _unknown_node_error(client: Client, name: str) -> WrongInput:
    known = sorted(each.metadata.name for each in (await client.list_all(NODES)).items)
    return WrongInput(f"node {name} not found; found: {_names_text(known) or 'none'}")


def _names_text(names: list[str]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
