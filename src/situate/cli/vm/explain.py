"""`situate vm explain`: why a machine or a pod does not have what it wants, and what would help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from situate.cli.cluster_names import complete_objects
from situate.cli.completing import complete_namespaces
from situate.cli.failures import WrongInput, mendable_failures
from situate.cli.formats import Format
from situate.cli.object_names import POD, ObjectName, ObjectType, readings, require_explained
from situate.cli.options import ContextOption, KubeconfigOption, OptionalFileOption, OutputOption, SetOption
from situate.cli.output import Column, print_data, print_table
from situate.cli.streams import complain, say
from situate.cli.vm.reading import Observed, Where, decided, observe
from situate.cli.vm.status import InstallationOption
from situate.vm.answering import Reason
from situate.vm.backends import MACHINES
from situate.vm.explaining.pods import explain_pod
from situate.vm.kubevirt.names import INSTANCES

_NAMESPACE = "default"
_TYPES = (
    POD,
    ObjectType("VirtualMachine", "virtualmachines", MACHINES.group, ("vm", "vms")),
    ObjectType("VirtualMachine", "virtualmachines", INSTANCES.group, ("vm", "vms")),
    ObjectType("VirtualMachineInstance", "virtualmachineinstances", INSTANCES.group, ("vmi", "vmis")),
)
"""A VirtualMachine of KubeVirt has the name of its instance."""
_MOVES = (
    Column("machine"),
    Column("to"),
    Column("state"),
    Column("copied", right=True),
    Column("cost", right=True),
)
_REASONS = {
    Reason.NO_ROOM.value: "its node has no room for it",
    Reason.CLAIMED_BY_OTHERS.value: "what room its node has is kept for others",
    Reason.FROZEN.value: "it is being moved",
    Reason.STARTING.value: "the scheduler has just begun",
}
_ALTERNATIVES = (Column("way"), Column("cost", right=True), Column("why not"))


def _machines(ctx: typer.Context, incomplete: str) -> list[str]:
    first, slash, _ = incomplete.partition("/")
    types = _TYPES if slash and POD.called(first) else _TYPES[1:]
    return complete_objects(ctx, incomplete, lambda: [(each, "v1") for each in types])


def explain(
    pod: Annotated[
        str,
        typer.Argument(
            help="A pod or a VirtualMachine: NAME, NAMESPACE/NAME, or TYPE/NAME as pod/web, vm/db.",
            autocompletion=_machines,
        ),
    ],
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Where it is, unless it says so itself; default: default.",
            autocompletion=complete_namespaces,
        ),
    ] = None,
    file: OptionalFileOption = None,
    installation: InstallationOption = "situate",
    assignments: SetOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Say what a pod is short of and why, who waits beside it, what moves for it, and what would help.

    It is worked out from the cluster's objects; who waits since when is known to the leader alone, which tells it at
    GET /explain/pod/NAMESPACE/NAME of its permit port.
    """
    with mendable_failures():
        meant = readings(pod, namespace, _TYPES)
        observed = observe(file, assignments, Where(kubeconfig, context, installation))
        told = next((found for each in meant if (found := _told(observed, each)) is not None), None)
        if told is None:
            for remark in observed.remarks:  # what cannot be read may be just this
                complain(remark)
            require_explained(pod, _TYPES)
            raise WrongInput(_absent(observed, meant[-1].namespace or _NAMESPACE, meant[-1].name))
    if output in (Format.JSON, Format.YAML):
        print_data(told, output)
        return
    for remark in observed.remarks:
        complain(remark)
    _print(told, output)


def _told(observed: Observed, meant: ObjectName) -> dict[str, Any] | None:
    """None: there is no such pod or machine."""
    namespace = meant.namespace or _NAMESPACE
    name = _pod_name(observed, meant, namespace)
    if name:
        return explain_pod(decided(observed.state), namespace, name, observed.now, observed.rules)
    for each in observed.unplaced:
        names = [each.pod if meant.type is POD else each.machine] if meant.type else [each.machine, each.pod]
        if each.namespace == namespace and meant.name in names:
            return each.as_data()
    return None


def _pod_name(observed: Observed, meant: ObjectName, namespace: str) -> str:
    """Of the pod on a node, or of the one that runs the machine; empty where there is none."""
    placed = [pod for node in observed.state.nodes.values() for pod in node.pods.values()]
    there = [pod for pod in placed if pod.ref.namespace == namespace]
    if meant.type in (None, POD) and any(pod.ref.name == meant.name for pod in there):
        return meant.name
    runs = [pod for pod in there if pod.machine is not None and pod.machine.ref.name == meant.name]
    if meant.type is POD or not runs:
        return ""
    return next((pod for pod in runs if pod.migrating), runs[0]).ref.name


def _absent(observed: Observed, namespace: str, name: str) -> str:
    pods = [pod for node in observed.state.nodes.values() for pod in node.pods.values()]
    known = sorted({pod.machine.ref.name for pod in pods if pod.machine is not None and pod.ref.namespace == namespace})
    there = f"; machines there: {', '.join(known[:10])}{', …' if len(known) > 10 else ''}" if known else ""
    absent = f"{namespace}/{name}: neither a pod nor a VirtualMachine of this name is on a node that is known{there}"
    return f"{absent}; why a pod gets no node is told by: situate scheduler explain POD -n {namespace}"


def _print(told: dict[str, Any], form: Format) -> None:
    for line in _sentences(told):
        say(line)
    plan = told.get("plan", {"moves": (), "alternatives": ()})
    if plan["moves"]:
        say()
        rows = [
            (
                each["vm"],
                each["target"],
                each["state"],
                "-" if each["progress"] is None else f"{each['progress']:.0%}",
                _cost(each["cost"]),
            )
            for each in plan["moves"]
        ]
        print_table(_MOVES, rows, form)
    if plan["alternatives"]:
        say()
        ways = [(each["kind"], _cost(each["cost"]), each["whyNot"]) for each in plan["alternatives"]]
        print_table(_ALTERNATIVES, ways, form)


def _sentences(told: dict[str, Any]) -> Iterator[str]:
    if told["node"] is None:
        yield f"{told['namespace']}/{told['machine'] or told['pod']} has no node"
        yield f"  {told['why']}"
        if told["pod"]:
            yield f"  what each node says of it: situate scheduler explain {told['pod']} -n {told['namespace']}"
        return
    yield f"{told['pod']} on node {told['node']}"
    yield f"  holds {_amounts(told['reserved'])} and asks for {_amounts(told['requested'])}"
    if "evacuation" in told:
        yield f"  its pod was to be evicted: {told['evacuation']}"
    if "maximum" in told:
        yield f"  its own maximum is {_amounts(told['maximum'])}: beyond that nothing is granted"
    if "refused" in told:
        why = told["refused"]
        yield f"  its wish for another size is not attempted: {why['message']} ({why['reason']})"
    if "putOff" in told:
        yield f"  its kubelet has put the resize off: it finds no room for {_some(told['putOff'])} of that yet"
    short = _some(told["shortBy"])
    if not short:
        if told["reason"] == Reason.FROZEN.value:
            yield "  it is being moved, and keeps its size until that is over"
        elif not told.keys() & {"refused", "putOff"}:
            yield "  it has what it asks for" if "maximum" not in told else "  it has what it may have"
        return
    free = _some(told.get("free", {}))
    yield f"  short by {short}" + ("" if free == short else f": {_REASONS.get(told['reason'], told['reason'])}")
    if free:
        what = "that" if free == short else f"{free} of that"
        yield f"  {what} is free, and granted with the next look of whoever leads"
    queue, room = told["queue"], told["room"]
    if queue["position"] is not None:
        ahead = f", ahead of {', '.join(queue['aheadOf'])}" if queue["aheadOf"] else ""
        yield f"  number {queue['position']} of those who wait on the node{ahead}"
    yield f"  the node has {_amounts(room['total'])}, of which {_amounts(room['reserved'])} are booked"
    for held in room["held"]:
        way = f"held for {held['for']} (claim {held['claim']})" if held["claim"] else f"saved up for {held['for']}"
        yield f"  {_amounts(held['amount'])} of it are {way}"
    if any(amount != "0" for amount in room["incoming"].values()):
        yield f"  {_amounts(room['incoming'])} of it are reserved for machines that come"
    if told["eta"] is not None:
        yield f"  room is expected by {told['eta']}, once the moves below are over"
    for change in told["wouldHelp"]:
        yield f"  would help: {change}"


def _cost(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.0f} s"


def _some(amounts: dict[str, str]) -> str:
    """Of what there is any of."""
    return _amounts({name: amount for name, amount in amounts.items() if amount != "0"})


def _amounts(amounts: dict[str, str]) -> str:
    """`2 cpu, 8Gi memory`."""
    return ", ".join(f"{amount} {name}" for name, amount in amounts.items())
