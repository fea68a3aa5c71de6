"""Implement `situate scheduler what-if`: the nodes that Pods would get, and how many more fit. Nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import typer

from situate.cli.read_cluster.cluster_source import default_namespace
from situate.cli.scheduler.cluster_state import SchedulerClusterState, observe
from situate.cli.scheduler.explain import CHANGES_WITHOUT_EXTENDERS, change_data, change_lines
from situate.cli.scheduler.extender_calls import ExtenderCalls
from situate.cli.scheduler.manifest_pods import ManifestPods, read_pods
from situate.cli.scheduler.options import AssumedChanges
from situate.cli.scheduler.profiles import read_profiles
from situate.cli.terminal.failures import ExitCode, WrongInput, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.options import SourceOptions
from situate.cli.terminal.output import Column, print_answer, print_table
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_line
from situate.framework.cycle.cycle import PluginFailed
from situate.framework.engine.engine import Engine
from situate.framework.explain.explain import Question, explain_steps
from situate.framework.explain.least_change import LeastChange, least_change
from situate.framework.explain.what_if import FittingPods, PlacementOutcome, group_by_kind, room_for, settle_steps
from situate.framework.pod.pods import BadPod, PodInfo
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.resources import NODES
from situate.objects.settings.section import format_value, spelling_hint
from situate.objects.values.counts import format_count

_KINDS: Final = (
    Column("like"),
    Column("asked", right=True),
    Column("placed", right=True),
    Column("nodes", right=True),
    Column("more-fit", right=True),
    Column("reason", wide=True),
)
_PODS: Final = (Column("pod"), Column("node"), Column("remark"))
_MAX_ROWS: Final = 20
"""Number of Pods that a table names one by one; `-o wide` names all."""
_MAX_EXPLAINED: Final = 5
"""Number of kinds of Pods for which changes that would help are shown."""
Unplaceable = tuple[str, str]
"""`shop/web`, and a sentence with the reason why the Pod cannot be read."""


def show(
    files: Sequence[Path],
    changes: AssumedChanges,
    profile: Path | None,
    where: SourceOptions,
    namespace: str | None,
    output: Format,
    *,
    pending: bool,
    most: int,
) -> None:
    """Print the outcome; exit with 1 if a Pod would find no node. `most` limits the count of further Pods."""
    with report_failures():
        if not files and not pending and not changes.drain:
            raise WrongInput("what-if: no Pods to place; name files with Pods, or give --pending or --drain NODE")
        profiles = read_profiles(profile)
        world = observe(where, whole=bool(profiles.extenders))
        asked = ManifestPods()
        if files:
            asked = read_pods(
                files, default_namespace(where, namespace), world.priority_classes, (NODES, *world.stores.others)
            )
            world.add_objects(asked.other_objects)
        pods = [*(world.pending_pods if pending else ()), *asked.pods]
        moved = _drained_pods(world, changes.drain)
        trial = _apply_changes(world, world.engine(profiles, [*pods, *moved]), changes)
        extending = ExtenderCalls(profiles.extenders, world, trial, [*moved, *pods])
        with progress("deciding"):
            outcomes, unplaceable = _decide_pods(trial, [*moved, *pods], world, extending)
            if pending:
                unplaceable = [
                    *((f"{each.namespace}/{each.name}", each.problem) for each in world.unreadable_pending_pods),
                    *unplaceable,
                ]
            rooms = _further_placements(trial, outcomes, most) if most else {}
            changes_for = _least_changes(trial, outcomes, extending)
        if profiles.extenders and rooms:
            world.remarks.add("extenders are not called to count how many more would fit")
        if profiles.extenders and changes_for:
            world.remarks.add(CHANGES_WITHOUT_EXTENDERS)
    refused = len(unplaceable) + sum(not each.node for each in outcomes)
    remarks = [*world.remarks.sentences, *(f"ignored: {each}" for each in asked.ignored)]
    print_answer(
        output,
        lambda: _as_data(outcomes, unplaceable, rooms, changes_for, most, remarks),
        lambda: _print(outcomes, unplaceable, rooms, changes_for, output),
        remarks,
    )
    if refused:
        raise typer.Exit(ExitCode.NO)


def _apply_changes(world: SchedulerClusterState, engine: Engine, changes: AssumedChanges) -> Engine:
    """Return a branch of the engine with all changes."""
    trial = engine.branch(extenders=engine.extenders)
    if changes.add_nodes:
        pattern = _find_node(world, changes.like, "--like") if changes.like is not None else None
        if pattern is None:
            raise WrongInput("--add-nodes: name the node to copy with --like NODE")
        for number in range(1, changes.add_nodes + 1):
            trial.set_node(_copy_node(pattern, f"{pattern.metadata.name}-copy-{number}"), 0.0)
    elif changes.like is not None:
        raise WrongInput("--like: give the number of copies with --add-nodes N")
    for name in changes.remove_node or ():
        _find_node(world, name, "--remove-node")
        trial.remove_node(name, 0.0)
    for option, names in (("--cordon", changes.cordon or ()), ("--drain", changes.drain or ())):
        for name in names:
            node = _find_node(world, name, option)
            spec = msgspec.structs.replace(node.spec, unschedulable=True)
            trial.set_node(msgspec.structs.replace(node, spec=spec), 0.0)
    for text in changes.remove_pod or ():
        namespace, slash, name = text.partition("/")
        pod = world.pod(namespace, name) if slash else None
        if pod is None:
            raise WrongInput(f"--remove-pod {text or format_value(text)}: Pod not found; name it as NAMESPACE/NAME")
        trial.remove_pod(pod.metadata.uid, 0.0)
    for pod in _drained_pods(world, changes.drain):
        trial.remove_pod(pod.metadata.uid, 0.0)
    return trial


def _find_node(world: SchedulerClusterState, name: str, option: str) -> Node:
    found = world.stores.nodes.get(name)
    if found is None:
        hint = spelling_hint(name, (each.metadata.name for each in world.stores.nodes.list()))
        raise WrongInput(f"{option} {name or format_value(name)}: node not found{'; ' + hint if hint else ''}")
    return found


def _copy_node(node: Node, name: str) -> Node:
    """Return an empty copy of the node, with its own name and host name label. Its spec stays the same."""
    labels = {**node.metadata.labels}
    if "kubernetes.io/hostname" in labels:
        labels["kubernetes.io/hostname"] = name
    metadata = msgspec.structs.replace(node.metadata, name=name, uid=name, labels=labels)
    return msgspec.structs.replace(node, metadata=metadata)


def _drained_pods(world: SchedulerClusterState, drained: Iterable[str] | None) -> list[Pod]:
    """Return the Pods that a drain would evict: all except Pods of DaemonSets and mirror Pods."""
    names = frozenset(drained or ())
    if not names:
        return []
    found = []
    for pod in world.stores.pods.list():
        owner = pod.metadata.controller
        stays = owner is not None and owner.kind in ("DaemonSet", "Node")
        if pod.spec.node_name in names and not stays and not pod.finished:
            spec = msgspec.structs.replace(pod.spec, node_name="")
            found.append(msgspec.structs.replace(pod, spec=spec))
    return found


def _decide_pods(
    trial: Engine, pods: Sequence[Pod], world: SchedulerClusterState, extending: ExtenderCalls
) -> tuple[list[PlacementOutcome], list[Unplaceable]]:
    """Decide about the Pods in queue order. Returns the outcomes, and the Pods that cannot be read."""
    unplaceable = []
    for pod in pods:
        try:
            trial.set_pod(pod, 0.0)
        except BadPod as problem:
            world.remarks.bad_object(pod, str(problem))
            unplaceable.append((f"{pod.metadata.namespace}/{pod.metadata.name}", str(problem)))
    return list(extending.run_steps(settle_steps(trial, 0.0)).values()), unplaceable


def _further_placements(trial: Engine, outcomes: Sequence[PlacementOutcome], most: int) -> dict[str, FittingPods]:
    """Return the number of further Pods that fit, by uid of the first Pod of each kind."""
    firsts = (same[0] for same in group_by_kind(each.pod for each in outcomes))
    return {pod.uid: room_for(trial, pod, 0.0, most) for pod in firsts}


def _least_changes(
    trial: Engine, outcomes: Sequence[PlacementOutcome], extending: ExtenderCalls
) -> dict[str, LeastChange]:
    """Return the smallest changes for the first Pod without a node of each kind, after all other decisions."""
    refused = [same[0] for same in group_by_kind(each.pod for each in outcomes if each.short and not each.node)]
    found = {}
    for pod in refused[:_MAX_EXPLAINED]:
        with suppress(PluginFailed):
            change = least_change(extending.run_steps(explain_steps(Question.of(trial, pod.pod))))
            if change != LeastChange():
                found[str(pod)] = change
    return found


def _print(
    outcomes: Sequence[PlacementOutcome],
    unplaceable: Sequence[Unplaceable],
    rooms: dict[str, FittingPods],
    changes: dict[str, LeastChange],
    form: Format,
) -> None:
    placed = sum(bool(each.node) for each in outcomes)
    print_line(f"{placed} of {format_count(len(outcomes) + len(unplaceable), 'pod')} would find a node")
    if outcomes:
        _print_kinds(outcomes, rooms, form)
    listed = form is Format.WIDE or len(outcomes) <= _MAX_ROWS
    rows: list[tuple[object, ...]] = [(pod, "-", problem) for pod, problem in unplaceable]
    if listed:
        rows = [*((each.pod, each.node or "-", _remark(each)) for each in outcomes), *rows]
    if rows:
        print_line()
        print_table(_PODS, rows, form)
    if not listed:
        for text, number in Counter(_short_reason(each) for each in outcomes if not each.node).most_common():
            print_line(f"{format_count(number, 'pod')}: {text}")
    for pod, change in changes.items():
        print_line()
        print_line(f"{pod} finds no node")
        for sentence in change_lines(change):
            print_line(sentence)


def _print_kinds(outcomes: Sequence[PlacementOutcome], rooms: dict[str, FittingPods], form: Format) -> None:
    by_kind = _group_by_kind(outcomes)
    rows = []
    for first, members in by_kind:
        room = rooms.get(first.uid)
        nodes = {each.node for each in members if each.node}
        rows.append(
            (
                first,
                len(members),
                sum(bool(each.node) for each in members),
                len(nodes),
                "-" if room is None else _count_text(room),
                "-" if room is None else room.why or "the count ended at its limit",
            )
        )
    print_table(_KINDS, rows, form)


def _group_by_kind(outcomes: Sequence[PlacementOutcome]) -> list[tuple[PodInfo, list[PlacementOutcome]]]:
    """Return the first Pod of each kind, with the outcomes of all Pods of the kind."""
    by_uid = {each.pod.uid: each for each in outcomes}
    return [(same[0], [by_uid[pod.uid] for pod in same]) for same in group_by_kind(each.pod for each in outcomes)]


def _count_text(room: FittingPods) -> str:
    return str(room.count) if room.exact else f"{room.count} or more"


def _remark(outcome: PlacementOutcome) -> str:
    parts = []
    if outcome.victims:
        parts.append(f"preempts {', '.join('/'.join(each) for each in outcome.victims)}")
    if outcome.held_by:
        parts.append(f"waits for {', '.join(outcome.held_by)}")
    if outcome.why:
        parts.append(_short_reason(outcome))
    return "; ".join(parts)


def _short_reason(outcome: PlacementOutcome) -> str:
    """Return why there is no node, without the messages of the PostFilter plugins."""
    return outcome.short or outcome.why


def _as_data(
    outcomes: Sequence[PlacementOutcome],
    unplaceable: Sequence[Unplaceable],
    rooms: dict[str, FittingPods],
    changes: dict[str, LeastChange],
    most: int,
    remarks: Sequence[str],
) -> dict[str, Any]:
    data = []
    for first, members in _group_by_kind(outcomes):
        room = rooms.get(first.uid)
        data.append(
            {
                "pod": str(first),
                "asked": len(members),
                "placed": sum(bool(each.node) for each in members),
                "more": None if room is None else room.count,
                "moreIsExact": room is not None and room.exact,
                "whyNotMore": "" if room is None else room.why,
            }
        )
    return {
        "asked": len(outcomes) + len(unplaceable),
        "placed": sum(bool(each.node) for each in outcomes),
        "countedUpTo": most,
        "kinds": data,
        "pods": [
            {
                "pod": str(each.pod),
                "node": each.node,
                "victims": ["/".join(victim) for victim in each.victims],
                "heldBy": list(each.held_by),
                "why": each.why,
            }
            for each in outcomes
        ]
        + [{"pod": pod, "node": "", "victims": [], "heldBy": [], "why": problem} for pod, problem in unplaceable],
        "changes": {pod: change_data(change) for pod, change in changes.items()},
        "remarks": list(remarks),
    }
