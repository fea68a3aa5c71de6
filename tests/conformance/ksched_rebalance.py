"""Runs ksched's rebalance.json: fewest moves to each goal, and promises about movement that are played."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from situate.sharding.rebalancing import Goal, PlacedObject, Plan, RebalanceConfig, plan, weighted_plan
from tests.conformance.ksched_basis import listed
from tests.conformance.outcome import PASSED, Case, Outcome, UnknownOperationError, UnknownPhraseError, failed
from tests.conformance.remarks import is_for_people
from tests.sharding.movement import rebalanced_for, rollout_moves_per_object

Json = Any
_SEED = 20261122
_GROUPS = ("unit_objects", "weighted", "properties")
_ABOUT = {"format_version", "about", "source", "note", "basis"}
_GOALS = {"even": Goal.EVEN, "bounded": Goal.BOUNDED, "two_sided": Goal.TWO_SIDED}


def cases(document: Json) -> list[Case]:
    unknown = [{"id": group, "basis": "required", "group": group} for group in document.keys() - _ABOUT - {*_GROUPS}]
    return [*listed(document, _GROUPS), *unknown]


def rebalance(case: Case) -> Outcome:
    runners: Mapping[str, Callable[[Case], Outcome]] = {
        "unit_objects": _unit_objects,
        "weighted": _weighted,
        "properties": _property,
    }
    if case["group"] not in runners:
        raise UnknownOperationError(f"group {case['group']!r}; known: {', '.join(runners)}")
    return runners[case["group"]](case)


def _unit_objects(case: Case) -> Outcome:
    if unknown := _unknown(case, {"current", "removed", "joined", *_GOALS}):
        raise UnknownOperationError(f"fields {sorted(unknown)}")
    objects = [PlacedObject(f"{name}-{n}", name) for name, count in case["current"].items() for n in range(count)]
    live = sorted(({*case["current"]} - {*(case.get("removed") or ())}) | {*(case.get("joined") or ())})
    for name, goal in _GOALS.items():
        wanted = case.get(name)
        if wanted is None:
            continue
        found = plan(goal, objects, live)
        counts = sorted(_loads(objects, found, live).values(), reverse=True)
        if unknown := wanted.keys() - {"goal", "min_moves", "final_counts_sorted"}:
            raise UnknownOperationError(f"{name} with {', '.join(sorted(unknown))}")
        if found.moves != wanted.get("min_moves", found.moves):
            return failed(f"{name}: expected {wanted['min_moves']} moves, got {found.moves}")
        if "final_counts_sorted" in wanted and counts != sorted(wanted["final_counts_sorted"], reverse=True):
            return failed(f"{name}: expected {wanted['final_counts_sorted']}, got {counts}")
        if not _within(goal, counts, len(objects)):
            return failed(f"{name}: {counts} misses the goal {wanted.get('goal', name)}")
    return PASSED


def _unknown(case: Case, known: set[str]) -> set[str]:
    return {name for name in case.keys() - known - {"id", "name", "basis", "group"} if not is_for_people(name)}


def _within(goal: Goal, counts: list[float], total: int) -> bool:
    if goal is Goal.EVEN:
        return max(counts) - min(counts) <= 1
    low = 3 * total // (4 * len(counts)) if goal is Goal.TWO_SIDED else 0
    return low <= min(counts) and max(counts) <= -(-5 * total // (4 * len(counts)))


def _weighted(case: Case) -> Outcome:
    if unknown := _unknown(case, {"object_loads", "current", "live", "max_load_allowed", "min_moves", "feasible"}):
        raise UnknownOperationError(f"fields {sorted(unknown)}")
    pairs = zip(case["object_loads"], case["current"], strict=True)
    objects = [PlacedObject(f"o{number}", name or "", load) for number, (load, name) in enumerate(pairs)]
    limit = case["max_load_allowed"]
    found = weighted_plan(objects, case["live"], limit)
    if found.reached != case.get("feasible", True):
        return failed(f"feasible: expected {case.get('feasible', True)}, got {found.reached}: {found.why}")
    if not found.reached:
        return PASSED if not found.moves and found.why else failed(f"{found.moves} moves although nothing helps")
    loads = _loads(objects, found, case["live"])
    if max(loads.values(), default=0.0) > limit * (1 + 1e-9):
        return failed(f"the loads {loads} exceed {limit}")
    if case.get("min_moves") is not None and found.moves != case["min_moves"]:
        return failed(f"expected {case['min_moves']} moves, got {found.moves}")
    return PASSED


def _loads(objects: list[PlacedObject], found: Plan, live: list[str]) -> dict[str, float]:
    """What everybody has after the moves; every object must be somewhere."""
    targets = {move.uid: move.target for move in (*found.forced, *found.voluntary)}
    loads = dict.fromkeys(live, 0.0)
    for each in objects:
        loads[targets.get(each.uid, each.executor)] += each.load
    return loads


def _property(case: Case) -> Outcome:
    """By its id; a property of another name by the words of its bound."""
    said = str(case.get("bound"))
    named = [case["id"], *(name for name, words in _BOUNDS.items() if re.search(words, said))]
    check = next((_PROPERTIES[name] for name in named if name in _PROPERTIES), None)
    if check is None:
        raise UnknownPhraseError(f"{case.get('setup')}: {said}")
    return check(case)


def _rollout(case: Case) -> Outcome:
    match = re.search(r"<= ([\d.]+)", case["bound"])
    if match is None:
        raise UnknownPhraseError(case["bound"])
    moves = {executors: rollout_moves_per_object(executors, 100) for executors in (3, 5, 10)}
    return PASSED if max(moves.values()) <= float(match[1]) else failed(f"moves per object: {moves}")


def _no_thrash(_: Case) -> Outcome:
    chance = random.Random(_SEED)
    live = [f"e{number}" for number in range(10)]
    for config in (RebalanceConfig(Goal.EVEN), RebalanceConfig(Goal.BOUNDED, weighted=True)):
        objects = [PlacedObject(f"o{n}", chance.choice(live), chance.uniform(1, 3)) for n in range(200)]
        moves = [
            len(decision.moves)
            for now, decision in rebalanced_for(objects, live, config, 7200, random.Random(_SEED))
            if now >= 3600
        ]
        if sum(moves):
            return failed(f"{sum(moves)} moves in the second hour towards {config}")
    return PASSED


def _churn(_: Case) -> Outcome:
    chance = random.Random(_SEED)
    live = [f"e{number}" for number in range(10)]
    objects = [PlacedObject(f"o{n}", chance.choice(live[:3])) for n in range(400)]
    made: Counter[int] = Counter()
    for now, decision in rebalanced_for(objects, live, RebalanceConfig(Goal.EVEN), 7200):
        made[now] = len(decision.moves)
    windows = [sum(made[now] for now in range(start, start + 60, 10)) for start in range(0, 7200, 10)]
    if not sum(made.values()):
        return failed("nothing was moved at all")
    return PASSED if max(windows) <= 20 else failed(f"{max(windows)} moves within a minute, 20 are allowed")


def _unmovable(_: Case) -> Outcome:
    objects = [PlacedObject(f"o{n}", "e0", movable=n % 2 == 0) for n in range(60)]
    decisions = [decision for _, decision in rebalanced_for(objects, ["e0", "e1"], RebalanceConfig(Goal.EVEN), 7200)]
    moved = {move.uid for decision in decisions for move in decision.moves}
    wrong = sorted(each.uid for each in objects if not each.movable and each.uid in moved)
    return PASSED if moved and not wrong else failed(f"moved {wrong} of {len(moved)}")


_BOUNDS: Mapping[str, str] = {
    "rolling-update-lower-bound": r"moves/object <= [\d.]+",
    "no-thrash": r"^(0|no) moves",
    "churn-budget": r"never exceed max_moves_per_interval",
    "long-running-not-moved": r"^never moved voluntarily",
}
_PROPERTIES: Mapping[str, Callable[[Case], Outcome]] = {
    "rolling-update-lower-bound": _rollout,
    "no-thrash": _no_thrash,
    "churn-budget": _churn,
    "long-running-not-moved": _unmovable,
}
