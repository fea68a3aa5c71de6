"""What is remembered of spot nodes that ended and came back: behind the adviser, the headroom, and the calm that a new
leader finds (B24, B26, B27, B30, B44).

A value with steps; it is small, so that it can stand as text in an annotation. Every end counts, whoever brought it
about: what reclaims a node and what scales it down look alike from within a cluster.
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

TOGETHER_S: Final = 120.0
"""Nodes that end within so long of each other end in one wave: the notice that a spot node gets."""
MOST_WAVES: Final = 100
"""That are kept; what is older is forgotten, and the history begins later."""
BACK_S: Final = 21600.0
"""A node that comes so long after one of its pool ended is not remembered as one that came back."""
MOST_RETURNS: Final = 32
_MOST_POOLS: Final = 8
_MONTH_S: Final = HOURS_PER_MONTH * 3600


@dataclass(frozen=True, slots=True)
class Wave:
    """Spot nodes that ended together, or one that ended alone."""

    began: float
    last: float
    """When the latest of them ended."""
    nodes: int
    """So many."""
    of: int
    """Usable spot nodes just before."""
    pools: Mapping[str, int] = field(default_factory=dict)
    """By pool, the most stricken ones."""

    @property
    def share(self) -> float:
        """Of all spot nodes, more than 0 and up to 1."""
        return min(1.0, self.nodes / max(self.of, self.nodes))


@dataclass(frozen=True, slots=True)
class Return:
    """A spot node that came to a pool of which some had ended lately."""

    at: float
    node: str
    pool: str


@dataclass(frozen=True, slots=True)
class History:
    since: float | None = None
    """When looking began; None: never."""
    waves: tuple[Wave, ...] = ()
    """The oldest first."""
    usable: Mapping[str, str] | None = None
    """Node to pool at the last look; None before the first, and of a history that was read."""
    returns: tuple[Return, ...] = ()
    """The oldest first, the latest of them."""

    @property
    def largest(self) -> int | None:
        """Most nodes that ended together; None if none ever did."""
        return max((wave.nodes for wave in self.waves), default=None)

    def months(self, now: float) -> float:
        """How long it is; 0 where there is none."""
        return 0.0 if self.since is None else max(0.0, now - self.since) / _MONTH_S

    def ended_share_per_month(self, nodes: int, now: float) -> float | None:
        """Of so many nodes, the part that ends in a month; None where nothing can be said yet."""
        months = self.months(now)
        if not months or not nodes:
            return None
        return min(1.0, sum(wave.nodes for wave in self.waves) / (nodes * months))


def noted(history: History, nodes: Nodes, now: float) -> History:
    """After a look at the nodes. The first look of a process ends nothing and nothing comes back with it: it does not
    know what was there.
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
    if last is not None and now - last.last < TOGETHER_S:
        joined = Counter(last.pools) + pools
        wave = Wave(last.began, now, last.nodes + len(gone), last.of, dict(joined.most_common(_MOST_POOLS)))
        waves = (*history.waves[:-1], wave)
    else:
        waves = (*history.waves, Wave(now, now, len(gone), len(before), dict(pools.most_common(_MOST_POOLS))))
    if len(waves) > MOST_WAVES:
        since, waves = waves[0].last, waves[1:]
    return _with_returns(History(since, waves, usable, history.returns), before, now)


def _with_returns(history: History, before: Mapping[str, str] | None, now: float) -> History:
    """With the nodes that have come since `before`, as far as they may be back."""
    if before is None or history.usable is None:
        return history
    lately = {pool for wave in history.waves if now - wave.last < BACK_S for pool in wave.pools}
    come = sorted(history.usable.keys() - before.keys())
    back = [Return(now, name, history.usable[name]) for name in come if history.usable[name] in lately]
    return replace(history, returns=(*history.returns, *back)[-MOST_RETURNS:]) if back else history


def to_text(history: History) -> str:
    """JSON, without what only a running process knows."""
    waves = [
        {"began": _text(each.began), "last": _text(each.last), "nodes": each.nodes, "of": each.of, "pools": each.pools}
        for each in history.waves
    ]
    since = None if history.since is None else _text(history.since)
    returns = [{"at": _text(each.at), "node": each.node, "pool": each.pool} for each in history.returns]
    return json.dumps({"since": since, "waves": waves, "returns": returns}, separators=(",", ":"))


def from_text(text: str) -> History:
    """What `to_text` has written; what somebody has written badly counts as not written."""
    try:
        data = json.loads(text)
        since = _time(data["since"])
        waves = tuple(_wave(each) for each in data["waves"])[-MOST_WAVES:]
        returns = tuple(_return(each) for each in data.get("returns", ()))[-MOST_RETURNS:]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError, BadTime):
        return History()
    in_order = tuple(sorted(waves, key=lambda wave: wave.began))
    return History(since, in_order, None, tuple(sorted(returns, key=lambda each: each.at)))


def _wave(data: Mapping[str, Any]) -> Wave:
    pools = {str(name): int(count) for name, count in dict(data.get("pools") or no_labels()).items()}
    return Wave(_time(data["began"]), _time(data["last"]), max(1, int(data["nodes"])), max(1, int(data["of"])), pools)


def _return(data: Mapping[str, Any]) -> Return:
    return Return(_time(data["at"]), str(data["node"]), str(data["pool"]))


def _text(at: float) -> str:
    return rfc3339(datetime.fromtimestamp(int(at), UTC))


def _time(text: str) -> float:
    return parse_time(text).timestamp()
