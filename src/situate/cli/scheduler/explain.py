"""Implement `situate scheduler explain`: why a Pod gets its node or none, and the smallest changes that would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import typer

from situate.cli.input.cluster_names import complete_objects
from situate.cli.input.object_names import POD, possible_names, require_explained_type
from situate.cli.read_cluster.cluster_source import default_namespace
from situate.cli.scheduler.cluster_state import SchedulerClusterState, observe
from situate.cli.scheduler.extender_calls import ExtenderCalls
from situate.cli.scheduler.profiles import read_profiles
from situate.cli.terminal.failures import ExitCode, WrongInput, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.options import SourceOptions
from situate.cli.terminal.output import Column, print_answer, print_items, print_table
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_line
from situate.framework.cycle.cycle import PluginFailed
from situate.framework.explain.explain import Explanation, NodeGroup, NodeScore, Question, explain_steps
from situate.framework.explain.least_change import LeastChange, SuggestedChange, least_change
from situate.framework.pod.pods import BadPod
from situate.objects.kinds.pods import Pod
from situate.objects.settings.section import spelling_hint
from situate.objects.values.counts import format_count

_FILTERS: Final = (
    Column("plugin", lambda line: line.plugin),
    Column("refuses", lambda line: line.refused, right=True),
    Column("also", lambda line: line.also, right=True, wide=True),
    Column("reasons", lambda line: ", ".join(f"{number} {text}" for text, number in line.reasons.items()) or "-"),
)
_GROUPS: Final = (
    Column("nodes", right=True),
    Column("code", wide=True),
    Column("plugin"),
    Column("reasons"),
    Column("names"),
)
_SCORES: Final = (Column("node"), Column("total", right=True), Column("scores"))
_BEST_NODES: Final = 10
"""Number of nodes whose scores a table shows; `-o wide` shows all."""
_SHOWN_NAMES: Final = 3
CHANGES_WITHOUT_EXTENDERS: Final = (
    "extenders are not called about changes; they may refuse a node that a change makes feasible"
)


def complete_pods(ctx: typer.Context, incomplete: str) -> list[str]:
    return complete_objects(ctx, incomplete, lambda: [(POD, "v1")])


def show(pod: str, profile: Path | None, where: SourceOptions, namespace: str | None, output: Format) -> None:
    """Print the explanation; exit with 1 if no node fits."""
    with report_failures():
        profiles = read_profiles(profile)
        world = observe(where, whole=bool(profiles.extenders))
        found = _find_pod(world, pod, namespace, default_namespace(where, namespace))
        engine = world.engine(profiles, [found])
        try:
            with progress("running the plugins"):
                extending = ExtenderCalls(profiles.extenders, world, engine)
                told = extending.run_steps(explain_steps(Question.of(engine, found)))
                change = least_change(told)
            if profiles.extenders and not told.node and change != LeastChange():
                world.remarks.add(CHANGES_WITHOUT_EXTENDERS)
        except (BadPod, PluginFailed) as problem:
            raise WrongInput(str(problem)) from None
    remarks = world.remarks.sentences
    print_answer(
        output,
        lambda: as_data(found, told, change, remarks),
        lambda: _print(found, told, change, output),
        remarks,
    )
    if not told.node:
        raise typer.Exit(ExitCode.NO)


def _find_pod(world: SchedulerClusterState, text: str, namespace: str | None, default: str) -> Pod:
    within = name = ""
    for each in possible_names(text, namespace, (POD,)):
        within, name = each.namespace or default, each.name
        found = world.pod(within, name)
        if found is not None:
            return found
        for unread in world.unreadable_pods:
            if (unread.namespace, unread.name) == (within, name):
                raise WrongInput(unread.problem)
        if (within, name) in (world.ended_pods or ()):
            raise WrongInput(f'pod "{name}" in namespace "{within}" has ended; name a running or pending Pod')
    require_explained_type(text, (POD,))
    known = [each.metadata.name for each in world.stores.pods.list(within)]
    hint = spelling_hint(name, known)
    elsewhere = [each.metadata.namespace for each in world.stores.pods.list() if each.metadata.name == name]
    if not hint and elsewhere:
        hint = f"namespace {elsewhere[0]} has a Pod of this name; select it with -n"
    if not hint and world.ended_pods is None:
        hint = "Pods that have ended are not read"
    raise WrongInput(f'pod "{name}" not found in namespace "{within}"{"; " + hint if hint else ""}')


def _print(pod: Pod, told: Explanation, change: LeastChange, form: Format) -> None:
    print_line(_headline(pod, told))
    if told.gate is not None:
        print_line(f"gated by {told.gate.plugin}: {told.gate.message}. The answer below ignores the gate")
    for line in told.pre_filters:
        if line.reasons:
            print_line(f"PreFilter {line.plugin}: {', '.join(line.reasons)}")
        elif line.nodes is not None:
            print_line(
                f"PreFilter {line.plugin}: admits {line.nodes} of {format_count(told.question.snapshot.count, 'node')}"
            )
    lines = [line for line in told.filters if line.refused or line.also or (form is Format.WIDE and line.concerned)]
    if lines:
        print_line()
        print_items(_FILTERS, lines, form)
    if told.groups and lines:
        print_line()
        print_table(_GROUPS, [_group_row(group, form) for group in told.groups], form)
    if told.scores:
        print_line()
        shown = told.scores if form is Format.WIDE else told.scores[:_BEST_NODES]
        print_table(_SCORES, [(each.node, each.total, _shares_text(each, form)) for each in shown], form)
        if len(told.scores) > len(shown):
            print_line(
                f"and {format_count(len(told.scores) - len(shown), 'node')} with a lower score; -o wide shows all"
            )
    if change != LeastChange() or not told.node:
        print_line()
        for sentence in change_lines(change):
            print_line(sentence)


def _headline(pod: Pod, told: Explanation) -> str:
    info = told.question.pod
    ties = len(told.best_nodes) - 1
    among = f", one of {ties + 1} equally good nodes" if ties else ""
    of_all = format_count(told.question.snapshot.count, "node")
    why = "nominated for it" if told.uses_nomination else f"{told.feasible} of {of_all} feasible"
    if pod.spec.node_name:
        then = f"{info} is on {pod.spec.node_name}; placed now "
        if not told.node:
            return f"{then}it would find no node: {told.message}"
        if told.node == pod.spec.node_name or pod.spec.node_name in told.best_nodes:
            return f"{then}it would go there again ({why}{among})"
        return f"{then}it would go to {told.node} ({why}{among})"
    return f"{info} goes to {told.node} ({why}{among})" if told.node else f"{info} waits: {told.message}"


def _group_row(group: NodeGroup, form: Format) -> tuple[object, ...]:
    own = group.refusals[0] if group.refusals else ("", ())
    others = [plugin for plugin, _ in group.refusals[1:]]
    reasons = ", ".join(own[1])
    if others:
        reasons += f" (also refused by {', '.join(others)})"
    shown = group.nodes if form is Format.WIDE else group.nodes[:_SHOWN_NAMES]
    names = ", ".join(shown) + (", ..." if len(group.nodes) > len(shown) else "")
    return len(group.nodes), group.code.title, own[0] or "-", reasons or "-", names


def _shares_text(score: NodeScore, form: Format) -> str:
    if form is not Format.WIDE:
        return ", ".join(f"{plugin} {share.weighted}" for plugin, share in score.shares.items())
    return ", ".join(
        f"{plugin} {share.weighted} (raw {share.raw}, normalized {share.normalized})"
        for plugin, share in score.shares.items()
    )


def change_lines(change: LeastChange) -> Iterator[str]:
    """Return the changes as sentences."""
    if change.changes:
        several = len(change.changes) > 1
        yield (
            "each of these changes alone would make the Pod fit:" if several else "this change would make the Pod fit:"
        )
        yield from (f"- {_change_line(each)}" for each in change.changes)
    elif change.together:
        yield f"no single change would make the Pod fit; on {change.together[0].node} these changes together would:"
        yield from (f"- {each.text}" for each in change.together)
    else:
        yield "no change was found that would make the Pod fit, neither of a node nor of its requests or priority"


def _change_line(change: SuggestedChange) -> str:
    victims = f": {', '.join('/'.join(each) for each in change.victims)}" if change.victims else ""
    more = "" if change.nodes == 1 else f": {format_count(change.nodes, 'node')}"
    return f"{change.text}{victims}{more}"


def as_data(pod: Pod, told: Explanation, change: LeastChange, remarks: Sequence[str]) -> dict[str, Any]:
    """Return the whole explanation as plain data."""
    return {
        "pod": str(told.question.pod),
        "schedulerName": pod.spec.scheduler_name,
        "nodeNow": pod.spec.node_name,
        "node": told.node,
        "promised": told.uses_nomination,
        "best": list(told.best_nodes),
        "message": told.message,
        "gate": None if told.gate is None else {"plugin": told.gate.plugin, "message": told.gate.message},
        "nodes": told.question.snapshot.count,
        "feasible": told.feasible,
        "visited": told.visited,
        "preFilter": [
            {
                "plugin": line.plugin,
                "code": "" if line.code is None else line.code.title,
                "reasons": list(line.reasons),
                "nodes": line.nodes,
            }
            for line in told.pre_filters
        ],
        "filter": [
            {
                "plugin": line.plugin,
                "concerned": line.concerned,
                "refuses": line.refused,
                "alsoRefuses": line.also,
                "reasons": dict(line.reasons),
            }
            for line in told.filters
        ],
        "groups": [
            {
                "nodes": list(group.nodes),
                "code": group.code.title,
                "refusals": [{"plugin": plugin, "reasons": list(reasons)} for plugin, reasons in group.refusals],
            }
            for group in told.groups
        ],
        "scores": [
            {
                "node": score.node,
                "total": score.total,
                "plugins": {
                    plugin: {"raw": share.raw, "normalized": share.normalized, "weighted": share.weighted}
                    for plugin, share in score.shares.items()
                },
            }
            for score in told.scores
        ],
        **change_data(change),
        "remarks": list(remarks),
    }


def change_data(change: LeastChange) -> dict[str, Any]:
    """Return the changes as plain data."""
    return {
        "changes": [_change_data(each) for each in change.changes],
        "changesTogether": [_change_data(each) for each in change.together],
    }


def _change_data(change: SuggestedChange) -> dict[str, Any]:
    return {
        "kind": str(change.kind),
        "text": change.text,
        "nodes": change.nodes,
        "node": change.node,
        "room": dict(change.missing_amounts),
        "victims": ["/".join(each) for each in change.victims],
    }
