"""Implement `situate spot ungate`: remove the gate of strict mode from Pods that wait behind it without a class.

It is for a cluster without a leader, and for uninstalling: a Pod with the gate waits for ever.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import typer

from situate.cli.read_cluster.cluster_source import listed_namespace, open_client
from situate.cli.terminal.failures import ExitCode, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.options import ClusterOptions, ListedNamespaces
from situate.cli.terminal.output import Column, print_answer, print_table
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_error, print_line
from situate.kube.client import Client
from situate.kube.errors import Forbidden, KubeError, NotFound, Unauthorized
from situate.kube.patches import JsonPatch
from situate.objects.kinds.pods import Pod
from situate.objects.resources import PODS
from situate.objects.values.counts import format_count
from situate.spot.admission.scheduling_gates import gate_removal_patch
from situate.spot.model.pods_nodes_workloads import GATE

_CONCURRENT_WRITES: Final = 16
_TRIES: Final = 3
"""Number of tries, because a Pod may change between reading and writing."""
_COLUMNS: Final = (Column("pod"), Column("result"), Column("why"))


class UngateResult(StrEnum):
    LET_GO = "let go"
    WOULD_BE = "would be let go"
    GONE = "gone"
    """Deleted meanwhile, or ungated by another client."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class UngatedPod:
    """Result for one Pod."""

    pod: str
    result: UngateResult
    reason: str = ""


def show(where: ClusterOptions, namespaces: ListedNamespaces, output: Format, *, dry_run: bool) -> None:
    """Remove the gates and print the results; exit with 1 if a Pod keeps its gate."""
    with report_failures(), progress("removing gates"):
        chosen = listed_namespace(where, namespaces)
        found = asyncio.run(_ungate(where, chosen, dry_run=dry_run))
    counts = Counter(each.result for each in found)
    pods = [{"pod": each.pod, "result": str(each.result), "why": each.reason} for each in found]
    data = {"dryRun": dry_run, **{_result_key(one): counts[one] for one in UngateResult}, "pods": pods}
    print_answer(output, lambda: data, lambda: _print(found, counts, chosen, output))
    if counts[UngateResult.FAILED]:
        raise typer.Exit(ExitCode.NO)


def _result_key(result: UngateResult) -> str:
    head, *rest = result.split()
    return head + "".join(map(str.capitalize, rest))


def _print(found: Sequence[UngatedPod], counts: Counter[UngateResult], chosen: str | None, form: Format) -> None:
    where = "" if chosen is None else f" in namespace {chosen}"
    if not found:
        print_line(
            f"no Pod waits behind the gate of spot{where}" + ("" if chosen is None else "; -A searches all namespaces")
        )
        return
    said = ", ".join(f"{counts[each]} {each}" for each in UngateResult if counts[each])
    print_line(f"{format_count(len(found), 'Pod waits', 'Pods wait')} behind the gate of spot{where}: {said}")
    rows = [(each.pod, each.result, each.reason or "-") for each in found]
    if form is Format.WIDE:
        print_table(_COLUMNS, rows, form)
        return
    for each in found:
        if each.result is UngateResult.FAILED:
            print_error(f"Pod {each.pod} keeps its gate: {each.reason}")


async def _ungate(where: ClusterOptions, namespace: str | None, *, dry_run: bool) -> list[UngatedPod]:
    async with open_client(where) as client:
        page = await client.list_all(PODS, namespace, field_selector="status.phase=Pending")
        waiting = [pod for pod in page.items if _is_gated(pod)]
        waiting.sort(key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
        if dry_run:
            return [UngatedPod(_pod_name(pod), UngateResult.WOULD_BE) for pod in waiting]
        lane = asyncio.Semaphore(_CONCURRENT_WRITES)
        return list(await asyncio.gather(*(_remove_gate(client, pod, lane) for pod in waiting)))


async def _remove_gate(client: Client, pod: Pod, lane: asyncio.Semaphore) -> UngatedPod:
    """Remove the gate of one Pod. After a refusal, read the Pod again: it may have fewer gates, or another uid."""
    namespace, name = pod.metadata.namespace, pod.metadata.name
    present, why = pod, ""
    async with lane:
        for _ in range(_TRIES):
            try:
                await client.patch(PODS, name, JsonPatch(gate_removal_patch(_gate_content(present))), namespace)
                return UngatedPod(_pod_name(pod), UngateResult.LET_GO)
            except NotFound:
                return UngatedPod(_pod_name(pod), UngateResult.GONE)
            except (Forbidden, Unauthorized) as problem:
                return UngatedPod(_pod_name(pod), UngateResult.FAILED, str(problem))
            except KubeError as problem:
                why = str(problem)
            try:
                present = await client.get(PODS, name, namespace)
            except NotFound:
                return UngatedPod(_pod_name(pod), UngateResult.GONE)
            except KubeError as problem:
                return UngatedPod(_pod_name(pod), UngateResult.FAILED, str(problem))
            if present.metadata.uid != pod.metadata.uid or not _is_gated(present):
                return UngatedPod(_pod_name(pod), UngateResult.GONE)
    return UngatedPod(_pod_name(pod), UngateResult.FAILED, why)


def _is_gated(pod: Pod) -> bool:
    return any(gate.name == GATE for gate in pod.spec.scheduling_gates)


def _pod_name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _gate_content(pod: Pod) -> dict[str, Any]:
    """Return the part of the Pod that `gate_removal_patch` reads."""
    gates = [{"name": gate.name} for gate in pod.spec.scheduling_gates]
    return {"metadata": {"uid": pod.metadata.uid}, "spec": {"schedulingGates": gates}}
