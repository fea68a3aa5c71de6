"""Invariants of the cluster's objects and the leader's ledger, whatever happens (docs/spec/vm.md).

They are checked after every write of ours and every step. Other modules of this package hold the checks. A breach ends
the history.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Final

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.testing.histories.watchdog import Watchdog, check_processes
from situate.testing.vm.invariants.freed_capacity import BeneficiaryAmounts, FreedCapacity
from situate.testing.vm.invariants.ledgers import LedgerChecks
from situate.testing.vm.invariants.migrations import MigrationChecks
from situate.testing.vm.invariants.nodes import NodeChecks
from situate.testing.vm.invariants.objects import (
    ACTIVE_PHASES,
    FROZEN,
    Obj,
    annotation_of,
    divide_by_overcommit,
    name_of,
    owner_of,
    parse_amounts,
    phase_of,
    total_of,
)
from situate.testing.vm.invariants.usage import UsageCounter
from situate.testing.vm.world.agents import Agents
from situate.testing.vm.world.history_world import VmHistoryWorld, write_kind
from situate.testing.vm.world.processes import MIGRATION_TABLE, UNIT
from situate.vm.api.well_known import APPROVED, CLAIM, CLAIM_CLOSED, REQUESTED
from situate.vm.model.resource_amounts import Amounts

STRANDED_S: Final = 10.0
_NOTHING: Final = Amounts.zero()
_LAST: Final = 25


class VmWatchdog(Watchdog):
    """The watchdog of one history."""

    def __init__(self, place: VmHistoryWorld) -> None:
        super().__init__()
        self._world = place
        self.agents = Agents(place, self.record_breach)
        self._last_lines: deque[str] = deque(maxlen=_LAST)
        self._frozen: dict[str, float] = {}
        self._stranded: dict[str, float] = {}
        self._freed = FreedCapacity(self.record_breach, place.happened)
        self.usage = UsageCounter(place, self.agents)
        self.nodes = NodeChecks(place, self.usage, self.record_breach)
        self.ledgers = LedgerChecks(place, self.usage, self.record_breach)
        self.moves = MigrationChecks(place, self.usage, self.nodes, self._freed, self._frozen, self.record_breach)
        place.request_listeners.append(self._on_request)
        place.new_leader_listeners.append(self.ledgers.check_new_leader)
        place.applied_listeners.append(self.ledgers.check_applied)

    def record_dropped_claim(self, migration: Obj) -> None:
        """Record that a user deletes a migration or its VM (F9, F12). A new leader cannot know its beneficiary then."""
        if text := annotation_of(migration, CLAIM):
            self._freed.drop_claim(str(json.loads(text)["id"]))

    def record_breach(self, said: str) -> None:
        super().record_breach(f"{self._world.now:.3f} s: {said}")

    def check(self) -> None:
        """Check all invariants. Raises `HistoryBreach`."""
        self.check_all()
        self.raise_first_breach()
        check_processes(self._world.world.processes)

    def last_records(self) -> list[str]:
        return list(self._last_lines)

    def log_line(self, line: str) -> None:
        said = f"{self._world.now:.3f} {line}"
        self._digest.update(said.encode())
        self._last_lines.append(said)

    def check_all(self) -> None:
        machines = self.usage.machines()
        self.nodes.check_totals(machines)
        self.nodes.record_pressure(machines)
        self._check_stranded(machines)
        self.ledgers.check_reserved(machines)
        self._check_freed_capacity(machines)

    def _check_stranded(self, machines: Mapping[str, Obj]) -> None:
        """Check I6."""
        now = self._world.now
        busy = {each["spec"]["vmName"] for each in self.usage.table(MIGRATION_TABLE) if phase_of(each) in ACTIVE_PHASES}
        for name, machine in machines.items():
            uid = machine["metadata"]["uid"]
            if phase_of(machine) not in FROZEN:
                self._frozen.pop(uid, None)
                self._stranded.pop(uid, None)
                continue
            self._frozen.setdefault(uid, now)
            if name in busy:
                self._stranded.pop(uid, None)
            elif now - self._stranded.setdefault(uid, now) > STRANDED_S:
                self.record_breach(
                    f"I6: {name} is {phase_of(machine)} since {STRANDED_S:g} s, but no migration of it is in progress"
                )

    def _check_freed_capacity(self, machines: Mapping[str, Obj]) -> None:
        """Check I4."""
        now = self._world.now
        pods = {each["metadata"]["uid"]: each for each in self.usage.table("pods")}
        names = {name_of(each) for each in pods.values()}

        def stand(uid: str) -> BeneficiaryAmounts | None:
            machine = machines.get(owner_of(pods[uid])) if uid in pods else None
            if machine is None or phase_of(machine) not in ("Running", "Scaling"):
                return None
            notes = machine["metadata"].get("annotations") or {}
            if machine["status"].get("podName") != name_of(pods[uid]) or not {APPROVED, REQUESTED} <= set(notes):
                return None
            said = [divide_by_overcommit(parse_amounts(notes[key]), machine) for key in (APPROVED, REQUESTED)]
            return BeneficiaryAmounts(
                said[0], said[1], divide_by_overcommit(UNIT, machine), notes.get(CLAIM_CLOSED, "")
            )

        def booked(node: str, but: str) -> Amounts:
            here = [each for uid, each in pods.items() if uid != but and each["spec"].get("nodeName") == node]
            return sum((self.usage.approved_amount(each, machines) for each in here), _NOTHING)

        def total(node: str) -> Amounts | None:
            there = self._world.object("nodes", "", node)
            return None if there is None else total_of(there)

        def disturbed_at(node: str) -> float:
            return max((at for at, _ in self.nodes.facts.get(node, ())), default=float("-inf"))

        for each in self.usage.table(MIGRATION_TABLE):
            notes = each["metadata"].get("annotations") or {}
            source = (each.get("status") or {}).get("sourcePodName")
            if CLAIM not in notes:
                continue
            if phase_of(each) == "Succeeded" and source not in names:
                self._freed.record_freed(notes[CLAIM], stand, booked, now)
            elif source in names:
                self._freed.end_if_satisfied(notes[CLAIM], stand)
        self._freed.check_claims(stand, booked, total, disturbed_at, now)

    def _on_request(self, request: Request, answer: Response | Watch, identity: Identity) -> None:
        kind = write_kind(request)
        if not kind or not isinstance(answer, Response):
            return
        self.writes += 1
        self.log_line(
            f"{identity.user} {request.method} {request.path} {request.body[:400].decode()} -> {answer.status}"
        )
        if answer.status >= 300:
            return
        if kind == "migration":
            self.moves.check_new_migration(json.loads(answer.body))
        elif kind == "approval":
            self.moves.check_approval(json.loads(answer.body))
        elif kind == "binding":
            self.moves.check_binding(request.path.split("/")[-2])
        elif kind == "cancel":
            self._world.happened["cancelled"] += 1
            self.moves.record_cancellation(identity.user, *request.path.split("/")[-3::2])
        self.check_all()

    def unfinished_work(self) -> str | None:
        """Return why the cluster is not as it should be some time after the last fault (I5, I6), or None."""
        leader = self._world.leader()
        if leader is None or not leader.controller.ledger.state.started:
            return "no process leads"
        machines, now = self.usage.machines(), self._world.now
        for name, machine in machines.items():
            if phase_of(machine) not in ("Running", "Scaling", "Pending", ""):
                return f"{name} is {phase_of(machine)}"
        for each in self.usage.table(MIGRATION_TABLE):
            if phase_of(each) in ACTIVE_PHASES:
                return f"migration {name_of(each)} is {phase_of(each) or 'new'}"
        state = leader.controller.ledger.state
        if state.claims:
            return f"I5: claims {sorted(state.claims)} are open"
        for agent in self.agents.by_name.values():
            waiting = now - agent.answered_at > 3 * self.agents.tick_s
            if agent.name in machines and phase_of(machines[agent.name]) == "Running" and waiting:
                return f"I5: {agent.name} has no answer"
        return None
