"""Spot's scenarios of whole clusters, played in the world of `tests.spot.world` with the deciding functions.

Steps and predicates are sentences. Those that this table does not know leave the case unrun, and say so.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from situate.spot.admission.admit import AdmissionView, PodRequest, admit
from situate.spot.model.actions import Reason
from situate.spot.model.pods_nodes_workloads import Capacity
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
    others: list[tuple[Case, list[str]]] = field(default_factory=list)
    """Scenarios that share the cluster, each with its workloads."""
    on_demand: dict[str, list[int]] = field(default_factory=dict)
    """By workload: how many stood on on-demand nodes, at each second."""

    def watch(self, world: World) -> None:
        for uid in world.owners:
            self.on_demand.setdefault(uid, []).append(world.on_demand(uid))
        if self.settled:
            for uid in world.owners:
                self.ready.setdefault(uid, []).append(world.ready(uid))

    @property
    def least(self) -> int:
        return min((min(each) for uid, each in self.ready.items() if uid in self.uids and each), default=0)


def invariants_cases(document: Any) -> list[Case]:
    """Each scenario; one that has all of them on one cluster is told the others."""
    return [
        {**case, "others": [each for each in document if each is not case]}
        if any(re.fullmatch(_ALL_OF_THEM, step) for step in case.get("steps") or ())
        else case
        for case in document
    ]


def invariants(case: Case) -> Outcome:
    setup = case["setup"]
    must = case.get("must") or ()
    for phrase in must:
        _check_of(phrase)  # an unknown sentence is said before anything is played
    traces = [_played(case, setup, run) for run in range(_runs(case))]
    problems = [f"{phrase!r} does not hold" for phrase in must if not _holds(phrase, traces)]
    return failed("; ".join(problems)) if problems else PASSED


def _runs(case: Case) -> int:
    said = [int(match[1]) for phrase in case.get("must") or () if (match := re.search(r"in (\d+) runs", phrase))]
    return max(said, default=1)


def _played(case: Case, setup: Mapping[str, Json], run: int) -> Trace:
    world = World(times=Times(float(setup.get("pod_start_s", 5)), float(setup.get("grace_s", 2)), watch=run % 3))
    cluster = setup["cluster"]
    per_node = cluster["pods_per_node"]
    if "pod_request" in setup:
        per_node = min(per_node, int(100 // _percent_of_a_node(setup["pod_request"])))
    spot_nodes, on_demand_nodes = cluster.get("spot_nodes", 0), cluster.get("on_demand_nodes", 0)
    world.add_nodes("spot", spot_nodes, Capacity.SPOT, per_node)
    on_demand = cluster.get("on_demand_pods", on_demand_nodes * per_node)
    for left in range(on_demand_nodes):
        share = on_demand // (on_demand_nodes - left)
        on_demand -= share
        world.add_nodes("od", 1, Capacity.ON_DEMAND, share)
    workloads = setup.get("workloads") or ()
    world.installed = not any(each.get("preexisting") for each in workloads)
    trace = Trace(world, [])
    if "quota_pods" in setup:
        most = setup["quota_pods"]
        world.refuse = lambda _: len(world.pods) >= most
    for number, wire in enumerate(workloads):
        trace.uids.append(_added(world, wire, f"w{number}"))
    trace.others = [(each, []) for each in case.get("others") or ()]
    world.checks.append(trace.watch)
    for step in case.get("steps") or ():
        _step(trace, step)
    return trace


def _percent_of_a_node(told: Json) -> float:
    """What a pod asks for: `8% of a node`, or a number of pods that a node takes."""
    if match := re.fullmatch(r"([\d.]+) ?% of (?:a|the|one) node(?:'s .*)?", str(told)):
        return float(match[1])
    if match := re.fullmatch(r"1/(\d+) (?:of )?(?:a|the|one) node", str(told)):
        return 100 / int(match[1])
    raise UnknownPhraseError(str(told))


def _added(world: World, wire: Mapping[str, Json], name: str) -> str:
    text = policy_text(wire.get("policy") or {})
    surge = wire.get("max_surge", 1)
    if isinstance(surge, str):  # as the API has it: a percentage rounds up
        share = int(surge.removesuffix("%"))
        surge = -(-wire["replicas"] * share // 100) if surge.endswith("%") else share
    owner = world.add(wire["kind"], wire.get("name", name), wire["replicas"], text or "", surge=surge)
    if text is None:
        world.annotate(owner.uid, mix="disabled")
    return owner.uid


def _all_of_them(trace: Trace) -> None:
    """The workloads of every scenario, then the loss of all spot nodes at once."""
    for case, uids in trace.others:
        for number, wire in enumerate((case.get("setup") or {}).get("workloads") or ()):
            name = f"{str(case.get('id', '')).lower()}-{wire.get('name', f'w{number}')}"
            uids.append(_added(trace.world, {**wire, "name": name}, name))
    trace.uids += [uid for _, uids in trace.others for uid in uids]
    _settle(trace)
    _kill(trace)


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


def _notice(trace: Trace, *told: str | None) -> None:
    """The nodes go when the notice is over; of a signal alone nothing is said of when, and they stay."""
    seconds = next((each for each in told if each is not None), None)
    world = trace.world
    trace.before_t0 = {uid: world.on_demand(uid) for uid in trace.uids}
    names = world.names(Capacity.SPOT)
    for name in names:
        world.notice(name, None if seconds is None else float(seconds))
    if seconds is not None:
        world.run(float(seconds) + 1)
        for name in names:
            world.kill(name)
    world.settle()


def _kill_some(trace: Trace, count: str) -> None:
    world = trace.world
    trace.before_t0 = {uid: world.on_demand(uid) for uid in trace.uids}
    for name in world.names(Capacity.SPOT)[: 1 if count in ("a", "one") else int(count)]:
        world.kill(name)
    world.settle()


def _switch_off(trace: Trace) -> None:
    for uid in trace.uids:
        trace.world.annotate(uid, mix="disabled")


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


def _create_more(trace: Trace, kind: str, name: str, replicas: str, policy: str | None) -> None:
    trace.world.add(kind, name, int(replicas), "" if policy in (None, "default") else policy)
    trace.world.run(150)


def _run_ourselves(trace: Trace) -> None:
    """Our own pods must be on demand by their manifest (P4)."""
    trace.uids.append(trace.world.add("Deployment", _OURS, 2, "all-on-demand").uid)
    _settle(trace)


_ALL_OF_THEM = r"all (?:of )?(?:the |them|these)?(?: ?above| ?scenarios)?(?: at once)? (?:on|in) one cluster"
_STEPS: dict[str, Callable[..., None]] = {
    r"(?:let (?:it|everything) )?settle(?: again)?(?: \(.*\))?": _settle,
    r"(?:observe|wait|run) until (?:it is |everything is |all is )?settled": _settle,
    r"(?:wait|observe|run) until the rollout (?:is done|is over|completes|has completed)": _settle,
    r"create(?: (?:it|them|all|the workloads?|everything)(?: at once)?)?": lambda trace: trace.world.run(15),
    "run without the system": lambda trace: trace.world.settle(),
    "install": lambda trace: _switched(trace, on=True),
    r"(?:stop|take down|kill) (?:the (?:system|webhook)|both replicas(?: of the system)?)": lambda trace: _switched(
        trace, on=False
    ),
    r"(?:start|bring back) (?:the (?:system|webhook)|both replicas)(?: again)?": lambda trace: _switched(
        trace, on=True
    ),
    r"(?:wait|observe(?: for)?|run) (\d+) s": lambda trace, seconds: trace.world.run(int(seconds)),
    r"(?:set|change) (?:the )?(?:policy|target|on[-_ ]demand(?: count)?)(?: to| =|=)? ?(\S+)": _set,
    r"set (\S+)": _set,
    r"(?:disable|switch off|turn off)(?: the)? (?:policy|mix|workloads?)|(?:switch|turn) the policy off": _switch_off,
    r"scale(?: up| down)?(?: it| the workload)?(?: from \d+)? to (\d+)": _scale,
    r"(?:change|update) the (?:image|template)|roll out a new (?:image|template|revision)"
    r"|(?:start a )?rolling update|(?:rollout )?restart the workload": _image,
    r"kill (?:all|every) (?:the )?spot(?: nodes?)?(?: at once)?(?: at t0)?(?: without (?:any )?notice)?": _kill,
    r"kill (a|one|\d+)(?: of (?:the )?\d+)? spot nodes?(?: at t0)?": _kill_some,
    r"(?:taint|mark|signal) (?:all|every|the) spot nodes?\b[^,;]*(?:[,;]| and| then)+ (?:then )?"
    r"(?:delete|kill|remove) (?:them|it|the (?:nodes|Node objects))"
    r"(?: (?:after|at t0 ?\+) ?(\d+) s| (\d+) s later)": _notice,
    r"(?:taint|mark) (?:all|every|the) spot nodes?\b[^,;]*? (\d+) s(?:econds)? before [^,;]*": _notice,
    r"(?:taint|mark) (?:all|every|the) spot nodes?\b(?:(?! \d+ s)[^,;])*": _notice,
    r"(?:all|every) spot nodes? (?:gets?|receives?) (?:a|the) (?:taint|signal)\b(?:(?! \d+ s)[^,;])*": _notice,
    r"delete every spot Node(?: object)?(?: and stop its heartbeats)?(?: at t0)?": _kill,
    r"stop the heartbeats of (?:all|every) spot nodes?(?: at t0)?": _silence,
    r".*notice.* (\d+) s.*": _notice,
    r"(?:add|bring back|create) (\d+) spot nodes?(?: back| again)?": _more_spot,
    r"create (StatefulSet|Deployment) (\S+), replicas (\d+)(?:, (?:on[-_ ]demand[: =]+)?(\S+))?": _create_more,
    _ALL_OF_THEM: _all_of_them,
    "run two replicas of the system as a Deployment in the cluster": _run_ourselves,
}
"""By pattern of the whole sentence."""


def _slowest_admission(world: World) -> float:
    """Of a hundred, on this machine."""
    pod = {"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "x"}]}}
    view = AdmissionView(world.cluster(), world.settings.admission_settings(), world.state.memories)
    slowest = 0.0
    for number in range(100):
        began = time.process_time()
        admit(PodRequest(SHOP.name, pod), view, world.ledger, world.now, f"{number}")
        slowest = max(slowest, time.process_time() - began)
    return slowest


def _check_of(phrase: str) -> tuple[Callable[..., bool], tuple[str | None, ...]]:
    """What the sentence asks of a trace, with its arguments; a remark in parentheses is for people."""
    for text in (phrase, re.sub(r"\s*\([^)]*\)$", "", phrase)):
        for pattern, check in _PREDICATES.items():
            if match := re.fullmatch(pattern, text):
                return check, match.groups()
    raise UnknownPhraseError(phrase)


def _holds(phrase: str, traces: list[Trace]) -> bool:
    check, told = _check_of(phrase)
    return all(check(trace, *told) for trace in traces)


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


def _rolled_out(trace: Trace) -> bool:
    """No workload is between two revisions, and all of each serve."""
    world = trace.world
    return all(
        not world.owners[uid].rolling
        and world.ready(uid) == world.owners[uid].replicas
        and all(pod.revision == world.owners[uid].revision for pod in world.live(uid))
        for uid in trace.uids
    )


def _all_serve(trace: Trace) -> bool:
    return all(
        trace.world.ready(uid) == trace.world.owners[uid].replicas and all(pod.node for pod in trace.world.live(uid))
        for uid in trace.uids
    )


def _on_demand_always(trace: Trace, operator: str, count: str) -> bool:
    return all(_compare(each, operator, count) for uid in trace.uids for each in trace.on_demand.get(uid, ()))


def _others_hold(trace: Trace) -> bool:
    """Each workload serves with its on-demand target, and as each scenario on the cluster says of every moment."""
    world = trace.world
    if not trace.uids or any(min(trace.ready.get(uid, [0])) < world.workload(uid).target for uid in trace.uids):
        return False
    for case, uids in trace.others:
        alone = Trace(trace.world, uids, {uid: trace.ready.get(uid, []) for uid in uids})
        for phrase in case.get("must") or ():
            if uids and re.fullmatch(_AT_ALL_TIMES, phrase) and not _holds(phrase, [alone]):
                return False
    return True


def _full(trace: Trace, ready: str, spot: str) -> bool:
    uid = trace.uids[0]
    serving = [pod for pod in trace.world.live(uid) if pod.ready]
    nodes = trace.world.nodes
    on = [nodes[pod.node].facts.capacity for pod in serving]
    return on.count(Capacity.ON_DEMAND) == int(ready) and on.count(Capacity.SPOT) >= int(spot)


def _shortage_told(trace: Trace) -> bool:
    told = [notice for notice in trace.world.notices if notice.owner == trace.uids[0]]
    return any(
        notice.reason == "NoOnDemandRoom" and re.match(r"\d+ of \d+ on-demand pods are missing", notice.text)
        for notice in told
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


_AT_ALL_TIMES = (
    r"min ready(?: replicas)?(?: over all t)? (>=|==) (\d+)(?: (?:at all times|throughout|always|over all t))?"
)
_PREDICATES: dict[str, Callable[..., bool]] = {
    r"bound on-demand count is exactly (\d+) before t0": lambda trace, count: all(
        each == int(count) for each in trace.before_t0.values()
    ),
    _AT_ALL_TIMES: lambda trace, op, count: _compare(trace.least, op, count),
    r"(?:ready (?:is )?never below|never (?:fewer|less) than) (\d+)(?: (?:are )?ready)?": lambda trace, count: _compare(
        trace.least, ">=", count
    ),
    r"(?:the )?rollout (?:completes|ends|finishes|is completed)(?: within \d+ s)?|no deadlock.*": _rolled_out,
    r"no pod (?:stays|is left|remains) [Pp]ending(?: at the end)?": _all_serve,
    r"every pod becomes ready|all pods (?:are|become) ready": _all_serve,
    r"on-demand(?: count)? (>=|==|<=) (\d+) at all times": _on_demand_always,
    r"on-demand count never exceeds (\d+)": lambda trace, count: _on_demand_always(trace, "<=", count),
    r"(?:every|each) (?:workload|scenario) keeps (?:its|the) (?:own )?(?:floor|target|must).*"
    r"|(?:every|each) (?:must|scenario) (?:above )?holds.*|all of the above hold.*": _others_hold,
    r"(?:min )?ready (>=|==) (\d+) (?:at all times|throughout|always)": lambda trace, op, count: _compare(
        trace.least, op, count
    ),
    r"after settling ready == (\d+), all on on-demand nodes(?: \(.*\))?": _after,
    r"(?:final |after settling )?(on-demand|spot)(?: count)? (==|>=|<=) (\d+)"
    r"(?: at the end| after settling)?": lambda trace, capacity, op, count: _compare(
        _count(trace, capacity), op, count
    ),
    r"(?:final )?ready (==|>=|<=) (\d+)(?: at the end)?|after settling ready (==|>=|<=) (\d+)": _served,
    r"(?:no|0) (?:policy )?(?:evictions?|restarts?)(?: at all)?|no pod is (?:evicted|restarted)": lambda trace: (
        not trace.world.by_policy()
    ),
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
