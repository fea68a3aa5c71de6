"""Spot's scenarios of whole clusters, played in the world of `tests.spot.world` with the deciding functions.

Steps and predicates are sentences. Those that this table does not know leave the case unrun, and say so.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from situate.spot.actions import Reason
from situate.spot.admission import PodRequest, View, admit
from situate.spot.model import Capacity
from tests.conformance.outcome import PASSED, Case, Outcome, UnknownOperationError, UnknownPhraseError, failed
from tests.conformance.spot_cases import policy_text
from tests.spot.world import SHOP, Times, World, placement

Json = Any
_OURS = "situate"


@dataclass
class Trace:
    """A scenario while it is played."""

    world: World
    uids: list[str]
    ready: dict[str, list[int]] = field(default_factory=dict)
    """By workload: how many served, at each second since it had settled first."""
    settled: bool = False
    spot_is_back: bool = False
    """Then pods return, one in ten minutes, and what is quiet for a minute has not settled."""
    before_t0: dict[str, int] = field(default_factory=dict)
    """On demand, when spot began to go."""
    moves: list[int] = field(default_factory=list)
    """Moves by policy, by step that changed something."""
    slowest_s: float = 0.0

    def watch(self, world: World) -> None:
        if self.settled:
            for uid in world.owners:
                self.ready.setdefault(uid, []).append(world.ready(uid))

    @property
    def least(self) -> int:
        return min((min(each) for uid, each in self.ready.items() if uid in self.uids and each), default=0)


def invariants(case: Case) -> Outcome:
    setup = case["setup"]
    traces = [_played(case, setup, run) for run in range(_runs(case))]
    problems = [f"{phrase!r} does not hold" for phrase in case["must"] if not _holds(phrase, traces)]
    return failed("; ".join(problems)) if problems else PASSED


def _runs(case: Case) -> int:
    said = [int(match[1]) for phrase in case["must"] if (match := re.search(r"in (\d+) runs", phrase))]
    return max(said, default=1)


def _played(case: Case, setup: Mapping[str, Json], run: int) -> Trace:
    world = World(times=Times(float(setup.get("pod_start_s", 5)), float(setup.get("grace_s", 2)), watch=run % 3))
    cluster = setup["cluster"]
    per_node = cluster["pods_per_node"]
    if "pod_request" in setup:
        match = re.fullmatch(r"(\d+)% of a node", setup["pod_request"])
        if match is None:
            raise UnknownPhraseError(setup["pod_request"])
        per_node = min(per_node, 100 // int(match[1]))
    world.add_nodes("spot", cluster["spot_nodes"], Capacity.SPOT, per_node)
    on_demand = cluster.get("on_demand_pods", cluster["on_demand_nodes"] * per_node)
    for left in range(cluster["on_demand_nodes"]):
        share = on_demand // (cluster["on_demand_nodes"] - left)
        on_demand -= share
        world.add_nodes("od", 1, Capacity.ON_DEMAND, share)
    world.installed = not any(each.get("preexisting") for each in setup["workloads"])
    trace = Trace(world, [])
    if "quota_pods" in setup:
        most = setup["quota_pods"]
        world.refuse = lambda _: len(world.pods) >= most
    for number, wire in enumerate(setup["workloads"]):
        text = policy_text(wire["policy"])
        name = wire.get("name", f"w{number}")
        owner = world.add(wire["kind"], name, wire["replicas"], text or "", surge=wire.get("max_surge", 1))
        if text is None:
            world.annotate(owner.uid, mix="disabled")
        trace.uids.append(owner.uid)
    world.checks.append(trace.watch)
    for step in case["steps"]:
        _step(trace, step)
    return trace


def _step(trace: Trace, phrase: str) -> None:
    before = len(trace.world.by_policy())
    for pattern, play in _STEPS.items():
        if match := re.fullmatch(pattern, phrase):
            play(trace, *match.groups())
            break
    else:
        raise UnknownPhraseError(phrase)
    moved = len(trace.world.by_policy()) - before
    if moved or phrase.startswith("settle"):
        trace.moves.append(moved)


def _settle(trace: Trace) -> None:
    if trace.spot_is_back:
        trace.world.settle(limit=6 * 3600, quiet=1900)
    else:
        trace.world.settle()
    trace.settled = True


def _kill(trace: Trace) -> None:
    world = trace.world
    trace.before_t0 = {uid: world.on_demand(uid) for uid in trace.uids}
    for name in world.names(Capacity.SPOT):
        world.kill(name)
    trace.slowest_s = _slowest_admission(world)
    world.settle()


def _silence(trace: Trace) -> None:
    trace.before_t0 = {uid: trace.world.on_demand(uid) for uid in trace.uids}
    for name in trace.world.names(Capacity.SPOT):
        trace.world.silence(name)
    trace.world.settle()


def _switched(trace: Trace, *, on: bool) -> None:
    """The system as a whole: pods that come meanwhile are admitted without it."""
    trace.world.installed = on
    trace.settled = True


def _notice(trace: Trace, seconds: str) -> None:
    world = trace.world
    trace.before_t0 = {uid: world.on_demand(uid) for uid in trace.uids}
    names = world.names(Capacity.SPOT)
    for name in names:
        world.notice(name, float(seconds))
    world.run(float(seconds) + 1)
    for name in names:
        world.kill(name)
    world.settle()


def _set(trace: Trace, policy: str) -> None:
    for uid in trace.uids:
        trace.world.annotate(uid, on_demand=policy)


def _scale(trace: Trace, replicas: str) -> None:
    for uid in trace.uids:
        trace.world.scale(uid, int(replicas))


def _image(trace: Trace) -> None:
    for uid in trace.uids:
        trace.world.roll_out(uid, "r2")


def _more_spot(trace: Trace, count: str) -> None:
    trace.world.add_nodes("spot", int(count), Capacity.SPOT, 4, age=3600)
    trace.spot_is_back = True


def _create_more(trace: Trace, kind: str, name: str, replicas: str) -> None:
    trace.world.add(kind, name, int(replicas))
    trace.world.run(150)


def _run_ourselves(trace: Trace) -> None:
    """Our own pods must be on demand by their manifest (P4)."""
    trace.uids.append(trace.world.add("Deployment", _OURS, 2, "all-on-demand").uid)
    _settle(trace)


_STEPS: dict[str, Callable[..., None]] = {
    r"settle(?: \(.*\))?": _settle,
    r"(?:observe|wait|run) until settled": _settle,
    "create": lambda trace: trace.world.run(15),
    "run without the system": lambda trace: trace.world.settle(),
    "install": lambda trace: _switched(trace, on=True),
    r"(?:stop|take down|kill) (?:the (?:system|webhook)|both replicas(?: of the system)?)": lambda trace: _switched(
        trace, on=False
    ),
    r"(?:start|bring back) (?:the (?:system|webhook)|both replicas)(?: again)?": lambda trace: _switched(
        trace, on=True
    ),
    r"(?:wait|observe(?: for)?|run) (\d+) s": lambda trace, seconds: trace.world.run(int(seconds)),
    r"set (\S+)": _set,
    r"scale (?:from \d+ )?to (\d+)": _scale,
    r"(?:change|update) the (?:image|template)|roll out a new (?:image|template|revision)": _image,
    r"kill (?:all|every) spot(?: nodes?)?(?: at t0)?(?: without notice)?": _kill,
    r"delete every spot Node(?: object)?(?: and stop its heartbeats)?(?: at t0)?": _kill,
    r"stop the heartbeats of (?:all|every) spot nodes?(?: at t0)?": _silence,
    r".*notice.* (\d+) s.*": _notice,
    r"add (\d+) spot nodes(?: back)?": _more_spot,
    r"create (StatefulSet|Deployment) (\S+), replicas (\d+), default": _create_more,
    "run two replicas of the system as a Deployment in the cluster": _run_ourselves,
}
"""By pattern of the whole sentence."""


def _slowest_admission(world: World) -> float:
    """Of a hundred, on this machine."""
    pod = {"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "x"}]}}
    view = View(world.cluster(), world.settings.admission(), world.state.memories)
    slowest = 0.0
    for number in range(100):
        began = time.process_time()
        admit(PodRequest(SHOP.name, pod), view, world.ledger, world.now, f"{number}")
        slowest = max(slowest, time.process_time() - began)
    return slowest


def _holds(phrase: str, traces: list[Trace]) -> bool:
    for pattern, check in _PREDICATES.items():
        if match := re.fullmatch(pattern, phrase):
            return all(check(trace, *match.groups()) for trace in traces)
    raise UnknownPhraseError(phrase)


def _compare(left: int, operator: str, right: str) -> bool:
    match operator:
        case ">=":
            return left >= int(right)
        case "==":
            return left == int(right)
        case "<=":
            return left <= int(right)
        case _:
            raise UnknownOperationError(f"comparison {operator!r}")


def _count(trace: Trace, capacity: str) -> int:
    return sum(placement(trace.world, uid)[capacity] for uid in trace.uids)


def _after(trace: Trace, replicas: str) -> bool:
    """All serve, and none of them on spot."""
    uid = trace.uids[0]
    return trace.world.ready(uid) == int(replicas) and placement(trace.world, uid)["on-demand"] == int(replicas)


def _served(trace: Trace, *said: str | None) -> bool:
    """In the end."""
    operator, count = (each for each in said if each is not None)
    return all(_compare(trace.world.ready(uid), operator, count) for uid in trace.uids)


def _of_kind(trace: Trace, kind: str) -> list[str]:
    return [uid for uid in trace.uids if trace.world.owners[uid].kind == kind]


def _exactly(trace: Trace, first: str, then: str) -> bool:
    return trace.moves[-2:] == [int(first), int(then)]


def _full(trace: Trace, ready: str, spot: str) -> bool:
    uid = trace.uids[0]
    serving = [pod for pod in trace.world.live(uid) if pod.ready]
    nodes = trace.world.nodes
    on = [nodes[pod.node].facts.capacity for pod in serving]
    return on.count(Capacity.ON_DEMAND) == int(ready) and on.count(Capacity.SPOT) >= int(spot)


def _shortage_told(trace: Trace) -> bool:
    told = [notice for notice in trace.world.notices if notice.owner == trace.uids[0]]
    return any(
        notice.reason == "NoOnDemandRoom" and re.match(r"\d+ of \d+ are missing", notice.text) for notice in told
    )


def _becomes_ready(trace: Trace, name: str) -> bool:
    return any(pod.facts.key.name == name and pod.facts.ready for pod in trace.world.pods.values())


def _one_at_a_time(trace: Trace) -> bool:
    return all(move.whole for move in trace.world.by_policy())


def _fits_kept(trace: Trace) -> bool:
    """Whoever was moved stood on the wrong capacity."""
    towards = {Reason.TO_ON_DEMAND: False, Reason.REPAIR: False, Reason.TO_SPOT: True, Reason.RETURN: True}
    return all(
        (move.stood is Capacity.ON_DEMAND) == towards.get(move.action.reason, True) for move in trace.world.by_policy()
    )


_PREDICATES: dict[str, Callable[..., bool]] = {
    r"bound on-demand count is exactly (\d+) before t0": lambda trace, count: all(
        each == int(count) for each in trace.before_t0.values()
    ),
    r"min ready over all t (>=|==) (\d+)": lambda trace, op, count: _compare(trace.least, op, count),
    r"(?:min )?ready (>=|==) (\d+) (?:at all times|throughout|always)": lambda trace, op, count: _compare(
        trace.least, op, count
    ),
    r"after settling ready == (\d+), all on on-demand nodes(?: \(.*\))?": _after,
    r"(?:final )?(on-demand|spot) count (==|>=|<=) (\d+)(?: at the end)?": lambda trace, capacity, op, count: _compare(
        _count(trace, capacity), op, count
    ),
    r"(?:final )?ready (==|>=|<=) (\d+)(?: at the end)?|after settling ready (==|>=|<=) (\d+)": _served,
    r"(?:no|0) (?:policy )?evictions?(?: at all)?": lambda trace: not trace.world.by_policy(),
    r"exactly (\d+) evictions?": lambda trace, count: len(trace.world.by_policy()) == int(count),
    r"at most (\d+) corrective evictions? in \d+ runs": lambda trace, most: len(trace.world.by_policy()) <= int(most),
    r"exactly (\d+) on-demand pods? ready and at least (\d+) spot pods? ready": _full,
    r"the shortage is visible .*": _shortage_told,
    r"(\S+) becomes ready": _becomes_ready,
    r"exactly (\d+) evictions?, then exactly (\d+)": _exactly,
    r"pods that already fit are never restarted.*": _fits_kept,
    r"Deployment: on-demand >= (\d+); StatefulSet: on-demand >= (\d+)": lambda trace, first, second: all(
        trace.world.on_demand(uid) >= int(least)
        for kind, least in (("Deployment", first), ("StatefulSet", second))
        for uid in _of_kind(trace, kind)
    ),
    r"one eviction at a time per workload, .*": _one_at_a_time,
    r"(Deployment|StatefulSet) ready >= (\d+) at all times": lambda trace, kind, least: all(
        min(trace.ready.get(uid, [0])) >= int(least) for uid in _of_kind(trace, kind)
    ),
    r"at least (\d+) of \d+ pods on spot(?: \(.*\))?": lambda trace, least: _count(trace, "spot") >= int(least),
    r"at least one replica is ready at all times": lambda trace: trace.least >= 1,
    r"admission latency p99 below the webhook timeout during the wave": lambda trace: trace.slowest_s < 2,
}
"""By pattern of the whole sentence."""
