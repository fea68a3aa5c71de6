"""MinMetricScore: choose the lowest weighted sum of metrics, plus the work assigned since the metrics were taken.

    score(e) = sum over m of weight_m * (value(e, m) + k(e) * estimate_m) / capacity(e, m)

k(e) is the open work that was assigned to e since its sample. Without k(e), all objects assigned between two samples
would go to the same executor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from typing import Final

import numpy as np

from situate.sharding.model.errors import NoMetrics
from situate.sharding.model.executors import ExecutorStatus, LiveExecutor
from situate.sharding.strategies.facts import ObjectFacts
from situate.sharding.strategies.min_metric_score.samples import (
    Bools,
    Floats,
    Rows,
    Sample,
    Samples,
    WorkSinceSample,
    usable_values,
)
from situate.sharding.strategies.min_metric_score.settings import MetricSettings
from situate.sharding.strategies.min_metric_score.slow_start import SlowStart
from situate.sharding.strategies.min_scheduled import MinScheduled
from situate.sharding.strategies.open_objects import OpenObjects, Roster
from situate.sharding.strategies.protocol import CandidateRank, TieBreak, report_member
from situate.sharding.strategies.round_robin import RoundRobin

TIE: Final = 1e-9
"""Scores that differ by no more than this are equal."""


class MinMetricScore:
    """The strategy of the lowest score; ties go to the least recently chosen executor, then to the smallest id.

    A choice computes the score of every executor with array arithmetic. A sample that arrives or becomes too old may
    change every score through the estimate.
    """

    def __init__(self, clock: Callable[[], float], settings: MetricSettings | None = None) -> None:
        """`clock` returns seconds of the same clock as `Sample.taken_at` and `Executor.sampled_at`."""
        self._clock = clock
        self._settings = settings if settings is not None else MetricSettings()
        self._weights: Floats = np.array(list(self._settings.weights.values()), dtype=np.float64)
        self._roster = Roster()
        self._open = OpenObjects()
        self._since = WorkSinceSample()
        self._samples = Samples(tuple(self._settings.weights))
        self._last_samples: dict[str, Sample] = {}
        self._turn = 0
        share = self._settings.slow_start_max_share
        self._slow = None if share is None else SlowStart(share)
        self._fallback: MinScheduled | RoundRobin | None = None
        match self._settings.fallback:
            case "MinScheduled":
                self._fallback = MinScheduled(share)
            case "RoundRobin":
                self._fallback = RoundRobin()

    def observe_executor(self, executor: str, status: ExecutorStatus | None) -> None:
        if self._fallback is not None:
            self._fallback.observe_executor(executor, status)
        if not self._roster.observe(executor, status):
            return
        if status is None:
            self._samples.remove(executor)
            self._last_samples.pop(executor, None)
        else:
            row = self._samples.add(executor)
            given = self._settings.capacity.get(executor, {})
            self._samples.capacity[row] = [given.get(metric, 1.0) for metric in self._samples.metrics]
            self._samples.healthy[row] = status is ExecutorStatus.HEALTHY
        self._update_counts(executor)

    def observe_member(self, member: LiveExecutor) -> None:
        """Record an executor's capacity for objects, and its metrics."""
        if self._fallback is not None:
            report_member(self._fallback, member)
        row = self._samples.row(member.id)
        if row is None:
            return
        limit = math.inf if member.capacity is None else member.capacity
        self._samples.limit[row] = limit if limit >= 0 else 0.0  # NaN counts as 0, too
        if member.sampled_at is not None:
            self.observe_sample(member.id, Sample(member.metrics, member.sampled_at))

    def observe_sample(self, executor: str, sample: Sample) -> None:
        """Record a sample of a known executor. An unusable sample also replaces a usable one."""
        row = self._samples.row(executor)
        if row is None or self._last_samples.get(executor) == sample:
            return
        self._last_samples[executor] = sample
        values = usable_values(sample.values, self._samples.metrics)
        self._samples.values[row] = 0.0 if values is None else values
        self._samples.taken_at[row] = -math.inf if values is None else sample.taken_at
        self._since.record_sample(executor, sample.taken_at)
        self._update_counts(executor)

    def observe_scheduled(self, obj: ObjectFacts) -> None:
        if self._fallback is not None:
            self._fallback.observe_scheduled(obj)
        self._record_object(self._open.record_scheduled, obj)

    def observe_completed(self, obj: ObjectFacts) -> None:
        if self._fallback is not None:
            self._fallback.observe_completed(obj)
        self._record_object(self._open.record_completed, obj)

    def observe_deleted(self, obj: ObjectFacts) -> None:
        if self._fallback is not None:
            self._fallback.observe_deleted(obj)
        self._record_object(self._open.record_deleted, obj)

    def _record_object(self, observe: Callable[[ObjectFacts], tuple[str, ...]], obj: ObjectFacts) -> None:
        before = self._open.holder(obj.uid)
        changed = observe(obj)
        after = self._open.holder(obj.uid)
        if before != after:
            if before is not None:
                self._since.record_removed(before, obj.uid)
            if after is not None:
                self._since.record_assigned(after, obj, self._clock())
        for executor in changed:
            self._update_counts(executor)

    def _update_counts(self, executor: str) -> None:
        open_weight = self._open.weight_of(executor)
        row = self._samples.row(executor)
        if row is not None:
            self._samples.open[row] = open_weight
            self._samples.since[row] = self._since.weight_of(executor)
        if self._slow is not None:
            if self._roster.is_serving(executor):
                self._slow.put(executor, open_weight, 1.0)
            else:
                self._slow.drop(executor)

    def choose_executor(self, obj: ObjectFacts) -> str:
        return self._choose(obj, None, None)

    def choose_among(self, obj: ObjectFacts, among: Container[str], tie_break: TieBreak | None = None) -> str:
        return self._choose(obj, among, tie_break)

    def _choose(self, obj: ObjectFacts, among: Container[str] | None, tie_break: TieBreak | None) -> str:
        candidates = self._candidates(among)
        if not candidates.any():
            raise self._roster.capacity_refusal(among)
        scores = self._scores(candidates)
        if scores is not None:
            tied = self._tied_rows(scores)
            chosen = (
                min(self._least_recent_names(tied)) if tie_break is None else tie_break(obj, self._names_by_turn(tied))
            )
        elif self._fallback is None:
            raise self._roster.refusal({"without a usable sample": int(candidates.sum())}, NoMetrics)
        else:
            names = {self._samples.names[row] for row in np.flatnonzero(candidates)}
            chosen = self._fallback.choose_among(obj, names, tie_break)
        row = self._samples.row(chosen)
        if row is not None:  # a tie-break may return any name; the caller checks it
            self._samples.chosen[row] = self._turn
        self._turn += 1
        if self._slow is not None:
            self._slow.record_choice(chosen)
        return chosen

    def _candidates(self, among: Container[str] | None) -> Bools:
        """Return (rows) the executors that may be chosen, apart from their samples."""
        eligible = self._samples.healthy & (self._samples.open < self._samples.limit)
        return eligible if among is None else eligible & self._samples.rows_among(among)

    def _scores(self, candidates: Bools) -> Floats | None:
        """Return the scores (rows), inf for ineligible rows; None if no candidate has a usable sample."""
        fresh = self._samples.rows_with_sample(self._clock(), self._settings.max_age_s)
        scored = candidates & fresh
        if not scored.any():
            return None
        scores = self._samples.scores(self._weights, self._estimate(fresh))
        if self._settings.missing == "exclude":
            return np.where(scored, scores, np.inf)
        return np.where(scored, scores, np.where(candidates, scores[scored].max(), np.inf))

    def _estimate(self, fresh: Bools) -> Floats:
        given = self._settings.per_object_estimate
        if given == "auto":
            return self._samples.estimate(fresh)
        return np.array([given.get(metric, 0.0) for metric in self._samples.metrics])

    def _tied_rows(self, scores: Floats) -> Rows:
        """Return the rows with the lowest score. Newcomers that must wait count only if no other executor is left."""
        first = tied = np.flatnonzero(scores <= scores.min() + TIE)
        if self._slow is None:
            return tied
        left = scores.copy()
        while len(tied):
            allowed = [row for row in tied.tolist() if self._slow.allows(self._samples.names[row])]
            if allowed:
                return np.array(allowed, dtype=np.int64)
            left[tied] = np.inf
            tied = np.flatnonzero(np.isfinite(left) & (left <= left.min() + TIE))
        return first

    def _least_recent_names(self, rows: Rows) -> list[str]:
        """Return the names of the rows that were chosen longest ago, or never."""
        turns = self._samples.chosen[rows]
        return [self._samples.names[row] for row in rows[turns == turns.min()]]

    def _names_by_turn(self, rows: Rows) -> list[str]:
        """Return the names of all rows, those that were chosen longest ago first."""
        turned = sorted((int(self._samples.chosen[row]), self._samples.names[row]) for row in rows)
        return [name for _, name in turned]

    def candidate_ranks(self, obj: ObjectFacts) -> Sequence[CandidateRank]:
        candidates = self._candidates(None)
        scores = self._scores(candidates)
        if candidates.any() and scores is None:
            return self._fallback_ranks(obj)
        fresh = self._samples.rows_with_sample(self._clock(), self._settings.max_age_s)
        rows = [] if scores is None else np.flatnonzero(np.isfinite(scores)).tolist()
        names = self._samples.names
        order = sorted(
            (self._must_wait(names[row]), float(scores[row]), int(self._samples.chosen[row]), names[row], row)
            for row in rows
            if scores is not None
        )
        found = [
            CandidateRank(name, place, self._score_text(score, has_sample=bool(fresh[row]), waits=waits))
            for place, (waits, score, _, name, row) in enumerate(order, 1)
        ]
        placed = {each.executor for each in found}
        healthy = sorted(name for name in self._roster if self._roster.is_healthy(name) and name not in placed)
        others = [CandidateRank(name, None, self._ineligible_reason(name, candidates)) for name in healthy]
        return found + others + self._roster.unhealthy_ranks()

    @staticmethod
    def _score_text(score: float, *, has_sample: bool, waits: bool) -> str:
        return (
            f"score {score:.6g}"
            + ("" if has_sample else ", the worst, because no sample is usable")
            + ("; slow start" if waits else "")
        )

    def _ineligible_reason(self, executor: str, candidates: Bools) -> str:
        row = self._samples.row(executor)
        if row is not None and candidates[row]:
            return "no usable sample"
        return f"{self._open.weight_of(executor)} open, at capacity"

    def _fallback_ranks(self, obj: ObjectFacts) -> Sequence[CandidateRank]:
        if self._fallback is not None:
            return [
                CandidateRank(each.executor, each.place, f"{each.why}; no executor has a usable sample")
                for each in self._fallback.candidate_ranks(obj)
            ]
        healthy = sorted(name for name in self._roster if self._roster.is_healthy(name))
        return [CandidateRank(name, None, "no usable sample") for name in healthy] + self._roster.unhealthy_ranks()

    def _must_wait(self, executor: str) -> bool:
        return self._slow is not None and not self._slow.would_allow(executor)
