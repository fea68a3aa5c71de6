"""Entries of the ledger that say only what matters: pods and nodes of CPU, in cores, with as many GiB of memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from situate.vm.model.node_accounting import recount
from situate.vm.model.pods_and_nodes import Machine, Node, Pod, Ref, Role
from situate.vm.model.resource_amounts import Amounts

GIB = 2**30


def amounts(cores: float) -> Amounts:
    return Amounts.from_values(round(cores * 1000), round(cores * GIB))


def pod(uid: str, cores: float = 1, wants: float | None = None, role: Role | None = None, **more: Any) -> Pod:
    """A plain pod; with a role a machine of ours that may be moved. Its unit is a quarter."""
    if role is not None:
        machine = Machine(Ref("default", f"vm-{uid}"), autoscaled=True, role=role, migratable=role is not Role.TARGET)
        more.setdefault("machine", machine)
    return Pod(
        ref=Ref("default", uid, uid),
        reserved=amounts(cores),
        requested=amounts(cores if wants is None else wants),
        used=amounts(cores),
        factor=more.pop("factor", amounts(0.25)),
        overcommit=more.pop("overcommit", Amounts.from_values(1000, 1000)),
        **more,
    )


def node(cores: float = 10, pods: Iterable[Pod] = (), watermark: float = 0.8, **more: Any) -> Node:
    nothing = Amounts.zero()
    entry = Node(
        more.pop("name", "n1"),
        amounts(cores),
        amounts(cores * watermark),
        nothing,
        nothing,
        nothing,
        pods={each.uid: each for each in pods},
        **more,
    )
    return recount(entry)
