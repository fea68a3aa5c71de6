"""Plays the scenarios in which Knative is wrong, with the safe profile, through the facade that a consumer uses.

Settle and stabilization are 0. Steps and expectations are partly sentences: the ones that are known stand in the
tables below, any other makes the case skipped.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from situate.vpod.controller.facade import SchedulerConfig, StatefulSetScheduler
from situate.vpod.model.options import DrainOptions, Options, RebalanceOptions, Shrink
from situate.vpod.model.pod_classes import NodeFacts, PodFacts
from situate.vpod.model.vpod import Key, NotEnoughReplicas, Placement, PlainVPod, Scale, pod_name, total_vreplicas
from situate.vpod.state.knative_json import to_json
from situate.vpod.state.state import State
from tests.conformance import knative_policy
from tests.conformance.knative_main import as_json, nodes, pod_facts, replicas, state_json, statefulset, vpod
from tests.conformance.outcome import PASSED, Case, Outcome, UnknownOperationError, UnknownPhraseError, compared, failed

Json = Any
_PERIOD_S = 100.0
_CAPACITY = 10


class ScaleUnreadable(Exception):
    """The one failure of the scale subresource that a step asks for."""


class World:
    """A StatefulSet whose pods follow its scale, a consumer that writes what is scheduled, and the schedulers."""

    def __init__(self, given: Mapping[str, Json], shrink: Shrink = Shrink.AUTO) -> None:
        self.now = 0.0
        self.statefulset = given.get("statefulset", "statefulset-name")
        self.capacity = given.get("capacity", _CAPACITY)
        before = next((given[key] for key in ("scale_replicas", "replicas_before") if given.get(key) is not None), None)
        self.replicas = replicas(given) if before is None else before
        self.replicas_after = given.get("replicas_after")
        listed = given.get("pods")
        if listed is None:
            listed = [self._healthy(ordinal) for ordinal in range(self.replicas)]
        self.pods: dict[str, PodFacts] = {each["name"]: pod_facts(each) for each in listed}
        self.nodes: list[NodeFacts] | None = nodes(given["nodes"]) if "nodes" in given else None
        self.vpods = {each.key: each for each in _vpods(given)}
        self.first = next(iter(self.vpods), None)
        self.failing_reads = 0
        self.moved_before_scale_down = True
        self.results: list[Json] = []  # of each schedule, in order
        self.last: dict[Key, tuple[list[Placement], int]] = {}  # the last result of each vpod and what was left
        self.reserved_after_promote: dict[str, dict[str, int]] | None = None
        self.replicas_log: list[int] = []
        self.free_before: list[int] = []  # `free_cap` as the statuses of the case leave it
        self.case_has_steps = True
        self._options = Options(
            "knative-eventing",
            self.statefulset,
            self.capacity,
            min_replicas=given.get("min_replicas") or 0,
            max_replicas=None,  # Knative has no ceiling
            max_scale_up_step=None,
            refresh_period=_PERIOD_S,
            scale_down_stabilization=0.0,
            drain=DrainOptions(settle=0.0),
            rebalance=RebalanceOptions(enabled=True, interval=_PERIOD_S),
            shrink=shrink,
        )
        self._schedulers: dict[str, StatefulSetScheduler] = {}

    def _healthy(self, ordinal: int) -> dict[str, Json]:
        return {"name": pod_name(self.statefulset, ordinal), "node": f"node-{ordinal}", "ready": True}

    def scheduler(self, name: str = "1") -> StatefulSetScheduler:
        if name not in self._schedulers:
            lister = None if self.nodes is None else self.nodes.copy
            config = SchedulerConfig(
                self._options, self, lambda: list(self.vpods.values()), lambda: list(self.pods.values()), lister
            )
            self._schedulers[name] = StatefulSetScheduler(config, clock=lambda: self.now)
        return self._schedulers[name]

    def get_scale(self, name: str, options: Mapping[str, str] | None = None) -> Scale:
        if self.failing_reads:
            self.failing_reads -= 1
            raise ScaleUnreadable("the API does not answer")
        return Scale("knative-eventing", name, self.replicas, self.replicas, str(len(self.replicas_log)))

    def update_scale(self, name: str, scale: Scale, options: Mapping[str, str] | None = None) -> Scale:
        if scale.spec_replicas < self.replicas:
            cut = {pod_name(self.statefulset, o) for o in range(scale.spec_replicas, self.replicas)}
            lies = {p.pod_name for each in self.vpods.values() for p in each.placements}
            self.moved_before_scale_down &= not cut & lies
        self.scale_to(scale.spec_replicas)
        return Scale("knative-eventing", name, self.replicas, self.replicas, str(len(self.replicas_log)))

    def scale_to(self, replicas: int) -> None:
        """The StatefulSet controller follows at once."""
        for ordinal in range(replicas, self.replicas):
            self.pods.pop(pod_name(self.statefulset, ordinal), None)
        for ordinal in range(self.replicas, replicas):
            facts = pod_facts(self._healthy(ordinal))
            self.pods.setdefault(facts.name, facts)
        self.replicas = replicas
        self.replicas_log.append(replicas)
        for scheduler in self._schedulers.values():  # a watch tells the cache
            scheduler.scales.observe(self.get_scale(self.statefulset))

    def promote(self, name: str = "1") -> None:
        self.scheduler(name).promote()
        self.reserved_after_promote = {str(key): pods for key, pods in self.scheduler(name).reserved().items()}

    def schedule(self, key: Key, name: str = "1") -> None:
        """One schedule, and the write of its result by the consumer; partial results are published too (D18)."""
        scheduler = self.scheduler(name)
        try:
            answer = scheduler.schedule(self.vpods[key])
            assert isinstance(answer, list), "no lister of this world is awaited"
            result, left = answer, 0
        except NotEnoughReplicas as shortage:
            result, left = shortage.placements, shortage.left
        except ScaleUnreadable:
            reserved = {str(each): pods for each, pods in scheduler.reserved().items()}
            self.results.append({"placements": None, "error": True, "reserved": reserved})
            return
        self.results.append(as_json(result))
        self.last[key] = (result, left)
        self.write(key, result)

    def write(self, key: Key, result: list[Placement]) -> None:
        held = self.vpods[key]
        self.vpods[key] = PlainVPod(
            key, held.vreplicas, tuple(result), deletion_timestamp=held.deletion_timestamp, weight=held.weight
        )

    def of_statuses(self) -> dict[str, Json]:
        """The fields of `build_state` as pods and statuses are now."""
        state = State.rebuild(
            self._options, self.replicas, self.pods.values(), self.vpods.values(), 0.0, self.nodes, reserved={}
        )
        return state_json(state)

    def schedule_all(self) -> None:
        for key in list(self.vpods):
            self.schedule(key)

    def beat(self, may_shrink: bool) -> None:
        """A beat, and the consumer's answer to a drain that it began: the vpods concerned are scheduled again."""
        scheduler = self.scheduler()
        if not scheduler.is_leader:
            self.promote()
        scheduler.autoscale(may_shrink)
        if scheduler.state.drain is not None:
            gone = scheduler.state.drain.target
            for key, held in list(self.vpods.items()):
                if any((scheduler.state.ordinal(p.pod_name) or 0) >= gone for p in held.placements):
                    self.schedule(key)

    def rebalance(self) -> None:
        """Intervals until nothing moves any more."""
        scheduler = self.scheduler()
        if not scheduler.is_leader:
            self.promote()
        for _ in range(1000):
            self.now += _PERIOD_S
            moved = scheduler.rebalance()
            assert isinstance(moved, dict)
            if not moved:
                return
            for key, result in moved.items():
                self.last[key] = (result, 0)
                self.write(key, result)
        raise AssertionError("the rebalance never ends")


def _vpods(given: Mapping[str, Json]) -> list[PlainVPod]:
    found = [given["vpod"]] if "vpod" in given else []
    listed = given.get("vpods") or []
    if isinstance(listed, str):
        sentence = _MANY.fullmatch(listed.strip())
        if sentence is None:
            raise UnknownPhraseError(listed)
        listed = [{"key": f"ns/vpod-{i}", "vreplicas": int(sentence[2])} for i in range(int(sentence[1]))]
    return [vpod(each) for each in (*found, *listed, *(given.get("other_vpods") or ()))]


_MANY = re.compile(
    r"(\d+) (?:vpods?|resources?|sources?|consumer ?groups?|objects?)"
    r" (?:of|with|wanting|that want|which want|asking for|having|,) ?(\d+) vreplicas?(?:,? each)?",
    re.IGNORECASE,
)


def _only(world: World) -> Key:
    assert world.first is not None
    return world.first


def _refresh(world: World) -> None:
    world.now += _PERIOD_S
    world.beat(may_shrink=True)


def _fail_once(world: World) -> None:
    world.scheduler().scales.reset()  # what an expired entry amounts to
    world.failing_reads = 1
    world.schedule(_only(world))


def _resize(world: World, key: Key, vreplicas: int) -> None:
    held = world.vpods[key]
    world.vpods[key] = PlainVPod(key, vreplicas, held.placements)


STEPS: Mapping[str, Callable[[World], None]] = {
    "reservations rebuilt from status": World.promote,
    "scale cache expired and the API read fails once: schedule": _fail_once,
    "API back: schedule": lambda world: world.schedule(_only(world)),
    "rebalance": World.rebalance,
}
"""Steps without arguments."""

_WORDS = {"once": 1, "twice": 2}


def _scheduled_by(world: World, match: re.Match[str]) -> None:
    world.schedule(Key.parse(match["key"]), match["number"])


def _scheduled(world: World, match: re.Match[str]) -> None:
    world.schedule(Key.parse(match["key"]))


def _resized(world: World, match: re.Match[str]) -> None:
    """`set vreplicas of a/b to 3 and schedule`; without a name it is the first vpod's."""
    key = Key.parse(match["key"]) if match["key"] else _only(world)
    _resize(world, key, int(match["vreplicas"]))
    if match["then"]:
        world.schedule(key)


def _scaled(world: World, match: re.Match[str]) -> None:
    world.scale_to(int(match["replicas"]))


_STEPS_WITH_ARGUMENTS: tuple[tuple[re.Pattern[str], Callable[[World, re.Match[str]], None]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), meaning)
    for pattern, meaning in (
        (r"controller (?P<number>\d+) schedules(?: and commits)? (?P<key>\S+/\S+)(?: to (?:its )?status)?",
         _scheduled_by),
        (r"schedules? (?:vpod |resource )?(?P<key>\S+/\S+)(?: again)?", _scheduled),
        (r"schedules?(?: again| once more| it| the vpod)?", lambda world, _: world.schedule(_only(world))),
        (r"schedules? (?:all|every|each)(?: of them| vpods?| resources?| sources?)?(?: again)?",
         lambda world, _: world.schedule_all()),
        (r"promote(?:d)?\b.*", lambda world, _: world.promote()),
        (r"demote(?:d)?\b.*", lambda world, _: world.scheduler().demote()),
        (r"set (?:the )?vreplicas(?: of (?P<key>\S+/\S+))? to (?P<vreplicas>\d+)"
         r"(?P<then>(?: and|, then|,)? schedules?(?: it| again)?)?", _resized),
        (r"set (?:the )?replicas to (?P<replicas>\d+)", _scaled),
        (r"refresh period elapses(?: \w+)*(?: with scale-down allowed)?", lambda world, _: _refresh(world)),
        (r"autoscales?(?: again| once more)?", lambda world, _: world.beat(may_shrink=False)),
        (r"autoscales? with scale-down allowed", lambda world, _: _refresh(world)),
    )
)  # fmt: skip
_REPEAT = re.compile(r"repeat (?:(?P<times>\d+) times?|(?P<word>once|twice))")


def perform(world: World, step: str, before: list[str]) -> None:
    """One step; `before` are the steps that a repetition repeats."""
    if _performed(world, step, before):
        return
    plain = re.sub(r"\s*\([^)]*\)", "", step).strip()  # a remark in parentheses is for people
    if plain != step and _performed(world, plain, before):
        return
    raise UnknownPhraseError(step)


def _performed(world: World, step: str, before: list[str]) -> bool:
    if step in STEPS:
        STEPS[step](world)
        return True
    if match := _REPEAT.fullmatch(step):
        for _ in range(int(match["times"] or _WORDS[match["word"]])):
            for number, each in enumerate(before):
                perform(world, each, before[:number])
        return True
    for pattern, meaning in _STEPS_WITH_ARGUMENTS:
        if match := pattern.fullmatch(step):
            meaning(world, match)
            return True
    return False


def _final(world: World, key: Key | None) -> list[Placement]:
    return list(world.vpods[key].placements) if key in world.vpods else []


def _by_key(world: World) -> dict[str, Json]:
    return {str(key): as_json(each.placements) for key, each in world.vpods.items()}


def _used(world: World, ordinal: int) -> int:
    name = pod_name(world.statefulset, ordinal)
    return sum(p.vreplicas for each in world.vpods.values() for p in each.placements if p.pod_name == name)


def _skew(world: World) -> int:
    held = {p.pod_name: p.vreplicas for p in _final(world, world.first)}
    counts = [held.get(name, 0) for name in world.pods]
    return max(counts) - min(counts)


def _memory_is_bounded(world: World) -> bool:
    state = world.scheduler().state
    entries = sum(len(each.placements) for each in world.vpods.values())
    dense = to_json(state)["freeCap"]
    return len(state.slots) <= len(world.pods) + entries and len(dense) <= 4 * (world.replicas + 1024) + 1


def _free_capacity_fits(world: World, wanted: Json) -> Json:
    """`free_cap` as the steps leave it. Without steps a case may mean the statuses that it states itself."""
    if not world.case_has_steps and wanted == world.free_before:
        return wanted
    return world.of_statuses()["free_cap"]


def _failed(world: World) -> list[str]:
    return sorted(str(key) for key, (_, left) in world.last.items() if left)


_OF_STATE = frozenset({"schedulable_pods", "pod_spread", "pending", "expected_vreplicas", "free_capacity"})
"""Expectations that are fields of `build_state`."""

METRICS: Mapping[str, Callable[[World], Json]] = {
    "placements": lambda world: as_json(_final(world, world.first)),
    "error": lambda world: bool(world.first in world.last and world.last[_only(world)][1]),
    "left": lambda world: sum(left for _, left in world.last.values()),
    "total": lambda world: total_vreplicas(_final(world, world.first)),
    "replicas": lambda world: world.replicas,
    "converges": lambda world: not _failed(world),
    "moved_before_scale_down": lambda world: world.moved_before_scale_down,
    "max_skew_after_rebalance": _skew,
    "reserved": lambda world: {str(key): pods for key, pods in world.scheduler().reserved().items()},
    "reserved_after_promote": lambda world: world.reserved_after_promote,
    "failed_resources": _failed,
    "panic": lambda _world: False,
    "memory_bounded_by_number_of_pods": _memory_is_bounded,
}


def found(world: World, name: str, wanted: Json) -> Json:
    """What the world says under the name of an expectation, in the shape of what is expected."""
    if name == "results":
        return [_like(actual, like) for actual, like in zip(world.results, wanted, strict=False)]
    if name in METRICS:
        value = METRICS[name](world)
        counted = isinstance(value, list) and isinstance(wanted, int) and not isinstance(wanted, bool)
        return len(value) if counted else value
    if name == "ha_placements":
        return as_json(_final(world, world.first))
    if name == "free_cap":
        return _free_capacity_fits(world, wanted)
    if name in _OF_STATE:
        return world.of_statuses()[name]
    if match := re.fullmatch(r"(\S+/\S+)_placed", name):
        return total_vreplicas(_final(world, Key.parse(match[1])))
    if match := re.fullmatch(r"used_on_pod_(\d+)", name):
        return _used(world, int(match[1]))
    if name in _by_key(world):
        return _by_key(world)[name]
    known = ", ".join((*METRICS, "free_cap", *sorted(_OF_STATE), "results", "ha_placements"))
    raise UnknownOperationError(f"expectation {name!r}; known: {known}")


def _like(actual: Json, like: Json) -> Json:
    """Of a failed schedule only what is asked for."""
    if isinstance(like, dict) and isinstance(actual, dict):
        return {key: actual.get(key) for key in like}
    return actual


def holds(world: World, name: str, wanted: Json) -> str:
    """Empty if an expectation holds, else the difference."""
    for suffix, holding in (("_at_least", operator.ge), ("_at_most", operator.le)):
        if name.endswith(suffix):
            value = found(world, name.removesuffix(suffix), wanted)
            return "" if holding(value, wanted) else f"{name}: expected {wanted!r}, got {value!r}"
    value = found(world, name, wanted)
    if name == "max_skew_after_rebalance":
        return "" if value <= wanted else f"{name}: expected at most {wanted!r}, got {value!r}"
    if value == wanted or (not value and not wanted and wanted is not False and value is not False):
        return ""
    return f"{name}: expected {wanted!r}, got {value!r}"


def _refused(given: Mapping[str, Json], expected: Mapping[str, Json]) -> Outcome:
    """D17: what cannot be is no setting; nothing is scheduled, and nothing divides by zero."""
    try:
        World(given)
    except ValueError:
        said = {
            "panic": False,
            "error": True,
            "placements": [],
            "converges": False,
            "left": sum(each.vreplicas for each in _vpods(given)),
            "failed_resources": sorted(str(each.key) for each in _vpods(given)),
            "replicas": replicas(given),
        }
    else:
        return failed(f"capacity {given['capacity']} is taken")
    return compared(
        said,
        {
            name: wanted or [] if name in ("placements", "failed_resources") else wanted
            for name, wanted in expected.items()
        },
    )


def _statefulset(case: Case) -> str:
    """The usual name, unless the case speaks of pods and none of them is of that name."""
    usual = "statefulset-name"
    if f'"{usual}-' in json.dumps([case["input"], case["expected"]]):
        return usual
    return statefulset(case["input"])


def scenario(case: Case) -> Outcome:
    """Every key that is expected must hold at the end."""
    case = {**case, "input": {"statefulset": _statefulset(case), **case["input"]}}
    given, expected = case["input"], case["expected"]
    if "descheduler_policy" in given or "scheduler_policy" in given:
        return knative_policy.divergence(case)
    if given.get("capacity", _CAPACITY) < 1:
        return _refused(given, expected)
    world = _played(given)
    wrong = [
        holds(_played(given, Shrink.SPREAD) if name == "ha_placements" else world, name, wanted)
        for name, wanted in expected.items()
    ]
    differences = [each for each in wrong if each]
    return failed("; ".join(differences)) if differences else PASSED


def _played(given: Mapping[str, Json], shrink: Shrink = Shrink.AUTO) -> World:
    """The world after every step. Without steps every vpod is scheduled once."""
    world = World(given, shrink)
    steps = list(given.get("steps") or ())
    world.case_has_steps = bool(steps)
    if not any("promote" in step or "reservations rebuilt" in step for step in steps):
        world.promote()
    if not steps:
        steps = ["schedule all"]
        if world.replicas_after is not None:
            world.scale_to(world.replicas_after)
            steps = ["schedule all", "rebalance"]
    world.free_before = world.of_statuses()["free_cap"]
    for number, step in enumerate(steps):
        perform(world, step, steps[:number])
    return world
