"""A ledger beside a plain world: a test says what happens, and looks at what is to be done and at what is booked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, TypeVar

from situate.sim.vm.world import DEFAULT_COPIED_BYTES, VirtualMachine, VMWorld
from situate.testing.vm.invariants.rules import LedgerStep, broken_invariants
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.ledger.step import step
from situate.vm.model.actions import Action, HandOver, Notify
from situate.vm.model.events import Event, InitialListCompleted, ResourcesRequested, TimerFired, WriteResult
from situate.vm.model.migrations import Beneficiary, BeneficiaryKind, Claim, Move
from situate.vm.model.pods_and_nodes import Pod, Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState
from situate.vm.planning.plan import Plan

A = TypeVar("A", bound=Action)
START = 1000.0


def both(number: int) -> Amounts:
    return Amounts.from_values(number, number)


class Town:
    """Machines are named as their first pods. Each step is checked against all invariants."""

    def __init__(self, rules: Rules | None = None, **nodes: int) -> None:
        self.rules, self.now = rules or Rules(), START
        self.world, self.state = VMWorld(), LedgerState()
        self.planner = Planner()
        self.done: list[Action] = []
        """What the last event asked for."""
        for name, total in nodes.items():
            self.tell(self.world.add_node(name, both(total)))

    def vm(self, name: str, node: str, held: int, *, migratable: bool = False, **more: Any) -> None:
        amount = both(held)
        created = more.pop("created_at", float(len(self.world.machines)))
        machine = VirtualMachine(name, amount, amount, amount, both(1), migratable, created, **more)
        self.tell(self.world.add_machine(machine, node))

    def plain(self, name: str, node: str, size: int) -> None:
        self.tell(self.world.add_pod(name, both(size), node))

    def start(self) -> None:
        self.tell(InitialListCompleted())

    def restart(self) -> None:
        self.state = LedgerState()
        for event in self.world.listing():
            self.tell(event)

    def tell(self, event: Event) -> list[Action]:
        """Nothing is performed."""
        decision = step(self.state, event, self.now, self.rules, self.planner)
        if not self.rules.compat:
            assert list(broken_invariants(LedgerStep(self.state, event, decision, self.now, self.rules))) == []
        self.state, self.wake_at = decision.state, decision.wake_at
        self.done = list(decision.actions)
        return self.done

    def live(self, events: Event | Iterable[Event], *, but: type[Action] | None = None) -> list[Action]:
        """Everything that follows is performed, and seen in that order; all that was asked for on the way.

        What is of the kind `but` is not performed.
        """
        asked: list[Action] = []
        coming = deque([events] if not isinstance(events, Iterable) else events)
        while coming:
            actions = self.tell(coming.popleft())
            asked += actions
            for action in (each for each in actions if but is None or not isinstance(each, but)):
                seen = self.world.perform(action, self.now)
                coming.append(WriteResult(action, "refused" if seen is None else "ok"))
                coming += seen or ()
        return asked

    def ask(self, name: str, amount: int | Amounts, last: int | None = None, **more: Any) -> list[Action]:
        """By an agent that lowers its permit before it asks for less, unless told otherwise."""
        machine = self.world.machines[name]
        wanted = both(amount) if isinstance(amount, int) else amount
        asked = self.live(self.world.request(name, machine.unit, wanted))
        held = machine.approved if last is None else both(last)
        return asked + self.live(
            ResourcesRequested(machine.runs_in, machine.unit, wanted, held, more.pop("lowers_at_once", True), **more)
        )

    def wait(self, seconds: float) -> list[Action]:
        self.now += seconds
        return self.live(TimerFired())

    def made_room(self, name: str, seconds: float = 5.0) -> Move:
        """Wait until a move begins for a machine that is short."""
        self.wait(seconds)
        claim = next(each for each in self.state.claims.values() if each.beneficiary.ref.name == name)
        return next(move for move in self.state.moves.values() if move.claim == claim.id)

    def copying(self, move: Move, percent: int = 100) -> None:
        """Its target is bound where room is reserved, and so much is still to be copied."""
        if not self.world.migrations[move.name].target:
            self.live(self.world.freeze(move.name))
        target = self.world.migrations[move.name].target
        if not self.world.pods[target].node:
            self.live(self.world.bind(target, move.target_node))
        self.live(self.world.copy(move.name, DEFAULT_COPIED_BYTES * percent // 100, self.now))

    def moved(self, move: Move) -> None:
        """It runs at the target; its source is still there."""
        self.copying(move, 0)
        self.live(self.world.succeed(move.name), but=HandOver)

    def gone(self, uid: str) -> list[Action]:
        """One step, of which nothing is performed yet."""
        event, *others = self.world.delete_pod(uid, self.now)
        assert not others
        return self.tell(event)

    def plans(self, *plans: Plan) -> None:
        """Whoever is short next has these carried out, whatever the planner would say."""
        queue = iter(plans)

        def next_plan(*_: Any) -> Plan:
            return next(queue, Plan("nothing"))

        self.planner = Planner(plan=next_plan)

    def booked(self, uid: str) -> int:
        """Of CPU."""
        return self.pod(uid).reserved.cpu

    def pod(self, uid: str) -> Pod:
        pod = self.state.pod(uid)
        assert pod is not None, f"nothing is known of {uid}"
        return pod

    def claims(self) -> dict[str, int]:
        """By beneficiary."""
        return {claim.beneficiary.ref.name: claim.amount.cpu for claim in self.state.claims.values()}

    def reserved(self, node: str) -> int:
        return self.state.nodes[node].reserved.cpu


def only(actions: Iterable[Action], kind: type[A]) -> list[A]:
    return [action for action in actions if isinstance(action, kind)]


def outcomes(actions: Iterable[Action]) -> list[str]:
    """Of the claims that were closed."""
    return [action.fields["outcome"] for action in only(actions, Notify) if action.reason == "ClaimClosed"]


def claim_on(move: Move, whom: Pod, amount: int, deadline: float = START + 10_000) -> Claim:
    beneficiary = Beneficiary(BeneficiaryKind.VM, whom.ref)
    return Claim(move.claim, move.plan, move.source_node, beneficiary, move.source.uid, both(amount), deadline)


def move_of(town: Town, name: str, target: str, claim: str = "") -> Move:
    """As a planner makes it."""
    pod = town.pod(name)
    machine = town.world.machines[name].ref
    return Move(
        f"schedplugin-{name}",
        "plan",
        machine,
        Ref(pod.ref.namespace, name, name),
        town.state.where[name],
        target,
        pod.reserved,
        town.now,
        claim=claim,
    )


def making_room(rules: Rules | None = None, watermark: int = 10) -> tuple[Town, Move]:
    """B begins to leave n1 for A, who wants 3 more; P might go as well."""
    town = Town(rules)
    town.tell(town.world.add_node("n1", both(10), both(watermark)))
    town.tell(town.world.add_node("n2", both(10)))
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 3, migratable=True)
    town.plain("P", "n1", 3)
    town.start()
    town.ask("A", 7)
    return town, town.made_room("A")
