"""History of spot nodes that ended and came back.

The adviser, the headroom check and a new leader's view of calm pools use it. It is an immutable value, small enough for
an annotation. Every end counts, because reclaims and scale-downs look alike from inside a cluster. Rules: B24, B26,
B27, B30, B44.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from situate.objects.values.timestamps import BadTime, parse_time, rfc3339
from situate.spot.model.counts import Nodes
from situate.spot.model.pods_nodes_workloads import Capacity, no_labels
from situate.spot.nodes.savings import HOURS_PER_MONTH

WAVE_GAP_S: Final = 120.0
"""Longest gap between ends of one wave: the notice period of a spot node."""
MOST_WAVES: Final = 100
"""Number of waves in the history; older waves are dropped, and the history then begins later."""
RETURN_S: Final = 21600.0
"""A node that comes this long after an end in its pool does not count as one that came back."""
MOST_RETURNS: Final = 32
_MOST_POOLS: Final = 8
_MONTH_S: Final = HOURS_PER_MONTH * 3600


@dataclass(frozen=True, slots=True)
class Wave:
    """Spot nodes that ended together, or one that ended alone."""

    began: float
    last: float
    """End of the latest of them."""
    nodes: int
    """Number of nodes."""
    of: int
    """Usable spot nodes just before."""
    pools: Mapping[str, int] = field(default_factory=dict)
    """Ended nodes by pool, for the pools with most of them."""

    @property
    def share(self) -> float:
        """Share of all spot nodes, more than 0 and up to 1."""
        return min(1.0, self.nodes / max(self.of, self.nodes))


@dataclass(frozen=True, slots=True)
class Return:
    """A spot node that came to a pool with a recent end."""

    at: float
    node: str
    pool: str


@dataclass(frozen=True, slots=True)
class InterruptionHistory:
    since: float | None = None
    """Start of the observation; None: never."""
    waves: tuple[Wave, ...] = ()
    """The oldest first."""
    usable: Mapping[str, str] | None = None
    """Node to pool at the latest observation; None before the first one, and in a history that was read."""
    returns: tuple[Return, ...] = ()
    """The latest returns, the oldest first."""

    @property
    def largest_wave(self) -> int | None:
        """Largest number of nodes that ended together; None if none ended."""
        return max((wave.nodes for wave in self.waves), default=None)

    def months(self, now: float) -> float:
        """Length of the history in months; 0 without one."""
        return 0.0 if self.since is None else max(0.0, now - self.since) / _MONTH_S

    def ended_share_per_month(self, nodes: int, now: float) -> float | None:
        """Return the share of `nodes` that ends in a month; None without enough data."""
        months = self.months(now)
        if not months or not nodes:
            return None
        return min(1.0, sum(wave.nodes for wave in self.waves) / (nodes * months))


def observe_nodes(history: InterruptionHistory, nodes: Nodes, now: float) -> InterruptionHistory:
    """Return the history after an observation of the nodes.

    The first observation of a process adds no ends and no returns, because the earlier nodes are unknown.
    """
    usable = {node.name: node.pool for node in nodes.values() if node.capacity is Capacity.SPOT and not node.ending}
    since = now if history.since is None else history.since
    before = history.usable
    gone = sorted(before.keys() - usable.keys()) if before is not None else []
    if before is None or not gone:
        same = before == usable and history.since is not None
        return history if same else _with_returns(replace(history, since=since, usable=usable), before, now)
    pools = Counter(before[name] for name in gone)
    last = history.waves[-1] if history.waves else None
    if last is not None and now - last.last < WAVE_GAP_S:
        joined = Counter(last.pools) + pools
        wave = Wave(last.began, now, last.nodes + len(gone), last.of, dict(joined.most_common(_MOST_POOLS)))
        waves = (*history.waves[:-1], wave)
    else:
        waves = (*history.waves, Wave(now, now, len(gone), len(before), dict(pools.most_common(_MOST_POOLS))))
    if len(waves) > MOST_WAVES:
        since, waves = waves[0].last, waves[1:]
    return _with_returns(InterruptionHistory(since, waves, usable, history.returns), before, now)


def _with_returns(history: InterruptionHistory, before: Mapping[str, str] | None, now: float) -> InterruptionHistory:
    """Add the nodes that have come since `before`, if they may be back."""
    if before is None or history.usable is None:
        return history
    lately = {pool for wave in history.waves if now - wave.last < RETURN_S for pool in wave.pools}
    come = sorted(history.usable.keys() - before.keys())
    back = [Return(now, name, history.usable[name]) for name in come if history.usable[name] in lately]
    return replace(history, returns=(*history.returns, *back)[-MOST_RETURNS:]) if back else history


def to_text(history: InterruptionHistory) -> str:
    """Encode the history as JSON, without the data that only a running process has."""
    waves = [
        {
            "began": _format_time(each.began),
            "last": _format_time(each.last),
            "nodes": each.nodes,
            "of": each.of,
            "pools": each.pools,
        }
        for each in history.waves
    ]
    since = None if history.since is None else _format_time(history.since)
    returns = [{"at": _format_time(each.at), "node": each.node, "pool": each.pool} for each in history.returns]
    return json.dumps({"since": since, "waves": waves, "returns": returns}, separators=(",", ":"))


def from_text(text: str) -> InterruptionHistory:
    """Decode the text of `to_text`; an invalid text gives an empty history."""
    try:
        data = json.loads(text)
        since = _parse_time(data["since"])
        waves = tuple(_parse_wave(each) for each in data["waves"])[-MOST_WAVES:]
        returns = tuple(_parse_return(each) for each in data.get("returns", ()))[-MOST_RETURNS:]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError, BadTime):
        return InterruptionHistory()
    in_order = tuple(sorted(waves, key=lambda wave: wave.began))
    return InterruptionHistory(since, in_order, None, tuple(sorted(returns, key=lambda each: each.at)))


def _parse_wave(data: Mapping[str, Any]) -> Wave:
    pools = {str(name): int(count) for name, count in dict(data.get("pools") or no_labels()).items()}
    return Wave(
        _parse_time(data["began"]),
        _parse_time(data["last"]),
        max(1, int(data["nodes"])),
        max(1, int(data["of"])),
        pools,
    )


def _parse_return(data: Mapping[str, Any]) -> Return:
    return Return(_parse_time(data["at"]), str(data["node"]), str(data["pool"]))


def _format_time(at: float) -> str:
    return rfc3339(datetime.fromtimestamp(int(at), UTC))


def _parse_time(text: str) -> float:
    return parse_time(text).timestamp()
