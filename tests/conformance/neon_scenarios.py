"""Plays Neon's `seed_scenarios.json` through `situate.vm.ledger.step`, in default mode, against a plain world.

The world does at once what the scheduler asks for; migrations come on as the events say. Amounts are of one abstract
resource, applied to CPU and memory alike; a node without a watermark has it at its Total. Agents are ours: they lower
their own permit before they ask for less.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from situate.sim.vm.world import VirtualMachine, VMWorld
from situate.vm.api.nodes import watermark
from situate.vm.config.settings import MigrationLimits
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.ledger.step import step
from situate.vm.model.actions import Approve, CancelMove, HandOver, StartMove
from situate.vm.model.events import (
    Event,
    InitialListCompleted,
    PodReserved,
    ResourcesRequested,
    TimerFired,
    WriteResult,
)
from situate.vm.model.migrations import Beneficiary, BeneficiaryKind, Claim, Move, Stage
from situate.vm.model.pods_and_nodes import Load, Pod
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState
from situate.vm.planning.plan import Plan
from situate.vm.planning.rules.concurrency import has_begun, is_ongoing
from tests.conformance.outcome import Case, CaseRunner, Outcome, UnknownOperationError, UnknownPhraseError, compared

RULES: Final = Rules(
    calm=MigrationLimits(link=str(2**60), moves_in_cluster=99, moves_out_of_node=99, moves_into_node=99)
)
"""Units of the scenarios are no bytes, and they ask who moves, not how many at a time (B26)."""
PLANNER: Final = Planner()
BEAT_S: Final = 5.0
_GIB: Final = 2**30
QUIET_AFTER: Final = 4
"""So many beats without a move, and nothing more is expected."""
_MOMENT_S: Final = 0.001
"""Between two events: whoever asks first waits longer."""
_LAST: Final = ("next_migration", "never_above_capacity")
"""Expectations about all that happens from then on; the others are of the world as it is at their turn."""


def scenario(case: Case) -> Outcome:
    play = Play(case)
    for event in case.get("events") or ():
        play.do(event)
    expected: Mapping[str, Any] = case["expected"]
    in_turn = sorted(expected, key=_turn)
    return compared({key: play.what(key, expected[key]) for key in in_turn}, expected)


def _turn(key: str) -> int:
    """When a key is looked at, in whatever order the case writes them: first what changes nothing."""
    late = (("migrations", "target", "total_migrations"), ("after",), ("plan",), ("granted_at_end", "reserved_at_end"))
    if key in _LAST:
        return len(late) + 1 + _LAST.index(key)
    return next((turn for turn, keys in enumerate(late, 1) if key in keys), 0)


class Play:
    """One scenario while it is played."""

    def __init__(self, case: Case) -> None:
        self.world, self.state, self.now = VMWorld(), LedgerState(), 0.0
        self.started: list[Move] = []
        self.ended: set[str] = set()
        """Names of migrations that were cancelled."""
        self.log: list[list[Any]] = []
        self.above_capacity = False
        self.placed: dict[str, str | None] = {}
        self.before_source_deleted: dict[str, int] = {}
        self.targets: dict[str, str | None] = {}
        """By machine: where its target came to be."""
        fraction = 1 if case.get("watermark") is None else case["watermark"]
        for name, total in case["nodes"].items():
            totals = _amount(total)
            self.tell(self.world.add_node(name, totals, watermark(totals, fraction)))
        for vm in case["vms"]:
            self._add(vm)
        self.tell(InitialListCompleted())

    def _add(self, vm: Mapping[str, Any]) -> None:
        held = _amount(vm["reserved"])
        migratable, created_at = bool(vm.get("migratable")), float(vm.get("created_at") or 0)
        machine = VirtualMachine(vm["name"], held, held, held, _amount(1), migratable, created_at)
        machine.load = Load(memory_used=vm["reserved"] * _GIB)  # whoever holds more takes longer to move (B17)
        self.tell(self.world.add_machine(machine, vm["node"]))

    def tell(self, event: Event, planner: Planner = PLANNER) -> None:
        """The event, and all that follows at once."""
        before = self.state
        decision = step(self.state, event, self.now, RULES, planner)
        self.state = decision.state
        self.above_capacity |= any(node.over_budget for node in self.state.nodes.values())
        for action in decision.actions:
            self._note(before, action)
            # when a source is deleted, the events say
            seen = () if isinstance(action, HandOver) else self.world.perform(action, self.now)
            self.tell(WriteResult(action, "refused" if seen is None else "ok"))
            for each in seen or ():
                self.tell(each)

    def _note(self, before: LedgerState, action: Any) -> None:
        match action:
            case StartMove(move=move):
                self.started.append(move)
                self.log.append(["migrate", move.machine.name, move.target_node])
            case CancelMove(name=name):
                self.ended.add(name)
            case Approve(machine=machine, pod=pod, amount=amount):
                former = before.pod(pod.uid)
                if former is not None and amount.exceeds(former.reserved):
                    self.log.append(["grant", machine.name, amount.cpu])

    # events

    def do(self, event: Sequence[Any]) -> None:
        known = self._events().get(event[0])
        if known is None:
            raise UnknownOperationError(f"event {event[0]!r}; known: {', '.join(self._events())}")
        self.now += _MOMENT_S
        known(*event[1:])

    def _events(self) -> Mapping[str, Callable[..., None]]:
        return {
            "request": self.request,
            "migration_created": self.migration_created,
            "target_bound": self.target_bound,
            "migration_succeeded": self.migration_succeeded,
            "migration_failed": self.migration_failed,
            "source_pod_deleted": self.source_pod_deleted,
            "pod_deleted": self.pod_deleted,
            "schedule_target": self.schedule_target,
            "pod_pending": self.pod_pending,
            "scheduler_restart": self.restart,
            "balance": self.balance,
            "balance_until_quiet": self.balance_until_quiet,
        }

    def request(self, vm: str, amount: int) -> None:
        machine = self.world.machines.get(vm)
        if machine is None or self.state.pod(machine.runs_in) is None:
            return  # it is gone, and its agent with it
        machine.use = machine.use.minimum(_amount(amount))
        self.tell(self.world.pod_event(machine.runs_in))
        self._tell_all(self.world.request(vm, machine.unit, _amount(amount)))
        asked = ResourcesRequested(
            machine.runs_in, machine.unit, _amount(amount), machine.approved, lowers_at_once=True
        )
        self.tell(asked)

    def migration_created(self, vm: str, options: Mapping[str, str] | None = None) -> None:
        """Whatever the planner thinks of it; with nobody named, it is for whoever is first in line, if anybody is.

        A link of a chain, which makes room on another node than where it is wanted, is the planner's to begin (B19).
        """
        machine = self.world.machines.get(vm)
        source = None if machine is None else self.state.pod(machine.runs_in)
        if source is None or any(
            is_ongoing(move) and move.source.uid == source.uid for move in self.state.moves.values()
        ):
            return
        assert source.machine is not None
        node = self.state.where[source.uid]
        whom = self.world.machines.get((options or {}).get("for", ""))
        if whom is not None and self.state.where.get(whom.runs_in) != node:
            self._beat()
            return
        target = self._target(source, node)
        if not target:
            return
        self.now += BEAT_S
        plan_id = f"{vm}-{self.now}"
        move = Move(
            f"schedplugin-{source.ref.name}",
            plan_id,
            source.machine.ref,
            source.ref,
            node,
            target,
            source.reserved,
            self.now,
        )
        claims = () if whom is None else (self._claim(move, whom.runs_in, source.reserved),)
        forced = Plan(plan_id, moves=(replace(move, claim=claims[0].id) if claims else move,), claims=claims)
        self._force(forced)

    def _target(self, source: Pod, node: str) -> str:
        """The first other node with room, also below its watermark (B13); empty where there is none."""

        def takes_it(name: str) -> bool:
            booked = self.state.nodes[name].reserved + self.state.incoming_amount(name, "") + source.reserved
            return source.reserved.fits_within(self.state.available(name, "")) and booked.fits_within(
                self.state.nodes[name].watermark
            )

        return next((name for name in sorted(self.state.nodes) if name != node and takes_it(name)), "")

    def _claim(self, move: Move, uid: str, freed: Amounts) -> Claim:
        pod = self.state.pod(uid)
        assert pod is not None
        amount = self.state.need(uid).minimum(freed)
        beneficiary = Beneficiary(BeneficiaryKind.VM, pod.ref)
        return Claim(
            f"{move.plan}-1", move.plan, move.source_node, beneficiary, move.source.uid, amount, self.now + 3660
        )

    def _force(self, forced: Plan) -> None:
        plans = iter((forced,))

        def once(*_: Any) -> Plan:
            return next(plans, Plan("nothing"))

        self.state = replace(self.state, looks={**self.state.looks, forced.moves[0].source_node: self.now})

        def all_at_once(state: LedgerState, rules: Rules) -> Iterable[Move]:
            return [move for move in state.moves.values() if is_ongoing(move) and not has_begun(move)]

        self.tell(TimerFired(), Planner(once, once, once, all_at_once))

    def target_bound(self, vm: str, node: str) -> None:
        name = self._migration(vm)
        if name is None:
            return
        move = self.world.migrations[name]
        if not move.target:
            self._tell_all(self.world.freeze(name))
        self._tell_all(self.world.bind(move.target, node))

    def schedule_target(self, vm: str) -> None:
        """Where a cycle of ours would bind it: on the reserved node only, and nowhere if the move has been ended."""
        name = self._migration(vm)
        move = next((each for each in self.state.moves.values() if each.machine.name == vm and each.alive), None)
        self.targets[vm] = None
        if name is None or move is None:
            return
        if not self.world.migrations[name].target:
            self._tell_all(self.world.freeze(name))
        move = self.state.moves[move.key]
        if move.target_node and move.target_node != move.source_node:
            target = self.world.migrations[name].target
            self.targets[vm] = move.target_node
            self.tell(PodReserved(self.world.pod(target), move.target_node))
            self.target_bound(vm, move.target_node)

    def migration_succeeded(self, vm: str) -> None:
        name = self._migration(vm)
        if name is None or self.world.migrations[name].phase in ("Succeeded", "Failed"):
            return
        move = self.world.migrations[name]
        if not move.target or not self.world.pods[move.target].node:
            others = (each for each in sorted(self.state.nodes) if each != move.source_node)
            self.target_bound(vm, move.target_node or next(others))
        self._tell_all(self.world.copy(name, 0, self.now))
        if name in self.world.migrations:
            self._tell_all(self.world.succeed(name))

    def migration_failed(self, vm: str) -> None:
        name = self._migration(vm)
        if name is not None and self.world.migrations[name].phase not in ("Succeeded", "Failed"):
            self._tell_all(self.world.fail(name, self.now))

    def source_pod_deleted(self, vm: str) -> None:
        self.before_source_deleted = self._grants()
        name = self._migration(vm)
        if name is None:
            return
        source = self.world.migrations[name].source
        self.migration_succeeded(vm)
        self._tell_all(self.world.delete_pod(source, self.now))

    def pod_deleted(self, pod: str) -> None:
        machine = self.world.machines.get(pod)
        self._tell_all(self.world.delete_pod(pod if machine is None else machine.runs_in, self.now))

    def pod_pending(self, uid: str, size: int) -> None:
        node = self._fits_on(uid, size)
        self.placed[uid] = node
        if node is None:
            return
        event = self.world.add_pod(uid, _amount(size), node)
        self.tell(PodReserved(self.world.pod(uid), node))
        self.tell(event)

    def restart(self) -> None:
        self.state = LedgerState()
        for event in self.world.listing():
            self.tell(event)

    def balance(self, node: str) -> None:
        self.tell(self.world.add_node(node, self.world.nodes[node].total, self.world.nodes[node].watermark))
        for _ in range(QUIET_AFTER):
            self._beat()

    def balance_until_quiet(self, rounds: int) -> None:
        for _ in range(rounds):
            self._beat()
            self._come_on()

    # what is expected

    def what(self, key: str, wanted: Any) -> Any:
        """What the key asks for, as the case states it."""
        if key in ("granted_now", "granted_at_end", "granted_before_source_deleted"):
            before = self.before_source_deleted if key == "granted_before_source_deleted" else {}
            return self._granted(before or self._grants(), wanted)
        if key in ("reserved_now", "reserved_at_end"):
            return {node: self.state.nodes[node].reserved.cpu for node in wanted}
        if key == "after":
            event, grants = wanted
            self.do(event)
            return [event, self._granted(self._grants(), grants)]
        if key == "plan":
            self._run_on()
            return [[*entry] for entry in self.log]
        plain: Mapping[str, Callable[[], Any]] = {
            "never_above_capacity": lambda: not self.above_capacity,
            "claims": lambda: self._claims(wanted),
            "migrations": lambda: [move.machine.name for move in self.started],
            "total_migrations": lambda: len(self.started),
            "target": lambda: (self.started[-1].target_node or None) if self.started else None,
            "target_node_not": lambda: wanted if wanted not in self._all_targets() else f"{wanted}, of all",
            "next_migration": self._next_migration,
        }
        if key in ("migrations", "target", "total_migrations") and not self.started:
            for _ in range(QUIET_AFTER):
                self._beat()
        if key in plain:
            return plain[key]()
        for pattern, answer in _PATTERNS.items():
            if found := re.fullmatch(pattern, key):
                return answer(self, found[1], wanted)
        raise UnknownOperationError(f"expectation {key!r}")

    def _grants(self) -> dict[str, int]:
        pods = {vm.name: self.state.pod(vm.runs_in) for vm in self.world.machines.values()}
        return {name: pod.reserved.cpu for name, pod in pods.items() if pod is not None}

    def _granted(self, grants: Mapping[str, int], wanted: Mapping[str, int | None]) -> dict[str, int | None]:
        """Whoever is gone has nothing."""
        return {vm: grants.get(vm, 0 if amount == 0 else None) for vm, amount in wanted.items()}

    def _claims(self, wanted: Sequence[Any]) -> list[Any]:
        """Each with as much of it as the case tells of one."""
        claims = []
        for index, claim in enumerate(self.state.claims.values()):
            told = wanted[index] if index < len(wanted) else {}
            source = self.state.pod(claim.source_uid)
            leaves = None if source is None or source.machine is None else source.machine.ref.name
            pod = self.state.pod(claim.beneficiary.ref.uid)
            whom = pod.machine.ref.name if pod is not None and pod.machine is not None else claim.beneficiary.ref.name
            whole = {"for": whom, "vm": whom, "beneficiary": whom, "node": claim.node, "amount": claim.amount.cpu}
            whole["source"] = leaves
            claims.append(whom if isinstance(told, str) else {key: whole[key] for key in told} if told else whole)
        return claims

    def _all_targets(self) -> Iterator[str | None]:
        yield from self.targets.values()
        yield from (move.target_node for move in self.started)

    def _next_migration(self) -> str | None:
        """Of the moves that are begun from now on, the first."""
        before = len(self.started)
        for _ in range(QUIET_AFTER):
            if len(self.started) == before:
                self._beat()
        return self.started[before].machine.name if len(self.started) > before else None

    def placed_on(self, uid: str, wanted: Any) -> str | None:
        if uid not in self.placed:
            raise UnknownOperationError(f"{uid}_placed_on, and no pod_pending of {uid}")
        return self.placed[uid]

    def fits_on(self, size: str, wanted: Any) -> str | None:
        return self._fits_on("", int(size))

    def running_on(self, vm: str, wanted: Any) -> str | None:
        machine = self.world.machines.get(vm)
        return None if machine is None else self.world.pods[machine.runs_in].node

    def migration_of(self, vm: str, wanted: str) -> str:
        """The sentence itself, if it holds."""
        live = [move for move in self.state.moves.values() if move.machine.name == vm and move.alive]
        state = live[0].stage.value if live else "not under way"
        if re.fullmatch(r"(none|never (started|created|begun)|not (started|created|begun))\b.*", wanted):
            return wanted if not any(move.machine.name == vm for move in self.started) else state
        if re.fullmatch(r"(is )?(left to finish|not cancelled|continues|goes on)\b.*", wanted):
            return wanted if any(move.stage is Stage.COPYING for move in live) else f"is {state}"
        if not re.match(r"cancell?ed\b", wanted):
            raise UnknownPhraseError(wanted)
        if not re.match(r"cancell?ed (when|if|unless)\b", wanted):
            return wanted if not live else f"is {state}"
        if any(move.stage is not Stage.COPYING or move.claim in self.state.claims for move in live):
            return f"is {live[0].stage.value}"
        return wanted

    # the rest of the world

    def _fits_on(self, uid: str, size: int) -> str | None:
        """The first by name that has room; whoever else is promised some keeps it."""
        return next(
            (name for name in sorted(self.state.nodes) if _amount(size).fits_within(self.state.available(name, uid))),
            None,
        )

    def _migration(self, vm: str) -> str | None:
        return next((name for name, move in self.world.migrations.items() if move.machine == vm), None)

    def _tell_all(self, events: Sequence[Event]) -> None:
        for event in events:
            self.tell(event)

    def _beat(self) -> None:
        self.now += BEAT_S
        self.tell(TimerFired())

    def _come_on(self) -> None:
        """Every migration that there is ends well."""
        for move in list(self.world.migrations.values()):
            self.source_pod_deleted(move.machine)

    def _run_on(self) -> None:
        quiet = 0
        while quiet < QUIET_AFTER:
            before = len(self.log)
            self._beat()
            self._come_on()
            quiet = 0 if len(self.log) > before else quiet + 1


_PATTERNS: Final[Mapping[str, Callable[[Play, str, Any], Any]]] = {
    r"(.+)_placed_on": Play.placed_on,
    r"then_pod_of_size_(\d+)_fits_on": Play.fits_on,
    r"(.+)_still_running_on": Play.running_on,
    r"migration_of_(.+)": Play.migration_of,
}


def _amount(number: int) -> Amounts:
    return Amounts.from_values(number, number)


RUNNERS: Final[Mapping[str, CaseRunner]] = {"seed_scenarios.json": scenario}
CASES: Final[Mapping[str, Callable[[Any], Any]]] = {}
