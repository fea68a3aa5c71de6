"""The account of a simulated run: demand, running vreplicas, cost, and their time series.

A vreplica runs if its status places it on a running pod. Amounts are exact integrals over time. Evenness is measured at
each sample.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from situate.sim.vpod.fleet import Fleet
from situate.vpod.model.vpod import Key, PlainVPod


@dataclass(frozen=True, slots=True)
class MomentCounts:
    """All counts at one moment."""

    wanted: int = 0
    placed: int = 0
    running: int = 0
    units: int = 0
    """Capacity that the placed vreplicas use."""
    room: int = 0
    """Capacity of the pods that are on a node."""
    pods: int = 0
    """Pods on a node."""
    pending: int = 0
    """Pods without a node."""
    nodes: int = 0
    """Nodes with at least one pod."""
    short: tuple[tuple[Key, int], ...] = ()
    """Sources with vreplicas that do not run, and their number."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A period in which vreplicas of a source did not run."""

    key: Key
    since: float
    seconds: float


@dataclass(slots=True)
class Series:
    """One point per sample. `worst` is the maximum of missing vreplicas since the sample before."""

    time: list[float] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)
    placed: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    worst: list[int] = field(default_factory=list)
    pods: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Ledger:
    """Integrals over time, in seconds multiplied by the amount."""

    wanted: float = 0.0
    unplaced: float = 0.0
    short: float = 0.0
    units: float = 0.0
    room: float = 0.0
    pods: float = 0.0
    nodes: float = 0.0
    peak_pods: int = 0
    longest: Shortage | None = None
    skew: list[float] = field(default_factory=list)
    """Per sample: the mean over the sources of the maximum minus the minimum on a running pod."""
    most_skewed: int = 0
    zone_share: list[float] = field(default_factory=list)
    """Per sample: the mean over the sources of the share in their fullest zone."""
    series: Series = field(default_factory=Series)
    _now: float = 0.0
    _instant: MomentCounts = MomentCounts()
    _short_since: dict[Key, float] = field(default_factory=dict)
    _worst: int = 0

    def advance(self, now: float) -> None:
        """Account for the time since the last instant, in which nothing changed."""
        seconds, is_so = now - self._now, self._instant
        self._now = now
        if seconds <= 0:
            return
        self.wanted += seconds * is_so.wanted
        self.unplaced += seconds * max(0, is_so.wanted - is_so.placed)
        self.short += seconds * sum(vreplicas for _, vreplicas in is_so.short)
        self.units += seconds * is_so.units
        self.room += seconds * is_so.room
        self.pods += seconds * is_so.pods
        self.nodes += seconds * is_so.nodes
        self._worst = max(self._worst, sum(vreplicas for _, vreplicas in is_so.short))

    def set_counts(self, instant: MomentCounts) -> None:
        """Set the counts from now on."""
        self._instant = instant
        self.peak_pods = max(self.peak_pods, instant.pods)
        short = dict(instant.short)
        for key in [key for key in self._short_since if key not in short]:
            self._end_shortage(key)
        for key in short:
            self._short_since.setdefault(key, self._now)

    def sample(self, now: float, instant: MomentCounts, moves: int) -> None:
        series = self.series
        series.time.append(now)
        for name in ("wanted", "placed", "running", "pods", "pending"):
            getattr(series, name).append(getattr(instant, name))
        series.worst.append(max(self._worst, sum(vreplicas for _, vreplicas in instant.short)))
        series.moves.append(moves)
        self._worst = 0

    def sample_evenness(self, vpods: Iterable[PlainVPod], fleet: Fleet) -> None:
        """Sample how evenly the sources are spread over running pods and zones.

        Sources of one vreplica do not count.
        """
        on = {pod.name: pod.node for pod in fleet.pods.values() if pod.running and pod.node is not None}
        zones = {node.zone for node in on.values()}
        skews, shares = [], []
        for vpod in vpods:
            held, in_zone = dict.fromkeys(on, 0), dict.fromkeys(zones, 0)
            for placement in vpod.placements:
                node = on.get(placement.pod_name)
                if node is not None:
                    held[placement.pod_name] += placement.vreplicas
                    in_zone[node.zone] += placement.vreplicas
            total = sum(held.values())
            if total > 1:
                skews.append(max(held.values()) - min(held.values()))
                shares.append(max(in_zone.values()) / total)
        if skews:
            self.skew.append(sum(skews) / len(skews))
            self.most_skewed = max(self.most_skewed, *skews)
            self.zone_share.append(sum(shares) / len(shares))

    def close(self) -> None:
        """Close the account. Shortages that last until now count."""
        for key in list(self._short_since):
            self._end_shortage(key)

    def _end_shortage(self, key: Key) -> None:
        since = self._short_since.pop(key)
        seconds = self._now - since
        if seconds > 0 and (self.longest is None or seconds > self.longest.seconds):
            self.longest = Shortage(key, since, seconds)


def current_counts(vpods: Iterable[PlainVPod], fleet: Fleet, capacity: int) -> MomentCounts:
    """Return the counts at this moment."""
    running_pods = {pod.name for pod in fleet.pods.values() if pod.running}
    wanted = placed = running = units = 0
    short = []
    for vpod in vpods:
        here = there = 0
        for placement in vpod.placements:
            there += placement.vreplicas
            if placement.pod_name in running_pods:
                here += placement.vreplicas
        wanted += vpod.vreplicas
        placed += there
        running += here
        units += there * vpod.weight
        if here < vpod.vreplicas:
            short.append((vpod.key, vpod.vreplicas - here))
    bound = [pod.node.name for pod in fleet.pods.values() if pod.node is not None]
    return MomentCounts(
        wanted=wanted,
        placed=placed,
        running=running,
        units=units,
        room=len(bound) * capacity,
        pods=len(bound),
        pending=len(fleet.pods) - len(bound),
        nodes=len(set(bound)),
        short=tuple(short),
    )
