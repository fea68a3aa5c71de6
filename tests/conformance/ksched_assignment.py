"""Plays ksched's assignment.json: observations and choices of a strategy, on a clock of its own."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from situate.sharding.model.errors import NoCapacity, NoExecutors, NoHealthyExecutors, NoMetrics, Unschedulable
from situate.sharding.model.executors import ExecutorStatus, LiveExecutor
from situate.sharding.strategies import (
    MetricSettings,
    MinMetricScore,
    MinScheduled,
    ObjectFacts,
    Placer,
    Random,
    RoundRobin,
    Sample,
    Strategy,
    rebuild,
    report_member,
)
from tests.conformance.outcome import PASSED, Case, Outcome, UnknownOperationError, failed
from tests.conformance.remarks import is_for_people

Json = Any
_NOW, _LONG_AGO = 0.0, -1e12
_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SEED = 20261122
_STATUSES: Mapping[str, ExecutorStatus | None] = {
    "Healthy": ExecutorStatus.HEALTHY,
    "Full": ExecutorStatus.FULL,
    "Unhealthy": ExecutorStatus.UNHEALTHY,
    "Draining": ExecutorStatus.DRAINING,
    "Removed": None,
}
_ERRORS = {
    "NoExecutors": NoExecutors,
    "NoHealthyExecutors": NoHealthyExecutors,
    "NoCapacity": NoCapacity,
    "NoMetrics": NoMetrics,
}
_METRIC_PARAMS = frozenset({"weights", "capacity", "max_age_s", "missing", "fallback", "per_object_estimate"})


def assignment(case: Case) -> Outcome:
    play = _Play(case["algorithm"])
    for number, step in enumerate(case["steps"]):
        plain = {key: value for key, value in step.items() if not is_for_people(key)}
        if len(plain) != 1:
            raise UnknownOperationError(f"step {number} has the keys {sorted(plain)}, allowed: one")
        ((operation, wire),) = plain.items()
        difference = play.step(operation, wire)
        if difference:
            return failed(f"step {number}, {operation}: {difference}")
    return PASSED


class _Play:
    """One strategy and what it has been told, so that another process can be told the same."""

    def __init__(self, algorithm: str) -> None:
        self._algorithm = algorithm
        self._params: dict[str, Json] = {}
        self._members: dict[str, LiveExecutor] = {}
        self._samples: dict[str, Sample] = {}
        self._objects: dict[str, ObjectFacts] = {}
        self._capacities: dict[str, float] = {}
        self._made = 0
        self._clock = _NOW
        self._strategy, self._placer = self._started()

    def _started(self) -> tuple[Strategy, Placer]:
        strategy = _strategy(self._algorithm, self._params, lambda: self._clock)
        placer = Placer(strategy)
        self._clock = _LONG_AGO
        rebuild(placer, self._objects.values(), self._members.values())
        self._clock = _NOW
        if isinstance(strategy, MinMetricScore):
            for executor, sample in self._samples.items():
                strategy.observe_sample(executor, sample)
        return strategy, placer

    def step(self, operation: str, wire: Json) -> str:
        """What is wrong; empty if nothing is."""
        steps: Mapping[str, Callable[[Json], str | None]] = {
            "observe": self._observe,
            "state": self._state,
            "scheduled": self._scheduled,
            "completed": self._completed,
            "deleted": self._deleted,
            "supervisor_restart": self._restart,
            "capacity": self._capacity,
            "params": self._set_params,
            "metrics": self._metrics,
            "choose": self._choose,
            "choose_and_schedule": self._choose_and_schedule,
        }
        if operation not in steps:
            raise UnknownOperationError(f"step {operation!r}; known: {', '.join(steps)}")
        return steps[operation](wire) or ""

    def _observe(self, wire: Json) -> None:
        _known(wire, "observe", {"executor", "status"})
        if wire["status"] not in _STATUSES:
            raise UnknownOperationError(f"status {wire['status']!r}; known: {', '.join(_STATUSES)}")
        executor, status = wire["executor"], _STATUSES[wire["status"]]
        if status is None:
            self._members.pop(executor, None)
            self._samples.pop(executor, None)
            self._placer.observe_executor(executor, None)
            return
        self._tell(LiveExecutor(executor, f"uid of {executor}", status, capacity=self._capacities.get(executor)))
        if executor in self._samples and isinstance(self._strategy, MinMetricScore):
            self._strategy.observe_sample(executor, self._samples[executor])

    def _tell(self, member: LiveExecutor) -> None:
        self._members[member.id] = member
        report_member(self._placer, member)

    def _state(self, wire: Json) -> None:
        _known(wire, "state", {"assigned_open"})
        for executor, wanted in wire["assigned_open"].items():
            held = [obj for obj in self._objects.values() if obj.executor == executor and not obj.completed]
            for obj in held[wanted:]:
                self._placer.observe_deleted(self._objects.pop(obj.uid))
            for _ in range(wanted - len(held)):
                self._made += 1
                self._assign(f"made up {self._made}", executor)

    def _assign(self, uid: str, executor: str) -> None:
        """The order of steps says what a sample includes: whatever came before it, however old the sample is."""
        self._objects[uid] = ObjectFacts(uid, executor=executor)
        self._clock = _LONG_AGO
        self._placer.observe_scheduled(self._objects[uid])
        self._clock = _NOW

    def _scheduled(self, wire: Json) -> None:
        _known(wire, "scheduled", {"object", "executor"})
        self._assign(wire["object"], wire["executor"])

    def _completed(self, wire: Json) -> None:
        _known(wire, "completed", {"object"})
        before = self._objects.get(wire["object"], ObjectFacts(wire["object"]))
        self._objects[before.uid] = ObjectFacts(before.uid, executor=before.executor, completed=True)
        self._placer.observe_completed(self._objects[before.uid])

    def _deleted(self, wire: Json) -> None:
        _known(wire, "deleted", {"object"})
        self._placer.observe_deleted(self._objects.pop(wire["object"], ObjectFacts(wire["object"])))

    def _restart(self, wire: Json) -> None:
        _known(wire, "supervisor_restart", {"listed_objects"})
        self._objects = {
            each["object"]: ObjectFacts(
                each["object"], executor=each.get("executor") or "", completed=bool(each.get("completed"))
            )
            for each in wire.get("listed_objects") or ()
        }
        self._strategy, self._placer = self._started()

    def _capacity(self, wire: Json) -> None:
        self._capacities.update(wire)
        for executor in wire.keys() & self._members.keys():
            member = self._members[executor]
            self._tell(LiveExecutor(executor, member.uid, member.status, capacity=wire[executor]))

    def _set_params(self, wire: Json) -> None:
        """Parameters are those of a strategy from its start: it is told everything again."""
        _known(wire, "params", _METRIC_PARAMS | {"slow_start_max_share"})
        self._params = {**self._params, **wire}
        self._strategy, self._placer = self._started()

    def _metrics(self, wire: Json) -> None:
        _known(wire, "metrics", {"executor", "values", "age_s"})
        values = {metric: _NUMBERS.get(value, value) for metric, value in wire["values"].items()}
        sample = Sample(values, _NOW - wire.get("age_s", 0))
        self._samples[wire["executor"]] = sample
        if isinstance(self._strategy, MinMetricScore):
            self._strategy.observe_sample(wire["executor"], sample)

    def _choose(self, wire: Json) -> str | None:
        _known(wire, "choose", {
            "times", "exact", "healthy", "fair", "any_of", "count_between", "error", "alt_error", "never",
        })  # fmt: skip
        if "error" in wire:
            return self._refused(wire)
        obj = ObjectFacts("asked about")
        chosen = [self._placer.choose_executor(obj) for _ in range(wire.get("times", 1))]
        if unwanted := set(chosen) & set(wire.get("never") or ()):
            return f"chose {sorted(unwanted)}, expected never"
        if "exact" in wire and chosen != wire["exact"] and not _is_fair(chosen, wire.get("healthy")):
            return f"chose {chosen}, expected {wire['exact']}"
        if "any_of" in wire and not set(chosen) <= set(wire["any_of"]):
            return f"chose {sorted(set(chosen))}, expected some of {wire['any_of']}"
        if "fair" in wire and "exact" not in wire and not _is_fair(chosen, wire["healthy"]):
            return f"chose {chosen}, which is not fair among {wire['healthy']}"
        if "count_between" in wire:
            low, high = wire["count_between"]
            counts = {executor: chosen.count(executor) for executor in wire.get("any_of") or self._healthy()}
            if not all(low <= count <= high for count in counts.values()):
                return f"chose {counts}, expected {low} to {high} each"
        return None

    def _healthy(self) -> set[str]:
        return {each.id for each in self._members.values() if each.status is ExecutorStatus.HEALTHY}

    def _refused(self, wire: Json) -> str | None:
        allowed = [wire["error"], *([wire["alt_error"]] if "alt_error" in wire else [])]
        if unknown := set(allowed) - _ERRORS.keys():
            raise UnknownOperationError(f"error {sorted(unknown)}; known: {', '.join(_ERRORS)}")
        for _ in range(wire.get("times", 1)):
            try:
                chosen = self._placer.choose_executor(ObjectFacts("asked about"))
            except Unschedulable as error:
                if not any(isinstance(error, _ERRORS[each]) for each in allowed):
                    return f"raised {type(error).__name__}, expected {' or '.join(allowed)}"
            else:
                return f"chose {chosen}, expected {' or '.join(allowed)}"
        return None

    def _choose_and_schedule(self, wire: Json) -> str | None:
        _known(wire, "choose_and_schedule", {
            "times", "final_open", "max_count", "min_count", "max_count_any", "min_count_any", "metrics_unchanged",
            "any_of", "never", "error", "alt_error",
        })  # fmt: skip
        chosen: Counter[str] = Counter()
        if "error" in wire:
            return self._refused(wire)
        for _ in range(wire.get("times", 1)):
            self._made += 1
            uid = f"made up {self._made}"
            executor = self._placer.choose_executor(ObjectFacts(uid))
            self._assign(uid, executor)
            chosen[executor] += 1
        healthy = self._healthy()
        allowed, never = set(wire.get("any_of") or chosen), set(wire.get("never") or ())
        if unwanted := (set(chosen) - allowed) | (set(chosen) & never):
            return f"chose {sorted(unwanted)}, expected never"
        wrong = [
            difference
            for name, limits in wire.items()
            if name.startswith(("max_count", "min_count"))
            for difference in _beyond(
                name, dict.fromkeys(healthy, limits) if isinstance(limits, int) else limits, chosen
            )
        ]
        if "final_open" in wire:
            counts = Counter(obj.executor for obj in self._objects.values() if not obj.completed and obj.executor)
            final = {executor: counts[executor] for executor in wire["final_open"]}
            if final != wire["final_open"]:
                wrong.append(f"{final} are open, expected {wire['final_open']}")
        return "; ".join(wrong)


def _strategy(algorithm: str, params: Mapping[str, Json], clock: Callable[[], float]) -> Strategy:
    share = params.get("slow_start_max_share")
    match algorithm:
        case "Random":
            return Random(random.Random(_SEED))
        case "RoundRobin":
            return RoundRobin()
        case "MinScheduled":
            return MinScheduled(share)
        case "MinMetricScore":
            given = {name: value for name, value in params.items() if name in _METRIC_PARAMS}
            estimate = given.get("per_object_estimate")
            if isinstance(estimate, int | float):  # one number stands for every metric
                given["per_object_estimate"] = dict.fromkeys(given.get("weights", {"cpu": 1}), estimate)
            return MinMetricScore(clock, MetricSettings(**given, slow_start_max_share=share))
    raise UnknownOperationError(f"algorithm {algorithm!r}")


def _is_fair(chosen: list[str], healthy: list[str] | None) -> bool:
    """Every window of as many choices as there are healthy names each of them once."""
    if not healthy:
        return False
    size = len(healthy)
    windows = [chosen[start : start + size] for start in range(max(1, len(chosen) - size + 1))]
    return all(len(set(window)) == len(window) and set(window) <= set(healthy) for window in windows)


def _beyond(name: str, limits: Mapping[str, int], counts: Mapping[str, int]) -> list[str]:
    is_most = name.startswith("max")
    return [
        f"{executor} got {counts.get(executor, 0)}, expected {'at most' if is_most else 'at least'} {limit}"
        for executor, limit in limits.items()
        if (counts.get(executor, 0) > limit if is_most else counts.get(executor, 0) < limit)
    ]


def _known(wire: Json, operation: str, fields: set[str] | frozenset[str]) -> None:
    if unknown := {name for name in wire.keys() - fields if not is_for_people(name)}:
        raise UnknownOperationError(f"{operation} with {sorted(unknown)}; known: {', '.join(sorted(fields))}")
