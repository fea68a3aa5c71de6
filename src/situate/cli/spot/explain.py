"""Implement `situate spot explain`: the nodes of a workload's Pods, planned moves, and the effect of a wave."""

from __future__ import annotations

from typing import Any

import typer

from situate.cli.input.cluster_names import complete_objects
from situate.cli.input.object_names import (
    DEPLOYMENT,
    POD,
    STATEFULSET,
    ObjectName,
    ObjectType,
    possible_names,
    require_explained_type,
)
from situate.cli.read_cluster.cluster_source import default_namespace
from situate.cli.spot.read_cluster import SpotClusterState, observe, read_settings
from situate.cli.spot.reports import loss_data, moment_text, workload_data
from situate.cli.terminal.failures import ExitCode, WrongInput, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.options import InstallationOptions
from situate.cli.terminal.output import Column, print_answer, print_items
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_line
from situate.objects.settings.section import spelling_hint
from situate.objects.values.counts import format_count
from situate.spot.admission.ledger import Ledger
from situate.spot.model.pods_nodes_workloads import Owner, PodKey
from situate.spot.rebalance.decide import Phase
from situate.spot.report.explain import PodExplanation, WorkloadExplanation, explain_workload
from situate.spot.workloads.cluster_objects import NO_MEMORY, workload_of
from situate.spot.workloads.owners import KINDS, read_decision

_RESERVATIONS = (
    "only the leader knows its reservations for Pods that it has not seen yet; the metric situate_spot_reservations "
    "counts them"
)
_SHORT = {"Deployment": DEPLOYMENT.short_names, "StatefulSet": STATEFULSET.short_names}
_TYPES = (
    *(ObjectType(each.kind, each.plural, each.group, _SHORT.get(each.kind, ())) for each in KINDS.values()),
    POD,
)


def complete_workloads(ctx: typer.Context, incomplete: str) -> list[str]:
    first, slash, _ = incomplete.partition("/")
    if slash and POD.is_named(first):
        return complete_objects(ctx, incomplete, lambda: [(POD, "v1")])
    return complete_objects(ctx, incomplete, lambda: [(DEPLOYMENT, "v1"), (STATEFULSET, "v1")])


def show(name: str, where: InstallationOptions, namespace: str | None, output: Format) -> None:
    """Print the explanation; exit with 1 if the workload lacks on-demand Pods, a move is blocked, or a Pod waits."""
    with report_failures():
        meant = possible_names(name, namespace, _TYPES)
        settings = read_settings(where)
        default = default_namespace(where, namespace)
        observed = observe(settings, where)
        owner, chosen = _find_workload(observed, name, meant, default)
        with progress("counting"):
            story = explain_workload(
                observed.state, observed.view, observed.scheduler_capacity, Ledger.empty(), owner.uid, observed.now
            )
    assert story is not None
    print_answer(
        output,
        lambda: _as_data(story, chosen, observed),
        lambda: _print(story, chosen, observed, output),
        observed.remarks,
    )
    if _has_shortage(story):
        raise typer.Exit(ExitCode.NO)


def _has_shortage(story: WorkloadExplanation) -> bool:
    """Return whether a managed workload lacks on-demand Pods, has a blocked move, or has a Pod without a node."""
    report = story.report
    if report.phase is Phase.UNMANAGED:
        return False
    blocked = report.need != 0 and report.blocked is not None
    return report.need > 0 or blocked or any(each.pod.live and not each.pod.node for each in story.pods)


def _find_workload(
    observed: SpotClusterState, text: str, meant: tuple[ObjectName, ...], default: str
) -> tuple[Owner, str]:
    """Return the workload, and the uid of the Pod if the name is that of a Pod, else "". Raises `WrongInput`."""
    key = PodKey("", "")
    for each in meant:
        key = PodKey(each.namespace or default, each.name)
        found = _find_at_key(observed, each.type, key)
        if found is not None:
            return found
    require_explained_type(text, _TYPES)
    hint = spelling_hint(key.name, [owner.name for owner in observed.owners if owner.namespace == key.namespace])
    raise WrongInput(
        f"{key}: workload or Pod not found{'; ' + hint if hint else ''}; "
        "`situate spot status -A -o wide` lists workloads"
    )


def _find_at_key(observed: SpotClusterState, kind: ObjectType | None, key: PodKey) -> tuple[Owner, str] | None:
    cluster = observed.view.cluster
    owners = [
        owner
        for owner in observed.owners
        if (owner.namespace, owner.name) == key and (kind is None or kind.kind == owner.kind)
    ]
    if len(owners) > 1:
        choices = " or ".join(f"{owner.kind.lower()}/{key}" for owner in owners)
        raise WrongInput(f"{key}: several workloads have this name; use {choices}")
    if owners:
        return owners[0], ""
    if kind in (None, POD):
        for uid, owner in cluster.owners.items():
            for pod in cluster.pods.get(uid, ()):
                if pod.key == key:
                    return owner, pod.uid
        bare = next((pod for pod in observed.pods.values() if _pod_key(pod.metadata) == key), None)
        if bare is not None:
            raise WrongInput(f"Pod {key}: no Deployment or StatefulSet controls the Pod, so spot never moves it")
    return None


def _pod_key(metadata: Any) -> PodKey:
    return PodKey(metadata.namespace, metadata.name)


def _print(story: WorkloadExplanation, chosen: str, observed: SpotClusterState, form: Format) -> None:
    report, owner = story.report, story.owner
    target = report.target
    print_line(
        f"{owner} asks for {target.on_demand} of {target.replicas} Pods on demand ({target.policy}: {target.source}); "
        f"{report.on_demand} are on demand, phase {report.phase}"
    )
    print_line(f"{'not ' if report.phase is Phase.UNMANAGED else ''}managed by spot: {report.source}")
    if report.effective_target != target.on_demand:
        print_line(
            f"{target.on_demand - report.effective_target} of them wait for on-demand capacity; "
            f"{report.effective_target} are requested now"
        )
    if story.conflict:
        print_line(f"conflict: {story.conflict} of its template allows {owner.pinned or 'no'} nodes only")
    if report.need:
        less = f"{format_count(abs(report.need), 'Pod')} too {'few' if report.need > 0 else 'many'}"
        until = f" until {moment_text(report.until)}" if report.until is not None else ""
        blocked = f"; no move now: {report.blocked}{until}" if report.blocked is not None else ""
        print_line(f"{less} on demand, {format_count(report.total, 'move')} needed{blocked}")
    classes = ", ".join(f"{count} {name}" for name, count in sorted(story.classes.items()))
    coming = f"; the next Pod would be {story.next_class}" if story.next_class is not None else ""
    print_line(f"live Pods by class: {classes or 'none'}{coming}")
    pods = [each for each in story.pods if chosen in ("", each.pod.uid)]
    if pods:
        print_items(_pod_columns(observed), pods, form)
    for order in story.orders:
        print_line(f"now: {order}")
    ended = story.if_spot_ended
    going = ended.replicas - ended.stay
    room = "" if ended.placeable >= going else f"; on-demand nodes fit {ended.placeable} of the other {going}"
    print_line(
        f"if all spot nodes ended now: {ended.stay} of {ended.replicas} stay, {ended.outage_s:g} s outage, "
        f"{ended.under_quorum_s:g} s under quorum{room}"
    )
    print_line(_RESERVATIONS)


def _pod_columns(observed: SpotClusterState) -> tuple[Column, ...]:
    return (
        Column("pod", lambda each: each.pod.key.name),
        Column("class", lambda each: each.pod_class or "unclassified"),
        Column("counts-as", lambda each: each.effective or "nothing"),
        Column("node", lambda each: each.pod.node or "-"),
        Column("state", _node_state_text),
        Column("ready", _state_text),
        Column("turn", lambda each: each.turn or "-", right=True),
        Column("why", lambda each: _class_reason(each, observed), wide=True),
    )


def _node_state_text(each: PodExplanation) -> object:
    if each.node_why:
        return f"{each.node_state} ({each.node_why})"
    return each.node_state if each.node_state is not None else "-"


def _state_text(each: PodExplanation) -> str:
    pod = each.pod
    if pod.released:
        return "released"
    if pod.terminating:
        return "terminating"
    if pod.finished:
        return pod.phase.lower()
    return "gated" if pod.gated else "yes" if pod.ready else "no"


def _class_reason(each: PodExplanation, observed: SpotClusterState) -> str:
    """Return the reason that the webhook wrote on the Pod."""
    pod = observed.pods.get(each.pod.uid)
    found = read_decision(pod.metadata.annotations) if pod is not None else {}
    return str(found.get("why", "")) or "-"


def _as_data(story: WorkloadExplanation, chosen: str, observed: SpotClusterState) -> dict[str, Any]:
    situation, owner = observed.view, story.owner
    memory = observed.state.memories.get(owner.uid, NO_MEMORY)
    workload = workload_of(situation.cluster, owner, situation.rules, memory)
    return {
        **workload_data(owner, story.report, workload, observed),
        "faults": [str(fault) for fault in story.report.target.faults],
        "reservations": None,
        "nextClass": str(story.next_class) if story.next_class is not None else None,
        "ifAllSpotEnded": loss_data(story.if_spot_ended),
        "orders": list(story.orders),
        "pods": [_pod_data(each, observed) for each in story.pods if chosen in ("", each.pod.uid)],
        "remarks": [*observed.remarks, _RESERVATIONS],
    }


def _pod_data(each: PodExplanation, observed: SpotClusterState) -> dict[str, Any]:
    pod = observed.pods.get(each.pod.uid)
    return {
        "name": each.pod.key.name,
        "class": str(each.pod_class) if each.pod_class is not None else None,
        "countsAs": str(each.effective) if each.effective is not None else None,
        "node": each.pod.node,
        "nodeState": str(each.node_state) if each.node_state is not None else None,
        "nodeWhy": each.node_why,
        "state": _state_text(each),
        "turn": each.turn,
        "decision": read_decision(pod.metadata.annotations) if pod is not None else {},
    }
