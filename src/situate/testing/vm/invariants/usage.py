"""Amounts that VMs and pods use, may use or request, by the cluster's objects: the measure for the ledger.

It shares nothing with the ledger but the objects. A VM counts with the amount that it uses or that its agent may use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from situate.testing.vm.invariants.objects import (
    ACTIVE_PHASES,
    FROZEN,
    Obj,
    annotation_of,
    divide_by_overcommit,
    is_target,
    name_of,
    owner_of,
    parse_amounts,
    phase_of,
    to_bytes,
    total_of,
)
from situate.testing.vm.world.agents import Agents, milli, spec_usage
from situate.testing.vm.world.history_world import IGNORED_NAMESPACE, VmHistoryWorld
from situate.testing.vm.world.processes import MACHINE_TABLE, MIGRATION_TABLE
from situate.vm.api.well_known import APPROVED, REQUESTED, TARGET_NODE
from situate.vm.model.resource_amounts import Amounts

_NOTHING: Final = Amounts.zero()


class UsageCounter:
    """The amounts of one history."""

    def __init__(self, place: VmHistoryWorld, agents: Agents) -> None:
        self._world = place
        self._agents = agents

    def table(self, name: str) -> Iterator[Obj]:
        return self._world.objects(name)

    def machines(self) -> dict[str, Obj]:
        return {each["metadata"]["name"]: each for each in self.table(MACHINE_TABLE)}

    def permitted_amount(self, machine: Obj) -> Amounts:
        """Return the amount that the VM uses, or may use by its agent's permit."""
        status = machine.get("status") or {}
        use = spec_usage(machine)
        if status.get("cpus") is not None and status.get("memorySize") is not None:
            use = use.maximum(Amounts.from_values(milli(status["cpus"]), to_bytes(str(status["memorySize"]))))
        agent = self._agents.by_name.get(machine["metadata"]["name"])
        acts = agent is not None and agent.uid == machine["metadata"]["uid"] and agent.pod == status.get("podName")
        return use.maximum(agent.permit) if agent is not None and acts else use

    def counted_amount(self, pod: Obj, machines: Mapping[str, Obj]) -> Amounts:
        """Return the pod's amount on its node. It is zero if the pod has ended or its VM has left it."""
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return _NOTHING
        name = owner_of(pod)
        if not name:
            asked = [each.get("resources", {}).get("requests", {}) for each in pod["spec"]["containers"]]
            cpus = sum(milli(each.get("cpu", 0)) for each in asked)
            return Amounts.from_values(cpus, sum(to_bytes(str(each.get("memory", 0))) for each in asked))
        machine = machines.get(name)
        if machine is None:
            return _NOTHING
        status = machine.get("status") or {}
        if status.get("podName") != name_of(pod) and (phase_of(machine) not in FROZEN or not is_target(pod)):
            return _NOTHING
        return divide_by_overcommit(self.permitted_amount(machine), machine)

    def sums_by_node(self, machines: Mapping[str, Obj]) -> dict[str, Amounts]:
        """Return the sums by node. Pods of an ignored namespace do not count (C28)."""
        found: dict[str, Amounts] = {}
        for pod in self.table("pods"):
            node = pod["spec"].get("nodeName", "")
            if node and pod["metadata"]["namespace"] != IGNORED_NAMESPACE:
                found[node] = found.get(node, _NOTHING) + self.counted_amount(pod, machines)
        return found

    def demand_by_node(self, machines: Mapping[str, Obj]) -> dict[str, Amounts]:
        """Return an upper bound of the reserved amounts by node.

        It sums all amounts requested on the node or possibly on their way to it.
        """
        found: dict[str, Amounts] = {}
        anywhere = _NOTHING
        for pod in self.table("pods"):
            if pod["metadata"]["namespace"] == IGNORED_NAMESPACE:
                continue
            if node := pod["spec"].get("nodeName", ""):
                found[node] = found.get(node, _NOTHING) + self._demanded_amount(pod, machines)
            else:
                anywhere += self._demanded_amount(pod, machines)
        for each in self.table(MIGRATION_TABLE):
            mover, target = machines.get(each["spec"]["vmName"]), annotation_of(each, TARGET_NODE)
            if mover is not None and target:
                found[target] = found.get(target, _NOTHING) + self._maximum_amount(mover)
        return {node: amount + anywhere for node, amount in found.items()}

    def _demanded_amount(self, pod: Obj, machines: Mapping[str, Obj]) -> Amounts:
        machine = machines.get(owner_of(pod))
        return self.counted_amount(pod, machines) if machine is None else self._maximum_amount(machine)

    def _maximum_amount(self, machine: Obj) -> Amounts:
        """Return the maximum of the VM's used, permitted and requested amounts, as it counts on a node."""
        most = self.permitted_amount(machine)
        for text in (annotation_of(machine, APPROVED), annotation_of(machine, REQUESTED)):
            most = most.maximum(parse_amounts(text)) if text else most
        return divide_by_overcommit(most, machine)

    def watermark_of(self, node: Obj) -> Amounts:
        fraction = self._world.setup.rules.watermark
        return Amounts(tuple(int(each * fraction) for each in total_of(node)))

    def approved_amount(self, pod: Obj, machines: Mapping[str, Obj]) -> Amounts:
        """Return the maximum of the pod's permitted amount and its VM's approved amount, as it counts on its node."""
        counted, machine = self.counted_amount(pod, machines), machines.get(owner_of(pod))
        text = ((machine or {}).get("metadata", {}).get("annotations") or {}).get(APPROVED)
        return (
            counted
            if machine is None or text is None
            else counted.maximum(divide_by_overcommit(parse_amounts(text), machine))
        )

    def is_bound(self, pod: str) -> bool:
        return any(name_of(each) == pod and each["spec"].get("nodeName") for each in self.table("pods"))

    def active_migrations(self) -> Iterator[tuple[Obj, Obj]]:
        """Yield active migrations with their VMs."""
        machines = self.machines()
        for each in self.table(MIGRATION_TABLE):
            machine = machines.get(each["spec"]["vmName"])
            if machine is not None and phase_of(each) in ACTIVE_PHASES:
                yield each, machine
