"""`situate vpod explain`: why one vpod is where it is, pod by pod, and what the autoscaler will do (B13)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from situate.cli.failures import ExitCode, WrongInput, mendable_failures
from situate.cli.options import (
    ContextOption,
    FileOption,
    KubeconfigOption,
    ObjectsOption,
    SetOption,
    StatefulSetOption,
)
from situate.cli.output import Column, Format, OutputOption, print_data, print_table
from situate.cli.streams import say
from situate.cli.vpod.reading import (
    Where,
    chosen_entries,
    observe,
    require_statefulsets,
)
from situate.objects.counts import counted
from situate.objects.settings import shown
from situate.vpod.autoscaler import Memory, beat
from situate.vpod.explain import Explanation
from situate.vpod.explain import explain as explanation_of
from situate.vpod.model import Key

_PODS = (
    Column("pod"),
    Column("class"),
    Column("cause"),
    Column("own", right=True),
    Column("then", right=True),
    Column("free", right=True),
)


def explain(
    vpod: Annotated[str, typer.Argument(help="NAMESPACE/NAME of the source.")],
    file: FileOption,
    statefulset: StatefulSetOption = None,
    assignments: SetOption = None,
    objects: ObjectsOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Say where a vpod is, what each pod could take of it and why not, and what will be done about a shortage.

    Exits with 1 if vreplicas are left over, or the StatefulSet does not exist.
    """
    with mendable_failures():
        namespace, _, name = vpod.partition("/")
        if not namespace or not name:
            raise WrongInput(f"{vpod or shown(vpod)}: name the source as NAMESPACE/NAME")
        key = Key.parse(vpod)
        observed = observe(chosen_entries(file, statefulset, assignments), Where(kubeconfig, context, objects))
        for each in observed:
            state = each.state
            told = explanation_of(state, key, state.now, beat(state, Memory(), state.now, may_shrink=False))
            if told.known:
                break
        else:
            why = next((each.others[key] for each in observed if key in each.others), "")
            raise WrongInput(f"{vpod}: {why or 'no such vpod; `situate vpod status` lists them'}")
    if output in (Format.JSON, Format.YAML):
        print_data(_as_data(told) | {"remarks": each.remarks}, output)
    else:
        _print(told, each.remarks, output)
    require_statefulsets([each])
    if told.decision is not None and told.decision.left:
        raise typer.Exit(ExitCode.NO)


def _print(told: Explanation, remarks: Iterable[str], form: Format) -> None:
    is_placed = counted(told.placed, "is", "are")
    say(f"{told.key} wants {counted(told.wanted, 'vreplica')}, {is_placed} placed")
    for remark in remarks:
        say(remark)
    assert told.decision is not None
    if told.decision.shortage is not None:
        say(str(told.decision.shortage))
    for notice in told.decision.notices:
        say(f"{notice.reason}: {notice.message}")
    rows = [(line.name, line.pod_class, line.cause, line.own, line.then, line.free) for line in told.pods]
    print_table(_PODS, rows, form)
    if told.uneven:
        say(told.uneven)
    say(f"autoscaler: {told.autoscaler}")


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
        "uneven": told.uneven,
        "pods": [
            {
                "name": line.name,
                "class": str(line.pod_class),
                "cause": line.cause,
                "own": line.own,
                "then": line.then,
                "free": line.free,
            }
            for line in told.pods
        ],
    }
