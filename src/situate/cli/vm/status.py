"""Implement `situate vm status`: reserved and held capacity of nodes, requests of VMs, and moves with beneficiaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from situate.cli.read_cluster.cluster_source import listed_namespace
from situate.cli.read_cluster.other_namespaces import report_other_namespaces
from situate.cli.terminal.failures import report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.options import InstallationOptions, ListedNamespaces
from situate.cli.terminal.output import Column, print_answer, print_items, print_table
from situate.cli.terminal.streams import print_line
from situate.cli.terminal.watch import show_status
from situate.cli.vm.read_cluster import VmClusterState, observe, read_settings
from situate.objects.values.counts import format_count
from situate.vm.api.quantities import cpu_value, memory_value
from situate.vm.model.migrations import Claim, Move
from situate.vm.model.pods_and_nodes import Node, Phase, Pod, Role
from situate.vm.model.resource_amounts import RESOURCES, Amounts
from situate.vm.model.state import LedgerState

_NODES = (
    Column("node"),
    Column("resource"),
    Column("total", right=True),
    Column("watermark", right=True),
    Column("reserved", right=True),
    Column("held", right=True),
    Column("incoming", right=True),
    Column("free", right=True),
    Column("committed", right=True, wide=True),
    Column("migrating", right=True, wide=True),
    Column("pods", right=True),
    Column("state"),
)
_MACHINES = (
    Column("machine"),
    Column("node"),
    Column("uses", right=True),
    Column("requested", right=True),
    Column("approved", right=True),
    Column("short", right=True),
    Column("state"),
    Column("pod", wide=True),
)
_PODS = (
    Column("pod", lambda each: f"{each['namespace']}/{each['name']}"),
    Column("node"),
    Column("uses", lambda each: amounts_text(each["uses"]), right=True),
    Column("requested", lambda each: amounts_text(each["requested"]), right=True),
    Column("short", lambda each: amounts_text(each["short"]), right=True),
)
_MOVES = (
    Column("machine", lambda each: f"{each['namespace']}/{each['machine']}"),
    Column("from", lambda each: each["from"] or "-"),
    Column("to", lambda each: each["to"] or "-"),
    Column("state"),
    Column("copied", lambda each: "-" if each["copied"] is None else f"{each['copied']:.0%}", right=True),
    Column("for", lambda each: _claim_text(each, _beneficiary)),
    Column("room", lambda each: _claim_text(each, lambda claim: amounts_text(claim["amount"])), right=True),
    Column("claim", lambda each: _claim_text(each, lambda claim: f"{claim['id']} ({claim['state']})"), wide=True),
)


def show(where: InstallationOptions, namespaces: ListedNamespaces, output: Format, *, watch: bool) -> None:
    """Print the status, with `watch` again at each change."""

    def once() -> None:
        with report_failures():
            settings = read_settings(where)
            listed = listed_namespace(where, namespaces)
            observed = observe(settings, where)
        everything = _as_data(observed)
        told = _data_of_namespace(everything, listed)
        print_answer(output, lambda: told, lambda: _print(told, everything, listed, output), observed.remarks)

    show_status(once, output, watch=watch)


def _data_of_namespace(told: dict[str, Any], listed: str | None) -> dict[str, Any]:
    """Return the VMs, Pods and moves of one namespace, and all nodes. None: of all namespaces."""
    if listed is None:
        return told
    parts = ("machines", "pods", "withoutNode", "moves")
    return told | {part: [each for each in told[part] if each["namespace"] == listed] for part in parts}


def _as_data(observed: VmClusterState) -> dict[str, Any]:
    """Return the data of all namespaces."""
    state = observed.state
    lease = observed.lease
    pods = [(pod, node.name) for node in state.nodes.values() for pod in node.pods.values()]
    pods.sort(key=_sort_key)
    return {
        "leader": lease.spec.holder_identity if lease is not None else "",
        "schedulerName": observed.rules.scheduler_name,
        "nodes": [_node_data(state.nodes[name], observed) for name in sorted(state.nodes)],
        "machines": [_machine_data(pod, node, observed) for pod, node in pods if pod.machine is not None],
        "pods": [
            _short_pod_data(pod, node, observed)
            for pod, node in pods
            if pod.machine is None and pod.requested.exceeds(pod.reserved)
        ],
        "withoutNode": [each.as_data() for each in observed.unplaced_objects if each.machine],
        "moves": moves_as_data(observed, None),
        "remarks": list(observed.remarks),
    }


def _sort_key(each: tuple[Pod, str]) -> tuple[str, str, bool, str]:
    """Return the sort key: the VM, and of its two Pods in a move the source first. Pod names end at random."""
    pod, _ = each
    machine = pod.machine
    name = pod.ref.name if machine is None else machine.ref.name
    return pod.ref.namespace, name, machine is not None and machine.role is Role.TARGET, pod.ref.name


def _node_data(node: Node, observed: VmClusterState) -> dict[str, Any]:
    state = observed.state
    parts = {
        "total": node.total,
        "watermark": node.watermark,
        "reserved": node.reserved,
        "held": state.held_for_others(node.name, ""),
        "incoming": state.incoming_amount(node.name, ""),
        "free": state.available(node.name, ""),
        "committed": node.committed,
        "migrating": node.migrating,
    }
    return {
        "node": node.name,
        **{name: _quantities(amounts, observed) for name, amounts in parts.items()},
        "pods": len(node.pods),
        "overBudget": node.over_budget,
        "overWatermark": node.reserved.exceeds(node.watermark),
        "draining": node.draining,
    }


def _machine_data(pod: Pod, node: str, observed: VmClusterState) -> dict[str, Any]:
    machine = pod.machine
    assert machine is not None
    return {
        "namespace": machine.ref.namespace,
        "name": machine.ref.name,
        "pod": pod.ref.name,
        "node": node,
        "own": machine.own,
        "autoscaled": machine.autoscaled,
        "migratable": machine.migratable,
        "role": machine.role.value,
        "frozen": machine.phase is Phase.FROZEN,
        "uses": _quantities(pod.used, observed),
        "requested": _quantities(pod.requested, observed),
        "approved": _quantities(pod.reserved, observed) if pod.approved else None,
        "booked": _quantities(pod.counted_amount(pod.reserved), observed),
        "short": _quantities((pod.requested - pod.reserved).positive_part(), observed),
    }


def _short_pod_data(pod: Pod, node: str, observed: VmClusterState) -> dict[str, Any]:
    """Return a plain Pod that requests a larger size."""
    return {
        "namespace": pod.ref.namespace,
        "name": pod.ref.name,
        "node": node,
        "uses": _quantities(pod.used, observed),
        "requested": _quantities(pod.requested, observed),
        "booked": _quantities(pod.counted_amount(pod.reserved), observed),
        "short": _quantities((pod.requested - pod.reserved).positive_part(), observed),
    }


def moves_as_data(observed: VmClusterState, namespace: str | None) -> list[dict[str, Any]]:
    """Return the moves in progress, the oldest first; if `namespace` is None, of all VMs."""
    moves = sorted(observed.state.moves.values(), key=lambda each: (each.created_at, each.key))
    return [_move_data(each, observed) for each in moves if namespace in (None, each.machine.namespace)]


def _move_data(move: Move, observed: VmClusterState) -> dict[str, Any]:
    claim = observed.state.claims.get(move.claim)
    progress = move.progress
    return {
        "namespace": move.machine.namespace,
        "machine": move.machine.name,
        "migration": move.name,
        "from": move.source_node,
        "to": move.target_node,
        "state": move.stage.value,
        "copied": round(1 - progress.remaining / progress.total, 3)
        if progress is not None and progress.total
        else None,
        "foreign": move.foreign,
        "claim": None if claim is None else _claim_data(claim, observed),
    }


def _claim_data(claim: Claim, observed: VmClusterState) -> dict[str, Any]:
    return {
        "id": claim.id,
        "node": claim.node,
        "state": claim.state.value,
        "broken": claim.broken,
        "for": {"kind": claim.beneficiary.kind.value, "name": str(claim.beneficiary.ref)}
        | {"machine": machine_name(observed.state, claim.beneficiary.ref.uid)},
        "amount": _quantities(claim.amount, observed),
        "secondsLeft": round(claim.deadline - observed.now),
    }


def machine_name(state: LedgerState, uid: str) -> str | None:
    """Return `namespace/name` of the VM that the Pod runs; None for every other Pod."""
    pod = state.pod(uid)
    return None if pod is None or pod.machine is None else str(pod.machine.ref)


def _quantities(amounts: Amounts, observed: VmClusterState) -> dict[str, str]:
    """Return the amounts as Kubernetes quantities."""
    names = observed.rules.resources
    return {
        name: str(cpu_value(amount) if name == RESOURCES[0] else memory_value(amount))
        for name, amount in zip(names, amounts, strict=True)
    }


def _machine_names(told: dict[str, Any]) -> set[tuple[str, str]]:
    """Return the names of the VMs, because a moving VM has two Pods."""
    names = {(each["namespace"], each["name"]) for each in told["machines"]}
    return names | {(each["namespace"], each["machine"]) for each in told["withoutNode"]}


def _print(told: dict[str, Any], everything: dict[str, Any], listed: str | None, form: Format) -> None:
    """Print the status. The sums are those of all namespaces."""
    led = f"led by {told['leader']}" if told["leader"] else "no leader"
    nowhere = told["withoutNode"]
    short = (each for each in everything["machines"] if any(amount != "0" for amount in each["short"].values()))
    waiting = len({(each["namespace"], each["name"]) for each in short})
    count = format_count(len(_machine_names(everything)), "VM")
    ask = "they ask" if waiting > 1 or (not waiting and len(_machine_names(everything)) != 1) else "it asks"
    lost = f", {len(everything['withoutNode'])} without a node" if everything["withoutNode"] else ""
    plain = len(everything["pods"])
    lost += f"; {format_count(plain, 'Pod is', 'Pods are')} short of a larger size" if plain else ""
    print_line(f"{told['schedulerName']}: {count}, {waiting or 'none'} short of the size that {ask} for{lost}; {led}")
    if told["nodes"]:
        print_table(_NODES, [row for each in told["nodes"] for row in _node_rows(each)], form)
    if told["machines"] or nowhere:
        print_line()
        rows = [_machine_row(each) for each in told["machines"]]
        print_table(_MACHINES, [*rows, *(_unplaced_row(each) for each in nowhere)], form)
    if told["pods"]:
        print_line()
        print_items(_PODS, told["pods"], form)
    if told["moves"]:
        print_line()
        print_items(_MOVES, told["moves"], form)
    report_other_namespaces(len(_machine_names(everything)) - len(_machine_names(told)), "VM", listed)


def _node_rows(each: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    """Return one line for each resource."""
    states = [word for word in ("overBudget", "overWatermark", "draining") if each[word]]
    words = {"overBudget": "over budget", "overWatermark": "over watermark", "draining": "draining"}
    columns = ("total", "watermark", "reserved", "held", "incoming", "free", "committed", "migrating")
    for number, name in enumerate(each["total"]):
        amounts = [short_amount(each[column][name]) for column in columns]
        last = (each["pods"], ", ".join(words[state] for state in states) or "-") if not number else ("", "")
        yield (each["node"] if not number else "", name, *amounts, *last)


def _machine_row(each: dict[str, Any]) -> tuple[object, ...]:
    short = {name: amount for name, amount in each["short"].items() if amount != "0"}
    state = "moving away" if each["role"] == "source" else "arriving" if each["role"] == "target" else ""
    state = state or ("frozen" if each["frozen"] else "" if each["autoscaled"] else "not autoscaled")
    return (
        f"{each['namespace']}/{each['name']}",
        each["node"],
        amounts_text(each["uses"]),
        amounts_text(each["requested"]),
        "-" if each["approved"] is None else amounts_text(each["approved"]),
        amounts_text(short) if short else "-",
        state or "-",
        each["pod"],
    )


def _unplaced_row(each: dict[str, Any]) -> tuple[object, ...]:
    state = "waits for a node" if each["pod"] else "has no pod"
    return (f"{each['namespace']}/{each['machine']}", *("-",) * 5, state, each["pod"] or "-")


def _claim_text(move: dict[str, Any], text: Callable[[dict[str, Any]], str]) -> str:
    return "-" if move["claim"] is None else text(move["claim"])


def _beneficiary(claim: dict[str, Any]) -> str:
    return str(claim["for"]["machine"] or claim["for"]["name"])


def amounts_text(amounts: dict[str, str]) -> str:
    """Return `2 4Gi`: CPUs and memory, and other resources with their name; amounts of zero are left out."""
    named = ((name, short_amount(amount)) for name, amount in amounts.items() if amount != "0")
    return " ".join(amount if name in RESOURCES else f"{amount} {name}" for name, amount in named) or "0"


def short_amount(amount: str) -> str:
    """Return a short form: thousandths as a fraction, and large numbers of bytes rounded."""
    if amount.endswith("m"):
        return f"{int(amount[:-1]) / 1000:g}"
    large = amount.isdigit() and int(amount) >= 2**20
    return f"{int(amount) / 2**30:.1f}Gi" if large else amount
