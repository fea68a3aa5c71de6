"""`situate vpod explain`: why one vpod is where it is, pod by pod, and what the autoscaler will do (B13)."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from situate.cli.configured import SetOption
from situate.cli.failures import ExitCode, WrongInput, mendable_failures
from situate.cli.output import Column, Format, OutputOption, console, print_data, print_table
from situate.cli.vpod.reading import (
    ContextOption,
    FileOption,
    KubeconfigOption,
    ObjectsOption,
    StatefulSetOption,
    Where,
    chosen_entries,
    observe,
)
from situate.vpod.autoscaler import Memory, beat
from situate.vpod.explain import Explanation
from situate.vpod.explain import explain as explanation_of
from situate.vpod.model import Key

_PODS = (
    Column("pod"),
    Column("class"),
    Column("cause"),
    Column("own", right=True),
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

    Exits with 1 if vreplicas are left over.
    """
    with mendable_failures():
        namespace, slash, _ = vpod.partition("/")
        if not slash or not namespace:
            raise WrongInput(f"{vpod}: name the source as NAMESPACE/NAME")
        key = Key.parse(vpod)
        observed = observe(chosen_entries(file, statefulset, assignments), Where(kubeconfig, context, objects))
        for each in observed:
            state = each.state
            told = explanation_of(state, key, state.now, beat(state, Memory(), state.now, may_shrink=False))
            if told.known:
                break
        else:
            raise WrongInput(f"{vpod}: no such vpod; `situate vpod status` lists them")
    if output in (Format.JSON, Format.YAML):
        print_data(_as_data(told), output)
    else:
        _print(told, output)
    if told.decision is not None and told.decision.left:
        raise typer.Exit(ExitCode.NO)


def _print(told: Explanation, form: Format) -> None:
    out = console()
    out.print(f"{told.key} wants {told.wanted} vreplicas, {told.placed} are placed")
    assert told.decision is not None
    if told.decision.shortage is not None:
        out.print(str(told.decision.shortage))
    for notice in told.decision.notices:
        out.print(f"{notice.reason}: {notice.message}")
    rows = [(line.name, line.pod_class, line.cause, line.own, line.free) for line in told.pods]
    print_table(_PODS, rows, form)
    out.print(f"autoscaler: {told.autoscaler}")


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
        "pods": [
            {
                "name": line.name,
                "class": str(line.pod_class),
                "cause": line.cause,
                "own": line.own,
                "free": line.free,
            }
            for line in told.pods
        ],
    }
