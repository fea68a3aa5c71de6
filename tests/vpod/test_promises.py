"""The safety promises of section 13 as properties over random histories of one StatefulSet, hostile ones included.

A history is a list of plain steps, so a failing one prints as it can be replayed. The state that is kept along the
way is compared with one rebuilt from listings after every step.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.vpod.model.options import Options, PackOrder, PolicyName, Rescale, Shrink, Topology
from situate.vpod.model.pod_classes import NodeFacts, PodClass, PodFacts
from situate.vpod.model.vpod import Key, Placement, PlainVPod
from situate.vpod.placement.decide import Decision, commit, decide, pods_to_cover
from situate.vpod.state.fairness_limits import Rule
from situate.vpod.state.knative_json import differences
from situate.vpod.state.state import State
from situate.vpod.state.vpod_view import VPodView

PODS = 6
NODES = {"n0": "a", "n1": "a", "n2": "b", "n3": None}
WEIGHTS = {"u": 1, "v": 1, "w": 2}

POD_CHANGES: dict[str, dict[str, Any]] = {
    "ok": {},
    "pending": {"node": ""},
    "annotated": {"annotation": "true"},
    "annotated false": {"annotation": "no"},
    "failed": {"phase": "Failed"},
    "terminating": {"deleting": True},
    "not ready": {"ready": False},
    "node gone": {"node": "nowhere"},
}
NODE_CHANGES: dict[str, dict[str, Any]] = {
    "ok": {},
    "cordoned": {"unschedulable": True},
    "not ready": {"ready": False},
    "unreachable": {"unreachable": True},
}


@dataclass
class World:
    """What the API server would list, and the state that follows it."""

    options: Options
    pods: dict[int, PodFacts] = field(default_factory=dict)
    nodes: dict[str, NodeFacts] = field(default_factory=dict)
    vpods: dict[str, PlainVPod] = field(default_factory=dict)
    replicas: int = PODS
    now: float = 0.0

    def __post_init__(self) -> None:
        self.nodes = {name: NodeFacts(name, zone) for name, zone in NODES.items()}
        self.pods = {o: PodFacts(f"s-{o}", f"n{o % len(NODES)}") for o in range(PODS)}
        self.vpods = {
            name: PlainVPod(Key("ns" if name < "w" else "other", name), 0, weight=weight)
            for name, weight in WEIGHTS.items()
        }
        self.state = State.rebuild(
            self.options, self.replicas, self.pods.values(), self.vpods.values(), 0.0, self.nodes.values()
        )

    def set_pod(self, ordinal: int, change: str) -> None:
        if change == "missing":
            self.pods.pop(ordinal, None)
            self.state.remove_pod(f"s-{ordinal}", self.now)
        else:
            self.pods[ordinal] = msgspec.structs.replace(
                PodFacts(f"s-{ordinal}", f"n{ordinal % len(NODES)}"), **POD_CHANGES[change]
            )
            self.state.observe_pod(self.pods[ordinal], self.now)

    def set_node(self, name: str, change: str) -> None:
        if change == "gone":
            self.nodes.pop(name, None)
            self.state.remove_node(name, self.now)
        else:
            self.nodes[name] = msgspec.structs.replace(NodeFacts(name, NODES[name]), **NODE_CHANGES[change])
            self.state.observe_node(self.nodes[name], self.now)

    def set_replicas(self, replicas: int, ours: bool) -> None:
        self.replicas = replicas
        self.state.observe_replicas(replicas, self.now, ours)

    def set_vpod(self, name: str, **changes: Any) -> None:
        known = self.vpods.get(name) or PlainVPod(Key("ns", name), 0, weight=WEIGHTS[name])
        self.vpods[name] = replace(known, **changes)
        self.state.observe_vpod(self.vpods[name], self.now)

    def delete_vpod(self, name: str) -> None:
        gone = self.vpods.pop(name, None)
        if gone is not None:
            self.state.remove_vpod(gone.key, self.now)

    def set_capacity(self, capacity: int) -> None:
        self.options = replace(self.options, capacity=capacity)
        self.state.reconfigure(self.options, self.now)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.state.advance(self.now)

    def schedule(self, name: str, written: bool) -> None:
        """One schedule with all that must hold of it; without `written` the status write is lost."""
        vpod = self.vpods.get(name)
        if vpod is None:
            return
        before = Before.of(self.state, vpod)
        decision = decide(self.state, vpod, self.now)
        assert decide(self.state, vpod, self.now) == decision, "S9: equal inputs, another answer"
        commit(self.state, decision)
        check(self.state, vpod, before, decision)
        if decision.reservation:  # without one, the status is what it starts from
            again = decide(self.state, vpod, self.now)
            assert not again.delta, f"deciding again moves {again.delta}"
        if written:
            self.set_vpod(name, placements=decision.placements)

    def check_rebuilt(self) -> None:
        rebuilt = State.rebuild(
            self.options,
            self.replicas,
            self.pods.values(),
            self.vpods.values(),
            self.now,
            self.nodes.values(),
            reserved=self.state.reservations(),
            previous=self.state,
        )
        assert differences(self.state, rebuilt) == [], "S10"


@dataclass(frozen=True)
class Before:
    """What a decision found."""

    start: Mapping[int, int]
    adding: Mapping[int, int]
    reserved: Mapping[int, int]
    ousted: frozenset[int]

    @classmethod
    def of(cls, state: State, vpod: PlainVPod) -> Before:
        slots = state.slots
        return cls(
            dict(VPodView.from_state(state, vpod).start),
            {o: slot.adding for o, slot in slots.items()},
            reserved_units(state),
            frozenset(state.ousted),
        )


def reserved_units(state: State) -> dict[int, int]:
    """By ordinal."""
    units: dict[int, int] = {}
    for key, places in state.reservations().items():
        for ordinal, vreplicas in places.items():
            units[ordinal] = units.get(ordinal, 0) + vreplicas * WEIGHTS[key.name]
    return units


def check(state: State, vpod: PlainVPod, before: Before, decision: Decision) -> None:
    capacity, after = state.options.capacity, decision.reservation
    total = sum(after.values())
    assert [p.pod_name for p in decision.placements] == [f"s-{o}" for o in sorted(after)]
    assert all(n > 0 for n in after.values())
    for ordinal, slot in state.slots.items():
        assert slot.adding <= max(capacity, before.adding.get(ordinal, 0)), f"S1: pod {ordinal} grew above capacity"
        reserved = reserved_units(state).get(ordinal, 0)
        assert reserved <= max(capacity, before.reserved.get(ordinal, 0)), f"S1: pod {ordinal}"
    assert total <= decision.target, "S2: more than the target"
    assert total + decision.left >= decision.wanted, "S2: less than wanted"
    assert decision.left == max(0, decision.wanted - total)
    for ordinal, held in after.items():
        pod_class = state.verdict(ordinal).pod_class
        assert pod_class is not PodClass.REJECT, f"S4: {ordinal} is rejected"
        if held > before.start.get(ordinal, 0):
            assert pod_class is PodClass.ACCEPT, f"S4: {ordinal} receives and does not accept"
    situation = VPodView.from_state(state, vpod)
    if decision.left and (decision.shortage is None or decision.shortage.limit is None):
        roomy = [o for o in state.slots if situation.free_vreplicas(o, after.get(o, 0)) > 0]
        assert not roomy, f"S3: {decision.left} left and room on {roomy}"
    satisfied = sum(before.start.values()) == decision.target and not before.ousted & before.start.keys()
    if satisfied and len(before.start) >= pods_to_cover(state, decision.target):
        assert dict(after) == before.start, "S5"
    assert state.reservations().get(vpod.key, {}) == dict(after), "S6"


ORDINALS = st.integers(0, PODS + 1)
NAMES = st.sampled_from(sorted(WEIGHTS))
STRANGE = st.builds(
    Placement,
    ORDINALS.map(lambda o: f"s-{o}")
    | st.sampled_from(["s-x", "other-0", "", "s-", "s-01", "s--1", "s-999999999", "s-٣"]),
    st.integers(-3, 8) | st.sampled_from([-(2**31), 2**31 - 1]),
)
STEPS = st.one_of(
    st.tuples(st.just("schedule"), NAMES, st.booleans()),
    st.tuples(st.just("schedule"), NAMES, st.just(True)),
    st.tuples(st.just("want"), NAMES, st.integers(0, 14)),
    st.tuples(st.just("pod"), st.integers(0, PODS), st.sampled_from([*POD_CHANGES, "missing", "ok"])),
    st.tuples(st.just("node"), st.sampled_from(sorted(NODES)), st.sampled_from([*NODE_CHANGES, "gone", "ok"])),
    st.tuples(st.just("replicas"), st.integers(0, PODS + 1), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from([5.0, 61.0])),
    st.tuples(st.just("status"), NAMES, st.lists(STRANGE, max_size=4).map(tuple)),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("terminate"), NAMES, st.sampled_from([None, "2026-01-01T00:00:00Z"])),
    st.tuples(st.just("capacity"), st.integers(1, 6)),
)
OPTIONS = st.builds(
    Options,
    st.just("ns"),
    st.just("s"),
    st.integers(1, 6),
    min_replicas=st.integers(0, 4),
    policy=st.sampled_from(list(PolicyName)),
    shrink=st.sampled_from(list(Shrink)),
    topology=st.sampled_from(list(Topology)),
    pack_order=st.sampled_from(list(PackOrder)),
    rescale=st.sampled_from(list(Rescale)),
    require_ready=st.booleans(),
)


def apply(world: World, step: tuple[Any, ...]) -> None:
    match step:
        case ("schedule", name, written):
            world.schedule(name, written)
        case ("want", name, wanted):
            world.set_vpod(name, vreplicas=wanted)
        case ("pod", ordinal, change):
            world.set_pod(ordinal, change)
        case ("node", name, change):
            world.set_node(name, change)
        case ("replicas", replicas, ours):
            world.set_replicas(replicas, ours)
        case ("wait", seconds):
            world.wait(seconds)
        case ("status", name, placements):
            world.set_vpod(name, placements=placements)
        case ("delete", name):
            world.delete_vpod(name)
        case ("terminate", name, at):
            world.set_vpod(name, deletion_timestamp=at)
        case ("capacity", capacity):
            world.set_capacity(capacity)
        case _:
            raise AssertionError(step)


@pytest.mark.rule("vpod:S1", "vpod:S2", "vpod:S3", "vpod:S4", "vpod:S5", "vpod:S6", "vpod:S9", "vpod:S10", "vpod:B12")
@settings(max_examples=100)
@given(OPTIONS, st.booleans(), st.lists(STEPS, min_size=1, max_size=25))
def test_promises_hold_after_every_step(options: Options, required: bool, steps: list[tuple[Any, ...]]) -> None:
    if required and options.topology is not Topology.NONE:
        options = replace(options, topology_required=True)
    world = World(options)
    for step in steps:
        apply(world, step)
        world.check_rebuilt()


CHANGES = [*POD_CHANGES, "missing", *["ok"] * 7]
NODE_STATES = [*NODE_CHANGES, "gone", *["ok"] * 4]
STRANGE_PODS = ["s-0", "s-1", "s-2", "s-3", "s-6", "s-x", "other-0", "s-999999"]
WEIGHED = {"schedule": 40, "want": 14, "pod": 14, "node": 6, "replicas": 3, "wait": 6, "status": 4} | dict.fromkeys(
    ("delete", "terminate", "capacity"), 1
)


def random_step(rng: random.Random) -> tuple[Any, ...]:
    name = rng.choice(sorted(WEIGHTS))
    match rng.choices(list(WEIGHED), list(WEIGHED.values()))[0]:
        case "schedule":
            return ("schedule", name, rng.random() < 0.8)
        case "want":
            return ("want", name, rng.choice([0, 1, 2, 3, 5, 8, 14, 20]))
        case "pod":
            return ("pod", rng.randrange(PODS + 1), rng.choice(CHANGES))
        case "node":
            return ("node", rng.choice(sorted(NODES)), rng.choice(NODE_STATES))
        case "replicas":
            return ("replicas", rng.choice([0, 2, 4, 5, 6, 6, 6, 7]), rng.random() < 0.5)
        case "wait":
            return ("wait", rng.choice([5.0, 61.0]))
        case "status":
            entries = [
                (rng.choice(STRANGE_PODS), rng.choice([-1, 0, 1, 2, 3, 8, 2**31 - 1])) for _ in range(rng.randrange(4))
            ]
            return ("status", name, tuple(Placement(pod, vreplicas) for pod, vreplicas in entries))
        case "delete":
            return ("delete", name)
        case "terminate":
            return ("terminate", name, rng.choice([None, None, "2026-01-01T00:00:00Z"]))
        case _:
            return ("capacity", rng.randint(1, 6))


def random_options(rng: random.Random) -> Options:
    topology = rng.choice(list(Topology))
    return Options(
        "ns",
        "s",
        rng.randint(1, 6),
        min_replicas=rng.choice([0, 0, 1, 2, 4]),
        policy=rng.choice(list(PolicyName)),
        shrink=rng.choice(list(Shrink)),
        topology=topology,
        topology_required=topology is not Topology.NONE and rng.random() < 0.5,
        pack_order=rng.choice(list(PackOrder)),
        rescale=rng.choice(list(Rescale)),
        require_ready=rng.random() < 0.2,
    )


@pytest.mark.rule("vpod:S1", "vpod:S2", "vpod:S3", "vpod:S4", "vpod:S5", "vpod:S6", "vpod:S9", "vpod:S10", "vpod:D9")
@pytest.mark.parametrize(
    "first_seed", [0, 25, 50, *(pytest.param(seed, marks=pytest.mark.verify) for seed in range(75, 200, 25))]
)
def test_promises_hold_through_long_histories(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 25):
        rng = random.Random(seed)
        world, steps = World(random_options(rng)), []
        for _ in range(100):
            steps.append(random_step(rng))
            try:
                apply(world, steps[-1])
                world.check_rebuilt()
            except Exception as error:
                raise AssertionError(f"seed {seed}, step {len(steps)}: {error}; history: {steps}") from error


def replay(options: Options, *steps: tuple[Any, ...]) -> World:
    world = World(options)
    for step in steps:
        apply(world, step)
    return world


@pytest.mark.rule("vpod:D7", "vpod:S3")
def test_covering_more_pods_loses_nothing_where_only_own_pods_have_room() -> None:
    world = replay(Options("ns", "s", 2, min_replicas=4), ("want", "w", 5), ("schedule", "w", True), ("want", "v", 8))
    decision = decide(world.state, world.vpods["v"], 0.0)
    assert (decision.reservation, decision.left) == ({5: 2}, 6)


@pytest.mark.rule("vpod:B8")
def test_a_full_node_that_lags_stops_the_others_at_every_call_alike() -> None:
    options = Options("ns", "s", 6, topology=Topology.NODE, topology_required=True)
    filled = (Placement("s-1", 6), Placement("s-5", 6))
    world = replay(options, ("status", "w", filled), ("want", "u", 6), ("schedule", "u", True), ("schedule", "u", True))
    assert world.state.reservations()[Key("ns", "u")] == {0: 1, 2: 1, 3: 1}
    assert decide(world.state, world.vpods["u"], 0.0).left == 3


@pytest.mark.rule("vpod:B8", "vpod:S3")
def test_the_rule_is_named_also_where_the_room_is_one_vpods_alone() -> None:
    world = replay(
        Options("ns", "s", 3, topology=Topology.NODE, topology_required=True),
        ("replicas", 4, True),
        ("want", "v", 12),
        ("schedule", "v", True),
        ("want", "v", 2),
        ("schedule", "v", False),  # its status still takes the room of the other pods
        ("want", "v", 8),
        ("status", "u", (Placement("s-2", 2),)),
    )
    decision = decide(world.state, world.vpods["v"], 0.0)
    assert (decision.reservation, decision.left) == ({0: 2, 1: 2, 2: 1, 3: 2}, 1)
    assert decision.shortage is not None
    assert decision.shortage.limit is not None
    assert decision.shortage.limit.rule is Rule.TOPOLOGY


@pytest.mark.rule("vpod:B8")
@given(st.text("abc", min_size=1, max_size=8), st.integers(0, 40))
def test_from_nothing_zones_differ_by_one_and_pods_inside_a_zone_too(zones: str, wanted: int) -> None:
    options = Options("ns", "s", 40, topology=Topology.ZONE)
    pods = [PodFacts(f"s-{i}", f"n{i}") for i in range(len(zones))]
    nodes = [NodeFacts(f"n{i}", zone) for i, zone in enumerate(zones)]
    vpod = PlainVPod(Key("ns", "v"), wanted)
    placed = decide(State.rebuild(options, len(zones), pods, [vpod], 0.0, nodes), vpod, 0.0).reservation
    by_zone = {zone: [placed.get(o, 0) for o in range(len(zones)) if zones[o] == zone] for zone in set(zones)}
    totals = [sum(inside) for inside in by_zone.values()]
    assert sum(totals) == wanted
    assert max(totals) - min(totals) <= 1
    assert all(max(inside) - min(inside) <= 1 for inside in by_zone.values())


@pytest.mark.rule("vpod:B9")
@given(st.dictionaries(st.integers(0, 5), st.integers(1, 9), min_size=1), st.data())
def test_shrinking_by_spread_never_widens_the_gap(placed: dict[int, int], data: st.DataObject) -> None:
    wanted = data.draw(st.integers(1, sum(placed.values())))
    options = Options("ns", "s", 9, shrink=Shrink.SPREAD)
    vpod = PlainVPod(Key("ns", "v"), wanted, tuple(Placement(f"s-{o}", n) for o, n in sorted(placed.items())))
    pods = [PodFacts(f"s-{i}", "n") for i in range(6)]
    after = decide(State.rebuild(options, 6, pods, [vpod], 0.0), vpod, 0.0).reservation
    left = [after.get(o, 0) for o in placed]
    assert sum(left) == wanted
    assert max(left) - min(left) <= max(1, max(placed.values()) - min(placed.values()))
    assert all(after.get(o, 0) <= n for o, n in placed.items())


@pytest.mark.rule("vpod:L1")
@given(st.lists(st.integers(0, 7), min_size=1, max_size=8), st.integers(0, 60), st.sampled_from(list(PolicyName)))
def test_what_fits_is_placed_in_the_first_call(loads: list[int], wanted: int, policy: PolicyName) -> None:
    options = Options("ns", "s", 7, policy=policy)
    pods = [PodFacts(f"s-{i}", "n") for i in range(len(loads))]
    held = tuple(Placement(f"s-{o}", n) for o, n in enumerate(loads) if n)
    other, vpod = PlainVPod(Key("ns", "other"), sum(loads), held), PlainVPod(Key("ns", "v"), wanted)
    decision = decide(State.rebuild(options, len(loads), pods, [other, vpod], 0.0), vpod, 0.0)
    assert decision.left == max(0, wanted - (7 * len(loads) - sum(loads)))
