"""Implement `situate vpod explain`: why a vpod is placed as it is, Pod by Pod, and the autoscaler's next step.

The decisions are those of rule B13.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import typer

from situate.cli.input.cluster_names import complete_objects
from situate.cli.input.object_names import ObjectName, ObjectType, possible_names, require_explained_type
from situate.cli.read_cluster.cluster_source import default_namespace
from situate.cli.terminal.failures import ExitCode, WrongInput, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column, print_answer, print_items
from situate.cli.terminal.streams import print_line
from situate.cli.vpod.options import VpodOptions
from situate.cli.vpod.read_cluster import (
    observe,
    require_statefulsets,
    select_entries,
)
from situate.objects.values.counts import format_count
from situate.vpod.config.settings import SourceSettings, StatefulSetSettings
from situate.vpod.explain import Explanation
from situate.vpod.explain import explain as explanation_of
from situate.vpod.model.vpod import Key
from situate.vpod.scaling.autoscaler import AutoscalerMemory, decide_round

_PODS = (
    Column("pod", "name"),
    Column("class"),
    Column("cause"),
    Column("before", "own", right=True),
    Column("after", "then", right=True),
    Column("free-before", "free", right=True),
    Column("free-after", "freeThen", right=True),
)


def complete_sources(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete sources of the configuration that the command line names."""

    def types() -> list[tuple[ObjectType, str]]:
        file = ctx.params.get("file")
        given = None if file is None else VpodOptions(file=file, assignments=ctx.params.get("assignments"))
        entries = () if given is None else select_entries(given)
        sources = [source for entry in entries for source in entry.completed_sources()]
        return [(_object_type(source), source.version) for source in sources]

    return complete_objects(ctx, incomplete, types)


def show(vpod: str, where: VpodOptions, namespace: str | None, output: Format) -> None:
    """Print the explanation; exit with 1 if some vreplicas cannot be placed, or the StatefulSet does not exist."""
    with report_failures():
        entries = select_entries(where)
        types = [_object_type(source) for entry in entries for source in entry.completed_sources()]
        meant = _possible_names(vpod, namespace, types)
        observed = observe(entries, where)
        default = default_namespace(where, namespace)
        keys = [
            (each, key) for name in meant for each in observed for key in _possible_keys(each.settings, name, default)
        ]
        for each, key in keys:
            state = each.state
            told = explanation_of(
                state, key, state.now, decide_round(state, AutoscalerMemory(), state.now, may_shrink=False)
            )
            if told.known:
                break
        else:
            why = next((each.skipped_sources[key] for each, key in keys if key in each.skipped_sources), "")
            if not why:
                require_explained_type(vpod, types)
            raise WrongInput(f"{vpod}: {why or _unknown_source_message(vpod, default)}")
    print_answer(
        output,
        lambda: _as_data(told) | {"remarks": each.remarks},
        lambda: _print(told, each.remarks, output),
    )
    require_statefulsets([each])
    if told.decision is not None and told.decision.left:
        raise typer.Exit(ExitCode.NO)


def _unknown_source_message(text: str, namespace: str) -> str:
    where = "" if "/" in text else f" in namespace {namespace}"
    return f"source not found{where}; `situate vpod status -A` lists all"


def _possible_names(text: str, namespace: str | None, types: Sequence[ObjectType]) -> tuple[ObjectName, ...]:
    """Return the objects that the name may mean. Raises `WrongInput`."""
    within, _, rest = text.partition("/")
    if rest.count("/") == 1 and any(each.plural == rest.partition("/")[0] for each in types):
        return (ObjectName(None, within, rest),)  # `status` prints sources after the first kind in this form
    return possible_names(text, namespace, types)


def _object_type(source: SourceSettings) -> ObjectType:
    return ObjectType(source.kind, source.resource, source.group)


def _possible_keys(settings: StatefulSetSettings, meant: ObjectName, default: str) -> Iterator[Key]:
    """Return the keys of the sources that a name may mean. Keys of the first kind have no prefix."""
    namespace = meant.namespace or default
    if meant.type is None:
        yield Key(namespace, meant.name)
        return
    for number, source in enumerate(settings.completed_sources()):
        if _object_type(source) == meant.type:
            yield Key(namespace, (f"{source.resource}/" if number else "") + meant.name)


def _print(told: Explanation, remarks: Iterable[str], form: Format) -> None:
    is_placed = format_count(told.placed, "is", "are")
    print_line(f"{told.key} wants {format_count(told.wanted, 'vreplica')}, {is_placed} placed")
    for remark in remarks:
        print_line(remark)
    assert told.decision is not None
    if told.decision.shortage is not None:
        print_line(str(told.decision.shortage))
    for notice in told.decision.notices:
        print_line(f"{notice.reason}: {notice.message}")
    print_items(_PODS, _pods_data(told), form)
    if told.unevenness:
        print_line(told.unevenness)
    print_line(f"autoscaler: {told.autoscaler}")


def _as_data(told: Explanation) -> dict[str, Any]:
    decision = told.decision
    assert decision is not None
    return {
        "vpod": str(told.key),
        "wanted": told.wanted,
        "placed": told.placed,
        "left": decision.left,
        "shortage": str(decision.shortage) if decision.shortage is not None else "",
        "placementsThen": [placement.to_json() for placement in decision.placements],
        "notices": [{"reason": notice.reason, "message": notice.message} for notice in decision.notices],
        "counts": dict(told.counts),
        "autoscaler": told.autoscaler,
        "uneven": told.unevenness,
        "pods": _pods_data(told),
    }


def _pods_data(told: Explanation) -> list[dict[str, Any]]:
    return [
        {
            "name": line.name,
            "class": str(line.pod_class),
            "cause": line.cause,
            "own": line.own,
            "then": line.own_after,
            "free": line.free,
            "freeThen": line.free_after,
        }
        for line in told.pods
    ]
