"""Reading neon's cases: nodes and pods with an amount a resource, in compatible mode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from situate.vm.model.pods_and_nodes import Machine, Node, Pod, Ref, Role
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts, total

Json = Any
RESOURCES: Final = ("cpu_milli", "mem_bytes")
_USUAL_POD: Final = {"factor": 0, "overcommit_milli": 1000}
"""What a case does not say of a pod's resource."""
COMPAT: Final = Rules(scheduler_name="autoscale-scheduler", compat=True)


def pod(wire: Mapping[str, Json], name: str = "") -> Pod:
    """One that may move, or moves, is a machine of ours."""
    rows = [{"requested": wire[each]["reserved"], **_USUAL_POD, **wire[each]} for each in RESOURCES]
    migrating, migratable = bool(wire.get("migrating")), bool(wire.get("migratable"))
    machine = Machine(
        Ref("default", f"vm of {wire['uid']}"),
        role=Role.SOURCE if migrating else Role.IDLE,
        migratable=migratable or migrating,
        autoscaled=True,
    )
    reserved = amounts_of(rows, "reserved")
    return Pod(
        ref=Ref("default", name or wire["uid"], wire["uid"]),
        reserved=reserved,
        requested=amounts_of(rows, "requested"),
        used=reserved,
        factor=amounts_of(rows, "factor"),
        overcommit=amounts_of(rows, "overcommit_milli"),
        created_at=_moment(wire.get("created_at", 0)),
        machine=machine,
    )


def _moment(value: Json) -> float:
    return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else float(value)


def node(wire: Mapping[str, Json], pods: Iterable[Pod] = ()) -> Node:
    """With the sums that the case gives, of which the pods are a part."""
    rows = [
        {"watermark": wire[each]["total"], "committed": wire[each]["reserved"], "migrating": 0, **wire[each]}
        for each in RESOURCES
    ]
    return Node(
        name=wire.get("name", "node"),
        total=amounts_of(rows, "total"),
        watermark=amounts_of(rows, "watermark"),
        reserved=amounts_of(rows, "reserved"),
        committed=amounts_of(rows, "committed"),
        migrating=amounts_of(rows, "migrating"),
        pods={each.uid: each for each in pods},
    )


def node_of_pods(wire: Mapping[str, Json], pods: Iterable[Pod]) -> Node:
    """Its pods are all that it has: their sums must be those of the case."""
    made = node(wire, pods)
    counted = total(each.counted_amount(each.reserved) for each in made.pods.values())
    if counted != made.reserved:
        raise ValueError(f"the pods of node {made.name} reserve {counted}, the case says {made.reserved}")
    return replace(
        made, migrating=total(each.counted_amount(each.reserved) for each in made.pods.values() if each.migrating)
    )


def with_rest(wire: Mapping[str, Json], pods: Iterable[Pod]) -> Node:
    """What is reserved beyond the pods that the case names belongs to one that stays."""
    named = list(pods)
    rest = node(wire).reserved - total(each.counted_amount(each.reserved) for each in named)
    if not any(rest):
        return node_of_pods(wire, named)
    nothing = Amounts.zero()
    others = Pod(Ref("default", "others", ""), rest, rest, rest, nothing, Amounts.from_values(1000, 1000))
    return node_of_pods(wire, [*named, others])


def node_value(of: Node) -> dict[str, dict[str, int]]:
    """As the cases write it."""
    fields = ("total", "reserved", "committed", "watermark", "migrating")
    return {
        resource: {field: getattr(of, field)[number] for field in fields} for number, resource in enumerate(RESOURCES)
    }


def pod_amounts(of: Pod) -> dict[str, dict[str, int]]:
    columns = {
        "reserved": of.reserved,
        "requested": of.requested,
        "factor": of.factor,
        "overcommit_milli": of.overcommit,
    }
    return {
        resource: {field: amounts[number] for field, amounts in columns.items()}
        for number, resource in enumerate(RESOURCES)
    }


def pod_value(of: Pod) -> dict[str, Json]:
    return {
        "uid": of.uid,
        "created_at": int(of.created_at),
        "migratable": of.migratable,
        "migrating": of.migrating,
        **pod_amounts(of),
    }


def amounts_of(rows: Iterable[Mapping[str, int]], field: str) -> Amounts:
    return Amounts(tuple(row[field] for row in rows))


def listed(name: str) -> Any:
    """Cases that stand in a list of that name."""
    return lambda document: document.get(name, [])


def tagged(*names: str) -> Any:
    """Cases of several lists, each told which list it is of."""
    return lambda document: [{"list": name, **case} for name in names for case in document.get(name, [])]
