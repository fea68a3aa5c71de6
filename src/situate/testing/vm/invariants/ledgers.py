"""Checks of the processes' ledgers: reserved amounts are at least the used and granted amounts.

The rules are I2, I8 and I14.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from situate.testing.vm.invariants.objects import Obj, annotation_of, name_of, owner_of, parse_amounts
from situate.testing.vm.invariants.usage import UsageCounter
from situate.testing.vm.world.history_world import VmHistoryWorld
from situate.testing.vm.world.processes import MACHINE_TABLE, VmMember
from situate.vm.api.well_known import APPROVED
from situate.vm.model.pods_and_nodes import Role
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState


class LedgerChecks:
    """The ledger checks of one history."""

    def __init__(self, place: VmHistoryWorld, counting: UsageCounter, breach: Callable[[str], None]) -> None:
        self._world = place
        self._usage = counting
        self._breach = breach
        self._leaving: dict[str, dict[str, Amounts]] = {}
        """By identity of a process: the reserved amounts of frozen VMs, by UID of the source pod."""

    def check_new_leader(self, member: VmMember) -> None:
        """Check I8: a new leader has reserved all amounts granted before, as far as it can know them."""
        state, watched = member.controller.ledger.state, member.controller.informers
        for machine in self._usage.table(MACHINE_TABLE):
            known = watched.machines.store.get(name_of(machine), machine["metadata"]["namespace"])
            granted, runner = annotation_of(machine, APPROVED), (machine.get("status") or {}).get("podName", "")
            pod = self._world.object("pods", machine["metadata"]["namespace"], runner)
            if known is None or pod is None or not granted:
                continue
            booked, newest = state.pod(pod["metadata"]["uid"]), machine["metadata"]["resourceVersion"]
            if booked is None or known.metadata.resource_version != newest:
                continue
            if parse_amounts(granted).exceeds(booked.reserved):
                was = parse_amounts(granted).values
                self._breach(
                    f"I8: {name_of(machine)} was granted {was}, but a restart reserves {booked.reserved.values}"
                )

    def check_applied(self, member: VmMember) -> None:
        """Check I14: the reserved amount of a frozen VM stays, unless the VM is seen to use or hold more."""
        state, watched = member.controller.ledger.state, member.controller.informers
        before, leaving = self._leaving.get(member.identity, {}), {}
        for move in state.moves.values():
            pod = state.pod(move.source.uid)
            if pod is None or pod.machine is None or not pod.frozen or pod.machine.role is Role.TARGET:
                continue
            leaving[pod.uid] = pod.reserved
            known = before.get(pod.uid, pod.reserved)
            if known == pod.reserved:
                continue
            machine = watched.machines.store.get(pod.machine.ref.name, pod.machine.ref.namespace)
            text = "" if machine is None else machine.metadata.annotations.get(APPROVED, "")
            seen = pod.used.maximum(parse_amounts(text)) if text else pod.used
            if known.exceeds(pod.reserved) or pod.reserved.exceeds(known.maximum(seen)):
                name = pod.machine.ref.name
                self._breach(f"I14: {name} is frozen, and went from {known.values} to {pod.reserved.values}")
        self._leaving[member.identity] = leaving

    def leader_state(self) -> LedgerState | None:
        """Return the ledger of a leader that has read the whole cluster, or None."""
        leader = self._world.leader()
        if leader is None or leader.controller.actuator is None or not leader.controller.ledger.state.started:
            return None
        return leader.controller.ledger.state

    def check_reserved(self, machines: Mapping[str, Obj]) -> None:
        """Check I2 and I8: the leader has reserved the amounts that VMs use or may use by their permits."""
        leader = self._world.leader()
        if leader is None or not leader.controller.ledger.state.started:
            return
        state = leader.controller.ledger.state
        for pod in self._usage.table("pods"):
            machine = machines.get(owner_of(pod))
            booked = state.pod(pod["metadata"]["uid"])
            if machine is None or booked is None or (machine.get("status") or {}).get("podName") != name_of(pod):
                continue
            may = self._usage.permitted_amount(machine)
            if may.exceeds(booked.reserved):
                self._breach(f"I2: {name_of(machine)} may use {may.values}, but {booked.reserved.values} are reserved")
