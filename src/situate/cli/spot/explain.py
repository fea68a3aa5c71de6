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
    readings,
    require_explained,
)
from situate.cli.spot.read_cluster import Asked, Observed
from situate.cli.spot.reports import loss_data, moment, workload_data
from situate.cli.terminal.failures import ExitCode, WrongInput, mendable_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column, print_data, print_table
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import complain, say
from situate.objects.settings.section import did_you_mean
from situate.objects.values.counts import counted
from situate.spot.admission.ledger import Ledger
from situate.spot.model.pods_nodes_workloads import Owner, PodKey
from situate.spot.rebalance.decide import Phase
from situate.spot.report.explain import PodStory, Story, explain_workload
from situate.spot.workloads.cluster_objects import NO_MEMORY, workload_of
from situate.spot.workloads.owners import KINDS, read_decision

_RESERVATIONS = (
    "only the leader knows its reservations for Pods that it has not seen yet; the metric situate_spot_reservations "
    "counts them"
)
_SHORT = {"Deployment": DEPLOYMENT.short, "StatefulSet": STATEFULSET.short}
_TYPES = (
    *(ObjectType(each.kind, each.plural, each.group, _SHORT.get(each.kind, ())) for each in KINDS.values()),
    POD,
)
_PODS = (
    Column("pod"),
    Column("class"),
    Column("counts-as"),
    Column("node"),
    Column("state"),
    Column("ready"),
    Column("turn", right=True),
    Column("why", wide=True),
)


def complete_workloads(ctx: typer.Context, incomplete: str) -> list[str]:
    first, slash, _ = incomplete.partition("/")
    if slash and POD.called(first):
        return complete_objects(ctx, incomplete, lambda: [(POD, "v1")])
    return complete_objects(ctx, incomplete, lambda: [(DEPLOYMENT, "v1"), (STATEFULSET, "v1")])


def show(name: str, asked: Asked, namespace: str | None, output: Format) -> None:
    """Print the explanation; exit with 1 if the workload lacks on-demand Pods, a move is blocked, or a Pod waits."""
    with mendable_failures():
        meant = readings(name, namespace, _TYPES)
        asked.check()
        default = asked.where.namespace(namespace)
        observed = asked.observed()
        owner, chosen = _found(observed, name, meant, default)
        with progress("counting"):
            story = explain_workload(
                observed.state, observed.situation, observed.places, Ledger.empty(), owner.uid, observed.now
            )
    assert story is not None
    if output in (Format.JSON, Format.YAML):
        print_data(_as_data(story, chosen, observed), output)
    else:
        for remark in observed.remarks:
            complain(remark)
        _print(story, chosen, observed, output)
    if _left_over(story):
        raise typer.Exit(ExitCode.NO)


def _left_over(story: Story) -> bool:
    """Return whether a managed workload lacks on-demand Pods, has a blocked move, or has a Pod without a node."""
    report = story.report
    if report.phase is Phase.UNMANAGED:
        return False
    blocked = report.need != 0 and report.blocked is not None
    return report.need > 0 or blocked or any(each.pod.live and not each.pod.node for each in story.pods)


def _found(observed: Observed, text: str, meant: tuple[ObjectName, ...], default: str) -> tuple[Owner, str]:
    """Return the workload, and the uid of the Pod if the name is that of a Pod, else "". Raises `WrongInput`."""
    key = PodKey("", "")
    for each in meant:
        key = PodKey(each.namespace or default, each.name)
        found = _found_at(observed, each.type, key)
        if found is not None:
            return found
    require_explained(text, _TYPES)
    hint = did_you_mean(key.name, [owner.name for owner in observed.owners if owner.namespace == key.namespace])
    raise WrongInput(
        f"{key}: workload or Pod not found{'; ' + hint if hint else ''}; "
        "`situate spot status -A -o wide` lists workloads"
    )


def _found_at(observed: Observed, kind: ObjectType | None, key: PodKey) -> tuple[Owner, str] | None:
    cluster = observed.situation.cluster
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
        bare = next((pod for pod in observed.pods.values() if _key(pod.metadata) == key), None)
        if bare is not None:
            raise WrongInput(f"Pod {key}: no Deployment or StatefulSet controls the Pod, so spot never moves it")
    return None


def _key(metadata: Any) -> PodKey:
    return PodKey(metadata.namespace, metadata.name)


def _print(story: Story, chosen: str, observed: Observed, form: Format) -> None:
    report, owner = story.report, story.owner
    target = report.target
    say(
        f"{owner} asks for {target.on_demand} of {target.replicas} Pods on demand ({target.policy}: {target.source}); "
        f"{report.on_demand} are on demand, phase {report.phase}"
    )
    say(f"{'not ' if report.phase is Phase.UNMANAGED else ''}managed by spot: {report.source}")
    if report.asked != target.on_demand:
        say(f"{target.on_demand - report.asked} of them wait for on-demand capacity; {report.asked} are requested now")
    if story.conflict:
        say(f"conflict: {story.conflict} of its template allows {owner.pinned or 'no'} nodes only")
    if report.need:
        less = f"{counted(abs(report.need), 'Pod')} too {'few' if report.need > 0 else 'many'}"
        until = f" until {moment(report.until)}" if report.until is not None else ""
        blocked = f"; no move now: {report.blocked}{until}" if report.blocked is not None else ""
        say(f"{less} on demand, {counted(report.total, 'move')} needed{blocked}")
    classes = ", ".join(f"{count} {name}" for name, count in sorted(story.classes.items()))
    coming = f"; the next Pod would be {story.next_class}" if story.next_class is not None else ""
    say(f"live Pods by class: {classes or 'none'}{coming}")
    pods = [each for each in story.pods if chosen in ("", each.pod.uid)]
    if pods:
        print_table(_PODS, [_row(each, observed) for each in pods], form)
    for order in story.orders:
        say(f"now: {order}")
    ended = story.if_spot_ended
    going = ended.replicas - ended.stay
    room = "" if ended.fit >= going else f"; on-demand nodes fit {ended.fit} of the other {going}"
    say(
        f"if all spot nodes ended now: {ended.stay} of {ended.replicas} stay, {ended.outage_s:g} s outage, "
        f"{ended.under_quorum_s:g} s under quorum{room}"
    )
    say(_RESERVATIONS)


def _row(each: PodStory, observed: Observed) -> tuple[object, ...]:
    pod = each.pod
    return (
        pod.key.name,
        each.pod_class or "unclassified",
        each.effective or "nothing",
        pod.node or "-",
        f"{each.node_state} ({each.node_why})"
        if each.node_why
        else each.node_state
        if each.node_state is not None
        else "-",
        _ready(each),
        each.turn or "-",
        _why(each, observed),
    )


def _ready(each: PodStory) -> str:
    pod = each.pod
    if pod.released:
        return "released"
    if pod.terminating:
        return "terminating"
    if pod.finished:
        return pod.phase.lower()
    return "gated" if pod.gated else "yes" if pod.ready else "no"


def _why(each: PodStory, observed: Observed) -> str:
    """Return the reason that the webhook wrote on the Pod."""
    pod = observed.pods.get(each.pod.uid)
    found = read_decision(pod.metadata.annotations) if pod is not None else {}
    return str(found.get("why", "")) or "-"


def _as_data(story: Story, chosen: str, observed: Observed) -> dict[str, Any]:
    situation, owner = observed.situation, story.owner
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


def _pod_data(each: PodStory, observed: Observed) -> dict[str, Any]:
    pod = observed.pods.get(each.pod.uid)
    return {
        "name": each.pod.key.name,
        "class": str(each.pod_class) if each.pod_class is not None else None,
        "countsAs": str(each.effective) if each.effective is not None else None,
        "node": each.pod.node,
        "nodeState": str(each.node_state) if each.node_state is not None else None,
        "nodeWhy": each.node_why,
        "state": _ready(each),
        "turn": each.turn,
        "decision": read_decision(pod.metadata.annotations) if pod is not None else {},
    }
