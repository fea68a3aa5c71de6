"""Amounts that VMs and pods use, may use or request, by the cluster's objects: the measure for the ledger.

It shares nothing with the ledger but the objects. A VM counts with the amount that it uses or that its agent may use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from situate.testing.vm.invariants.objects import (
    AT_WORK,
    FROZEN,
    Obj,
    amounts,
    divided,
    in_bytes,
    is_target,
    name_of,
    note,
    owner_of,
    phase,
    total_of,
)
from situate.testing.vm.world.agents import Agents, milli, used_by_spec
from situate.testing.vm.world.history_world import SPARE, Place
from situate.testing.vm.world.processes import MACHINE_TABLE, MIGRATION_TABLE
from situate.vm.api.well_known import APPROVED, REQUESTED, TARGET_NODE
from situate.vm.model.resource_amounts import Amounts

_NOTHING: Final = Amounts.zero()


class Counting:
    """The amounts of one history."""

    def __init__(self, place: Place, agents: Agents) -> None:
        self._place = place
        self._agents = agents

    def table(self, name: str) -> Iterator[Obj]:
        return self._place.objects(name)

    def machines(self) -> dict[str, Obj]:
        return {each["metadata"]["name"]: each for each in self.table(MACHINE_TABLE)}

    def permitted(self, machine: Obj) -> Amounts:
        """Return the amount that the VM uses, or may use by its agent's permit."""
        status = machine.get("status") or {}
        use = used_by_spec(machine)
        if status.get("cpus") is not None and status.get("memorySize") is not None:
            use = use.most(Amounts.of(milli(status["cpus"]), in_bytes(str(status["memorySize"]))))
        agent = self._agents.by_name.get(machine["metadata"]["name"])
        acts = agent is not None and agent.uid == machine["metadata"]["uid"] and agent.pod == status.get("podName")
        return use.most(agent.permit) if agent is not None and acts else use

    def counted(self, pod: Obj, machines: Mapping[str, Obj]) -> Amounts:
        """Return the pod's amount on its node. It is zero if the pod has ended or its VM has left it."""
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return _NOTHING
        name = owner_of(pod)
        if not name:
            asked = [each.get("resources", {}).get("requests", {}) for each in pod["spec"]["containers"]]
            cpus = sum(milli(each.get("cpu", 0)) for each in asked)
            return Amounts.of(cpus, sum(in_bytes(str(each.get("memory", 0))) for each in asked))
        machine = machines.get(name)
        if machine is None:
            return _NOTHING
        status = machine.get("status") or {}
        if status.get("podName") != name_of(pod) and (phase(machine) not in FROZEN or not is_target(pod)):
            return _NOTHING
        return divided(self.permitted(machine), machine)

    def sums(self, machines: Mapping[str, Obj]) -> dict[str, Amounts]:
        """Return the sums by node. Pods of an ignored namespace do not count (C28)."""
        found: dict[str, Amounts] = {}
        for pod in self.table("pods"):
            node = pod["spec"].get("nodeName", "")
            if node and pod["metadata"]["namespace"] != SPARE:
                found[node] = found.get(node, _NOTHING) + self.counted(pod, machines)
        return found

    def demand(self, machines: Mapping[str, Obj]) -> dict[str, Amounts]:
        """Return an upper bound of the reserved amounts by node.

        It sums all amounts requested on the node or possibly on their way to it.
        """
        found: dict[str, Amounts] = {}
        anywhere = _NOTHING
        for pod in self.table("pods"):
            if pod["metadata"]["namespace"] == SPARE:
                continue
            if node := pod["spec"].get("nodeName", ""):
                found[node] = found.get(node, _NOTHING) + self._asked_for(pod, machines)
            else:
                anywhere += self._asked_for(pod, machines)
        for each in self.table(MIGRATION_TABLE):
            mover, target = machines.get(each["spec"]["vmName"]), note(each, TARGET_NODE)
            if mover is not None and target:
                found[target] = found.get(target, _NOTHING) + self._most(mover)
        return {node: amount + anywhere for node, amount in found.items()}

    def _asked_for(self, pod: Obj, machines: Mapping[str, Obj]) -> Amounts:
        machine = machines.get(owner_of(pod))
        return self.counted(pod, machines) if machine is None else self._most(machine)

    def _most(self, machine: Obj) -> Amounts:
        """Return the maximum of the VM's used, permitted and requested amounts, as it counts on a node."""
        most = self.permitted(machine)
        for text in (note(machine, APPROVED), note(machine, REQUESTED)):
            most = most.most(amounts(text)) if text else most
        return divided(most, machine)

    def watermark(self, node: Obj) -> Amounts:
        fraction = self._place.setup.rules.watermark
        return Amounts(tuple(int(each * fraction) for each in total_of(node)))

    def approved_of(self, pod: Obj, machines: Mapping[str, Obj]) -> Amounts:
        """Return the maximum of the pod's permitted amount and its VM's approved amount, as it counts on its node."""
        counted, machine = self.counted(pod, machines), machines.get(owner_of(pod))
        text = ((machine or {}).get("metadata", {}).get("annotations") or {}).get(APPROVED)
        return counted if machine is None or text is None else counted.most(divided(amounts(text), machine))

    def is_bound(self, pod: str) -> bool:
        return any(name_of(each) == pod and each["spec"].get("nodeName") for each in self.table("pods"))

    def moving(self) -> Iterator[tuple[Obj, Obj]]:
        """Yield active migrations with their VMs."""
        machines = self.machines()
        for each in self.table(MIGRATION_TABLE):
            machine = machines.get(each["spec"]["vmName"])
            if machine is not None and phase(each) in AT_WORK:
                yield each, machine
