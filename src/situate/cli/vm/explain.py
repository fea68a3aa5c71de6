"""Implement `situate vm explain`: why a VM or a Pod has less than it requests, and which changes would help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from situate.cli.input.cluster_names import complete_objects
from situate.cli.input.object_names import POD, ObjectName, ObjectType, possible_names, require_explained_type
from situate.cli.read_cluster.cluster_source import default_namespace
from situate.cli.terminal.failures import ExitCode, WrongInput, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.options import InstallationOptions
from situate.cli.terminal.output import Column, print_answer, print_items
from situate.cli.terminal.streams import print_error, print_line
from situate.cli.vm.read_cluster import VmClusterState, as_started, observe, read_settings
from situate.vm.backends.kubevirt_names import INSTANCES
from situate.vm.backends.neonvm import MACHINES
from situate.vm.explain.pods import explain_pod
from situate.vm.protocol.permit import PermitReason

_TYPES = (
    POD,
    ObjectType("VirtualMachine", "virtualmachines", MACHINES.group, ("vm", "vms")),
    ObjectType("VirtualMachine", "virtualmachines", INSTANCES.group, ("vm", "vms")),
    ObjectType("VirtualMachineInstance", "virtualmachineinstances", INSTANCES.group, ("vmi", "vmis")),
)
"""Types of objects. A VirtualMachine of KubeVirt has the name of its instance."""
_MOVES = (
    Column("machine", "vm"),
    Column("to", "target"),
    Column("state"),
    Column("copied", lambda each: "-" if each["progress"] is None else f"{each['progress']:.0%}", right=True),
    Column("cost", lambda each: _cost_text(each["cost"]), right=True),
)
_REASONS = {
    PermitReason.NO_ROOM.value: "its node has too little free capacity",
    PermitReason.CLAIMED_BY_OTHERS.value: "the free capacity of its node is reserved for others",
    PermitReason.FROZEN.value: "it is being moved",
    PermitReason.STARTING.value: "the scheduler has just started",
}
_ALTERNATIVES = (
    Column("way", "kind"),
    Column("cost", lambda each: _cost_text(each["cost"]), right=True),
    Column("why-not", "whyNot"),
)


def complete_machines(ctx: typer.Context, incomplete: str) -> list[str]:
    first, slash, _ = incomplete.partition("/")
    types = _TYPES if slash and POD.is_named(first) else _TYPES[1:]
    return complete_objects(ctx, incomplete, lambda: [(each, "v1") for each in types])


def show(name: str, where: InstallationOptions, namespace: str | None, output: Format) -> None:
    """Print the explanation; exit with 1 if the VM or Pod has less than it requests, or no node."""
    with report_failures():
        settings = read_settings(where)
        meant = possible_names(name, namespace, _TYPES)
        default = default_namespace(where, namespace)
        observed = observe(settings, where)
        told = next((found for each in meant if (found := _explain_object(observed, each, default)) is not None), None)
        if told is None:
            for remark in observed.remarks:  # an unreadable object may be the missing one
                print_error(remark)
            require_explained_type(name, _TYPES)
            raise WrongInput(_absence_message(observed, meant[-1].namespace or default, meant[-1].name))
    print_answer(output, lambda: told, lambda: _print(told, output), observed.remarks)
    if _is_short(told):
        raise typer.Exit(ExitCode.NO)


def _is_short(told: dict[str, Any]) -> bool:
    """Return whether it has less than it requests, or no node."""
    if told["node"] is None or told.keys() & {"refused", "putOff"}:
        return True
    return any(amount != "0" for amount in told["shortBy"].values())


def _explain_object(observed: VmClusterState, meant: ObjectName, default: str) -> dict[str, Any] | None:
    """Return the explanation; None if there is no such Pod or VM."""
    namespace = meant.namespace or default
    name = _pod_name(observed, meant, namespace)
    if name:
        return explain_pod(as_started(observed.state), namespace, name, observed.now, observed.rules)
    for each in observed.unplaced_objects:
        names = [each.pod if meant.type is POD else each.machine] if meant.type else [each.machine, each.pod]
        if each.namespace == namespace and meant.name in names:
            return each.as_data()
    return None


def _pod_name(observed: VmClusterState, meant: ObjectName, namespace: str) -> str:
    """Return the name of the Pod on a node, or of the Pod that runs the VM; empty if there is none."""
    placed = [pod for node in observed.state.nodes.values() for pod in node.pods.values()]
    there = [pod for pod in placed if pod.ref.namespace == namespace]
    if meant.type in (None, POD) and any(pod.ref.name == meant.name for pod in there):
        return meant.name
    runs = [pod for pod in there if pod.machine is not None and pod.machine.ref.name == meant.name]
    if meant.type is POD or not runs:
        return ""
    return next((pod for pod in runs if pod.migrating), runs[0]).ref.name


def _absence_message(observed: VmClusterState, namespace: str, name: str) -> str:
    pods = [pod for node in observed.state.nodes.values() for pod in node.pods.values()]
    known = sorted({pod.machine.ref.name for pod in pods if pod.machine is not None and pod.ref.namespace == namespace})
    there = f"; VMs there: {', '.join(known[:10])}{', …' if len(known) > 10 else ''}" if known else ""
    absent = f"{namespace}/{name}: no Pod or VirtualMachine of this name is on a known node{there}"
    return f"{absent}; why a Pod has no node: situate scheduler explain POD -n {namespace}"


def _print(told: dict[str, Any], form: Format) -> None:
    for line in _sentences(told):
        print_line(line)
    plan = told.get("plan", {"moves": (), "alternatives": ()})
    if plan["moves"]:
        print_line()
        print_items(_MOVES, plan["moves"], form)
    if plan["alternatives"]:
        print_line()
        print_items(_ALTERNATIVES, plan["alternatives"], form)


def _sentences(told: dict[str, Any]) -> Iterator[str]:
    if told["node"] is None:
        yield f"{told['namespace']}/{told['machine'] or told['pod']} has no node"
        yield f"  {told['why']}"
        if told["pod"]:
            yield f"  the reason for each node: situate scheduler explain {told['pod']} -n {told['namespace']}"
        return
    yield f"{told['pod']} on node {told['node']}"
    yield f"  holds {_amounts_text(told['reserved'])} and asks for {_amounts_text(told['requested'])}"
    if "evacuation" in told:
        yield f"  its Pod was to be evicted: {told['evacuation']}"
    if "maximum" in told:
        yield f"  its own maximum is {_amounts_text(told['maximum'])}; nothing above it is granted"
    if "refused" in told:
        why = told["refused"]
        yield f"  its resize request is refused: {why['message']} ({why['reason']})"
    if "putOff" in told:
        yield (
            f"  its kubelet has deferred the resize: it has no capacity for {_nonzero_text(told['putOff'])} of that yet"
        )
    short = _nonzero_text(told["shortBy"])
    if not short:
        if told["reason"] == PermitReason.FROZEN.value:
            yield "  it is being moved, and keeps its size until that is over"
        elif not told.keys() & {"refused", "putOff"}:
            yield "  it has all that it asks for" if "maximum" not in told else "  it has all that it may have"
        return
    free = _nonzero_text(told.get("free", {}))
    yield f"  short by {short}" + ("" if free == short else f": {_REASONS.get(told['reason'], told['reason'])}")
    if free:
        what = "that" if free == short else f"{free} of that"
        yield f"  {what} is free; the leader grants it next"
    queue, room = told["queue"], told["room"]
    if queue["position"] is not None:
        ahead = f", ahead of {', '.join(queue['aheadOf'])}" if queue["aheadOf"] else ""
        yield f"  number {queue['position']} in the queue of the node{ahead}"
    yield f"  the node has {_amounts_text(room['total'])}, of which {_amounts_text(room['reserved'])} are reserved"
    for held in room["held"]:
        claim = f" (claim {held['claim']})" if held["claim"] else ""
        yield f"  {_amounts_text(held['amount'])} of it are held for {held['for']}{claim}"
    if any(amount != "0" for amount in room["incoming"].values()):
        yield f"  {_amounts_text(room['incoming'])} of it are reserved for incoming VMs"
    if told["eta"] is not None:
        yield f"  the capacity is expected by {told['eta']}, after the moves below"
    for change in told["wouldHelp"]:
        yield f"  would help: {change}"


def _cost_text(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.0f} s"


def _nonzero_text(amounts: dict[str, str]) -> str:
    """Return the amounts other than zero."""
    return _amounts_text({name: amount for name, amount in amounts.items() if amount != "0"})


def _amounts_text(amounts: dict[str, str]) -> str:
    """Return text such as `2 cpu, 8Gi memory`."""
    return ", ".join(f"{amount} {name}" for name, amount in amounts.items())
