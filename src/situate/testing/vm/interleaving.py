"""Random histories of `situate.vm.step` on a few nodes: what happens, happens in any order, twice, late or not at all.

Watches delay and repeat but keep the order of each object, as they do; answers and writes are lost, applied without our
knowing, or applied late; agents ask, repeat and vanish; third parties bind, shrink and delete; the scheduler dies and
starts from what the objects say. After every step everything is checked; in the end the world settles.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import assert_never

from situate.sim.vm.world import COPIED, Migration, VirtualMachine, World
from situate.testing.vm.happenings import Happening, What
from situate.testing.vm.invariants import (
    Stepped,
    broken,
    changed_by_a_restart,
    moved_for_the_ignored,
    regranted,
    too_little_booked,
)
from situate.vm.actions import Action, StartMove, Tell
from situate.vm.amounts import Amounts
from situate.vm.answering import answer, settled
from situate.vm.claims import BeneficiaryKind
from situate.vm.events import (
    Asked,
    Beat,
    Event,
    MigrationGone,
    MigrationSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodReserved,
    PodSeen,
    PodUnreserved,
    TargetRefused,
    Written,
)
from situate.vm.granting import pod_within
from situate.vm.model import Evacuation, Phase, Pod, Role
from situate.vm.rules import Rules
from situate.vm.state import State
from situate.vm.step import step

UNIT = Amounts.of(1, 1)
RULES = Rules()
SETTLING_S = (10.0,) * 4 + (60.0,) * 4 + (1400.0,) * 6
"""Beats are so far apart; cool-downs and back-offs of a history of this length are over by then."""
MOST_BEATS = 100
"""At one moment: each looks at one pod and one node."""
IGNORED = "i"
CHAINED = 8
"""One in so many seeds begins with a move that waits for another, which chance alone brings about in one of 150."""
QUIET_S = (30.0, 30.0, 700.0, 700.0)


class Violation(AssertionError):
    """An invariant does not hold; the message has the seed."""


@dataclass
class Agent:
    machine: str
    lowers: bool
    permit: Amounts
    unit: Amounts
    sequence: int = 0
    waits_for: Asked | None = None
    """The request that it waits for an answer of."""


@dataclass
class Town(World):
    """Some of its pods are of a namespace that is ignored: those whose names begin so. Machines may be evicted."""

    evacuations: dict[str, Evacuation] = field(default_factory=dict)
    """By name of the machine."""

    def pod(self, uid: str) -> Pod:
        pod = super().pod(uid)
        wish = self.evacuations.get(self.pods[uid].machine)
        if wish is not None and pod.machine is not None:
            pod = replace(pod, machine=replace(pod.machine, evacuation=wish))
        return replace(pod, ignored=True) if uid.startswith(IGNORED) else pod


@dataclass
class Interleaving:
    seed: int
    rules: Rules = RULES
    now: float = 0.0
    state: State = field(default_factory=State)
    world: Town = field(default_factory=Town)
    story: list[tuple[float, Event] | Action | str] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    """Moves begun, claims by how they ended, and so on: a history that nothing happens in shows nothing."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.at_step = 0
        self.agents: dict[str, Agent] = {}
        self.told: dict[str, deque[Event]] = {}
        """What watches have yet to tell, by object."""
        self.writes: deque[Action] = deque()
        self.late: list[Action] = []
        """Writes that are under way though we gave them up."""
        self.outcomes: list[Written] = []
        self.placed: dict[str, str] = {}
        """Pods that a cycle of ours has reserved and not bound."""
        self.started: set[str] = set()
        self.troubled = True
        self.wake_at: float | None = None

    # one history

    def play(self, steps: Iterable[Happening]) -> None:
        """Raises `Violation`. Each step draws from its own chances, so that one can be left out and the rest stays."""
        self._begin()
        for number, happening in enumerate(steps):
            self.at_step = number
            self.rng = random.Random(happening.luck)
            self._happen(happening.what)
        self.rng = random.Random(f"settle {self.seed}")
        self.settle()

    def _begin(self) -> None:
        if self.seed % CHAINED == 0:
            self._begin_with_a_chain()
            return
        rng = self.rng
        for number in range(rng.randint(3, 5)):
            total = rng.randint(8, 16)
            self.world.add_node(f"n{number}", _both(total), _both(int(total * rng.choice((0.7, 0.8, 1.0)))))
        free = {name: node.total.cpu for name, node in self.world.nodes.items()}
        for number in range(rng.randint(4, 9)):
            size, node = rng.randint(1, 4), rng.choice(list(free))
            if free[node] < size:
                continue
            free[node] -= size
            held, name = _both(size), f"v{number}"
            machine = VirtualMachine(name, held, held, held, UNIT, rng.random() < 0.75, number, rng.choice((0, 0, 1)))
            machine.overcommit = rng.choice((1000, 1000, 1500))
            self.agents[name] = Agent(name, rng.random() < 0.5, held, _both(rng.choice((1, 1, 2))))
            self.world.add_machine(machine, node)
        self._start()

    def _begin_with_a_chain(self) -> None:
        """`a` is short of 3; only `b` can make room, and it fits on n1 alone, once `f` has left that for n2 (B19)."""
        for name in ("n0", "n1", "n2"):
            self.world.add_node(name, _both(10), _both(10))
        for name, size, node in (("a", 4, "n0"), ("b", 6, "n0"), ("f", 3, "n1"), ("g", 3, "n1"), ("h", 7, "n2")):
            held = _both(size)
            self.agents[name] = Agent(name, self.rng.random() < 0.5, held, UNIT)
            machine = VirtualMachine(name, held, held, held, UNIT, name in ("b", "f"), len(self.agents))
            self.world.add_machine(machine, node)
        self._start()
        self._request(self.agents["a"], Asked("a", UNIT, _both(7), _both(4)))
        self._drain_told()
        self.now += self.rules.demand_after_s
        self._beat()

    def _happen(self, what: What) -> None:
        self.happened[what.value] += 1
        match what:
            case What.TOLD:
                self._tell()
            case What.WRITE:
                self._write()
            case What.HEAR:
                self._hear()
            case What.ASK:
                self._ask()
            case What.ANSWER:
                self._answer()
            case What.USE:
                self._use()
            case What.TIME:
                self._pass_time()
            case What.MIGRATE:
                self._migrate()
            case What.BIND_TARGET:
                self._bind_target()
            case What.PLACE:
                self._place()
            case What.RESTART:
                self._restart()
            case What.ASK_AGAIN:
                self._ask_again()
            case What.BOUND_BY_OTHERS:
                self._bind_behind_our_back()
            case What.DELETE_A_POD:
                self._delete_something()
            case What.DELETE_A_MIGRATION:
                self._delete_a_migration()
            case What.MIGRATE_BY_HAND:
                self._migrate_by_hand()
            case What.FAIL_A_MIGRATION:
                self._fail_a_migration()
            case What.RESIZE_A_NODE:
                self._resize_a_node()
            case What.LOSE_A_NODE:
                self._lose_a_node()
            case What.CORDON_A_NODE:
                self._cordon_a_node()
            case What.REFUSE_A_TARGET:
                self._refuse_a_target()
            case What.BIND_A_TARGET_AT_HOME:
                self._bind_a_target_at_home()
            case What.EVICT_A_MACHINE:
                self._evict_a_machine()
            case What.WRITE_LATE:
                self._write_late()
            case _:
                assert_never(what)

    # the scheduler

    def _step(self, event: Event) -> None:
        self.story.append((self.now, event))
        decision = step(self.state, event, self.now, self.rules)
        if self.rng.random() < 0.05 and step(self.state, event, self.now, self.rules) != decision:
            self._check((f"I10: {event} is decided in two ways",))
        stepped = Stepped(self.state, event, decision, self.now, self.rules)
        self.state, self.wake_at = decision.state, decision.wake_at
        self.story += decision.actions
        self._check(broken(stepped))
        self._check(moved_for_the_ignored(stepped))
        self._check(too_little_booked(self.state, self._uses()))
        self.writes.extend(decision.actions)
        for action in decision.actions:
            self.happened[type(action).__name__] += 1
            if isinstance(action, StartMove) and action.claim is not None:
                self.happened["link of a chain"] += action.claim.beneficiary.kind is BeneficiaryKind.TARGET
            if isinstance(action, Tell):
                self.happened[str(action.fields.get("outcome", action.reason))] += 1

    def _check(self, problems: Iterable[str]) -> None:
        found = list(problems)
        if found:
            raise Violation("\n".join((f"seed {self.seed}:", *found)))

    def told_story(self) -> list[str]:
        """A line for each event with its time, and one for each action that it led to."""
        return [f"{each[0]:g} {each[1]}" if isinstance(each, tuple) else f"    {each}" for each in self.story]

    def _uses(self) -> dict[str, Amounts]:
        return {
            vm.runs_in: vm.use.most(self.agents[vm.name].permit if vm.name in self.agents else vm.use)
            for vm in self.world.machines.values()
        }

    def _start(self) -> None:
        self.state = State()
        self.told, self.outcomes, self.placed = {}, [], {}
        self.writes.clear()
        for event in self.world.listing():
            self._step(event)
        self._check(
            changed_by_a_restart(self.state, (vm.runs_in for vm in self.world.machines.values()), self.world.pod)
        )

    def _restart(self) -> None:
        """Requests under way are never answered; writes under way may still be carried out."""
        self.story.append("-- restart")
        self.late += [action for action in self.writes if self.rng.random() < 0.2]
        for agent in self.agents.values():
            agent.waits_for = None
        self._start()

    def _tell(self) -> None:
        waiting_ = [key for key, events in self.told.items() if events]
        if waiting_:
            event = self.told[self.rng.choice(waiting_)].popleft()
            self._step(event)
            if self.troubled and self.rng.random() < 0.05:
                self.happened["told twice"] += 1
                self._step(event)

    def _seen(self, events: Iterable[Event]) -> None:
        for event in events:
            self.told.setdefault(_object(event), deque()).append(event)

    def _write(self) -> None:
        if not self.writes:
            return
        action, luck = self.writes.popleft(), self.rng.random()
        if self.troubled and luck < 0.05:
            self.happened["write lost"] += 1
            self.outcomes.append(Written(action, "unknown"))
            self.late.append(action)
            return
        events = self.world.perform(action, self.now)
        self.story.append(f"{type(action).__name__} was {'refused' if events is None else 'carried out'}")
        self._seen(events or ())
        outcome = "refused" if events is None else "unknown" if self.troubled and luck < 0.1 else "ok"
        self.happened[f"write {outcome}"] += 1
        self.outcomes.append(Written(action, outcome))

    def _write_late(self) -> None:
        if self.late:
            self._seen(self.world.perform(self.late.pop(0), self.now) or ())

    def _hear(self) -> None:
        if self.outcomes:
            self._step(self.outcomes.pop(0))

    def _pass_time(self) -> None:
        self.now += self.rng.choice((0.1, 1.0, 5.0, 5.0, 20.0))
        self._beat()

    def _beat(self) -> None:
        """As long as another one is due at once."""
        for _ in range(MOST_BEATS):
            self._step(Beat())
            if self.wake_at is None or self.wake_at > self.now:
                return
        self._check((f"B42: another beat is due at {self.wake_at}, and it is {self.now}",))

    # agents

    def _agent(self) -> Agent | None:
        here = [agent for agent in self.agents.values() if agent.machine in self.world.machines]
        return self.rng.choice(here) if here else None

    def _ask(self) -> None:
        agent = self._agent()
        if agent is None or agent.waits_for is not None:
            return
        vm = self.world.machines[agent.machine]
        if vm.phase is Phase.FROZEN or not self.state.started:
            return
        wanted = _both(self.rng.randint(1, 8))
        if self.rng.random() < 0.2:
            wanted = Amounts.of(wanted.cpu, self.rng.randint(1, 8))
        if wanted.least(vm.use) != vm.use:
            vm.use = vm.use.least(wanted)
            self._seen([self.world.seen(vm.runs_in)])
        last = agent.permit
        if agent.lowers:
            agent.permit = agent.permit.least(wanted)
            agent.sequence += 1
        self._request(agent, Asked(vm.runs_in, agent.unit, wanted, last, agent.lowers, agent.sequence or None))

    def _request(self, agent: Agent, asked: Asked) -> None:
        self._seen(self.world.request(agent.machine, asked.unit, asked.requested))
        agent.waits_for = asked
        self._step(asked)

    def _ask_again(self) -> None:
        """The same once more, as though the first had not arrived."""
        agent = self._agent()
        if agent is not None and agent.waits_for is not None:
            self._step(agent.waits_for)

    def _answer(self) -> None:
        agent = self._agent()
        if agent is None or agent.waits_for is None:
            return
        asked, agent.waits_for = agent.waits_for, None
        vm = self.world.machines[agent.machine]
        if asked.uid != vm.runs_in or (self.troubled and self.rng.random() < 0.15):
            return
        told = answer(self.state, asked, self.rules)
        if told is None or told.migrate:
            return
        if not settled(self.state, asked.uid) and told.permit.exceeds(agent.permit):
            agent.waits_for = asked
            return
        if told.permit.exceeds(asked.requested):
            raise Violation(f"seed {self.seed}: I11: {told} to {asked}")
        if vm.use.within(told.permit):
            agent.permit = told.permit

    def _use(self) -> None:
        agent = self._agent()
        if agent is None:
            return
        vm = self.world.machines[agent.machine]
        if vm.phase is not Phase.FROZEN and vm.use != agent.permit:
            vm.use = vm.use.most(agent.permit)
            self._seen([self.world.seen(vm.runs_in)])

    # migrations

    def _migration(self) -> Migration | None:
        return self.rng.choice(list(self.world.migrations.values())) if self.world.migrations else None

    def _migrate(self) -> None:
        move = self._migration()
        if move is not None:
            self._come_on(move)

    def _come_on(self, move: Migration) -> None:
        """By one step of its controller's, if it can."""
        if move.phase == "" and move.machine in self.world.machines and move.source in self.world.pods:
            vm = self.world.machines[move.machine]
            if vm.phase is Phase.RUNNING and vm.runs_in == move.source:
                self._seen(self.world.freeze(move.name))
        elif move.phase == "Pending" and self.world.pods[move.target].node == move.source_node:
            self._seen(self.world.fail(move.name, self.now))  # as `situate.vm.machines` does
        elif move.phase == "Pending" and self.world.pods[move.target].node:
            self._seen(self.world.copy(move.name, COPIED, self.now))
        elif move.phase == "Running" and move.remaining > 0:
            self._seen(
                self.world.copy(
                    move.name, max(0, move.remaining - self.rng.choice((0, COPIED * 2 // 5, COPIED * 3 // 5))), self.now
                )
            )
        elif move.phase == "Running":
            self._seen(self.world.succeed(move.name))
        elif move.phase == "Succeeded":
            self._seen(self.world.delete_pod(move.source, self.now))

    def _bind_target(self) -> None:
        """The plugin offers the reserved node only; of a foreign one, any other with room."""
        for move in self.world.migrations.values():
            pod = self.world.pods.get(move.target)
            known = self.state.moves.get(f"default/{move.name}")
            if pod is None or pod.node or pod.uid in self.placed or pod.role is not Role.TARGET:
                continue
            if known is None or not known.alive or not self.state.started:
                continue
            source = self.state.pod(move.source)
            holds = self.world.pod(pod.uid).reserved
            if source is not None:
                holds = holds.most(source.reserved)
            node = known.target_node or self._room_for(holds, move.source_node)
            if not node or node not in self.state.nodes or node == known.source_node:
                continue
            seen = self.world.pod(pod.uid)
            room = self.state.avail(node, "")
            if known.target_node and not known.target_booked:
                room += known.amount
            if seen.counted(holds).within(room):
                self.placed[pod.uid] = node
                self._step(PodReserved(seen, node))
                return
        self._bind()

    def _bind(self) -> None:
        """What was reserved is bound, or is not."""
        for uid, node in list(self.placed.items()):
            del self.placed[uid]
            there = uid in self.world.pods and not self.world.pods[uid].node and node in self.world.nodes
            if there and self.rng.random() < 0.9:
                self._seen(self.world.bind(uid, node))
            else:
                self._step(PodUnreserved(uid))
            return

    # others

    def _room_for(self, amount: Amounts, but: str = "") -> str:
        fits = [name for name in self.state.nodes if name != but and amount.within(self.state.avail(name, ""))]
        return self.rng.choice(fits) if fits else ""

    def _place(self) -> None:
        size = _both(self.rng.randint(1, 3))
        node = self._room_for(size) if self.state.started and len(self.world.pods) < 16 else ""
        if node in self.world.nodes:
            uid = f"p{self.world.made}"
            self.world.made += 1
            self.world.add_pod(uid, size, node)
            self._step(PodReserved(self.world.pod(uid), node))
            self._seen([self.world.seen(uid)])

    def _bind_behind_our_back(self) -> None:
        if self.world.nodes:
            uid = f"{self.rng.choice(('q', 'q', IGNORED))}{self.world.made}"
            self.world.made += 1
            size, node = _both(self.rng.randint(1, 3)), self.rng.choice(list(self.world.nodes))
            self._seen([self.world.add_pod(uid, size, node)])

    def _delete_something(self) -> None:
        uids = [uid for uid in self.world.pods if uid not in self.placed]
        plain = [uid for uid in uids if not self.world.pods[uid].machine]
        if uids:
            uid = self.rng.choice(plain if plain and self.rng.random() < 0.7 else uids)
            self._seen(self.world.delete_pod(uid, self.now))

    def _delete_a_migration(self) -> None:
        move = self._migration()
        if move is not None:
            self._seen(self.world.delete_migration(move.name, self.now))

    def _fail_a_migration(self) -> None:
        move = self._migration()
        if move is not None and move.phase not in ("Succeeded", "Failed"):
            self._seen(self.world.fail(move.name, self.now))

    def _migrate_by_hand(self) -> None:
        agent = self._agent()
        if agent is not None and not any(move.machine == agent.machine for move in self.world.migrations.values()):
            self._seen(self.world.start_by_hand(agent.machine, self.now))

    def _resize_a_node(self) -> None:
        if self.world.nodes:
            node = self.world.nodes[self.rng.choice(list(self.world.nodes))]
            total = _both(max(6, node.total.cpu + self.rng.choice((-2, 2))))
            self._seen([self.world.add_node(node.name, total, node.watermark.least(total))])

    def _lose_a_node(self) -> None:
        """For a moment."""
        if self.rng.random() < 0.3 and self.world.nodes:
            node = self.world.nodes[self.rng.choice(list(self.world.nodes))]
            self._seen([NodeGone(node.name), NodeSeen(node)])

    def _cordon_a_node(self) -> None:
        """Until it is let go."""
        if self.world.nodes:
            name = self.rng.choice(list(self.world.nodes))
            self._cordon(name, self.world.nodes[name].schedulable)

    def _cordon(self, name: str, cordoned: bool) -> None:
        node = self.world.nodes[name] = replace(self.world.nodes[name], schedulable=not cordoned)
        self._seen([NodeSeen(node)])

    def _refuse_a_target(self) -> None:
        """A cycle of the scheduler finds that the pod may not go there, for whatever reason."""
        coming = [key for key, move in self.state.moves.items() if move.waits_for_its_target and move.target_node]
        if coming and self.state.started:
            key = self.rng.choice(coming)
            self._step(TargetRefused(key, self.state.moves[key].target_node, "it has a taint"))

    def _bind_a_target_at_home(self) -> None:
        """Others bind it to the node that its machine is to leave (N9)."""
        for move in self.world.migrations.values():
            pod = self.world.pods.get(move.target)
            if pod is not None and not pod.node and pod.uid not in self.placed and move.source_node in self.world.nodes:
                self.happened["target bound at home"] += 1
                self._seen(self.world.bind(pod.uid, move.source_node))
                return

    def _evict_a_machine(self) -> None:
        """Somebody tries to: its machine is marked to leave its node instead (B48)."""
        agent = self._agent()
        if agent is not None:
            runs_in = self.world.machines[agent.machine].runs_in
            self.world.evacuations[agent.machine] = Evacuation(self.world.pods[runs_in].node, self.now)
            self._seen([self.world.seen(runs_in)])

    # the end

    def settle(self) -> None:
        """No more trouble, no more wishes: all that is under way comes to an end, and then nothing moves (I5, I7)."""
        self.troubled = False
        self.story.append("-- settle")
        self.late.clear()
        for name, node in self.world.nodes.items():
            if not node.schedulable:
                self._cordon(name, False)
        for seconds in SETTLING_S:
            self._let_time_pass(seconds)
        begun = self.happened["StartMove"]
        for seconds in QUIET_S:
            self._let_time_pass(seconds)
        self._check(self._unsettled(begun))
        before = self.state
        self._restart()
        self._drain()
        self._check(regranted(before, self.state))

    def _let_time_pass(self, seconds: float) -> None:
        self._drain()
        self.now += seconds
        self._beat()
        self._drain()

    def _drain(self) -> None:
        """All that is under way comes to its end."""
        for _ in range(60):
            before = len(self.story)
            self._drain_told()
            while self.writes:
                self._write()
            while self.outcomes:
                self._hear()
            for move in list(self.world.migrations.values()):
                self._come_on(move)
            self._bind_target()
            if len(self.story) == before and not any(self.told.values()):
                break

    def _drain_told(self) -> None:
        while any(self.told.values()):
            self._tell()

    def _could_grow(self, pod: Pod) -> bool:
        room = self.state.avail(self.state.where[pod.uid], pod.uid)
        return pod_within(pod, room, joint=True).reserved.exceeds(pod.reserved)

    def _unsettled(self, begun: int) -> Iterable[str]:
        if more := self.happened["StartMove"] - begun:
            yield f"I7: {more} moves began although nothing changes"
        for claim in self.state.claims.values():
            yield f"B7: claim {claim.id} is open, and nothing moves"
        for key, move in self.state.moves.items():
            if not move.foreign or move.alive:
                yield f"B22: move {key} is not over"
        for uid in self.state.writes:
            known = self.state.pod(uid)
            if known is None or not known.frozen:
                yield f"F1: what was written for {uid} never showed"
        for uid in self.state.waiters:
            pod = self.state.pod(uid)
            if pod is None:
                yield f"I5: {uid} waits, and is not there"
            elif pod.frozen:
                continue  # its machine runs elsewhere, and nobody deletes what is left
            elif self._could_grow(pod):
                yield f"I5: {uid} waits, and there is room for it"
        for name, node in self.state.nodes.items():
            uids = {uid for uid, pod in self.world.pods.items() if pod.node == name}
            if uids != set(node.pods):
                yield f"node {name} has {sorted(uids)}, and {sorted(node.pods)} are booked"


def _both(number: int) -> Amounts:
    return Amounts.of(number, number)


def _object(event: Event) -> str:
    match event:
        case NodeSeen(node=node):
            return f"node {node.name}"
        case NodeGone(name=name):
            return f"node {name}"
        case PodSeen(pod=pod):
            return f"pod {pod.uid}"
        case PodGone(uid=uid):
            return f"pod {uid}"
        case MigrationSeen(name=name) | MigrationGone(name=name):
            return f"migration {name}"
    raise AssertionError(f"{event} is nothing that a watch tells")
