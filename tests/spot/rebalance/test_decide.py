"""What the controller does now: limits, order, memory, reports (3.7, 3.10, B10 to B14, B26, B45)."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any

import pytest

from situate.spot.capacity.free_capacity import FreeCapacity
from situate.spot.model.actions import Action, Delete, Evict, Reason, Release, SetCost
from situate.spot.model.maintenance_windows import Window, parse_cron, parse_time_zone
from situate.spot.model.misplaced_pods import BlockReason
from situate.spot.model.pods_nodes_workloads import MIX, Capacity, NodeState, Owner, PodFacts
from situate.spot.model.policy_limits import EvictionLimits, Limits, ReturnConditions
from situate.spot.nodes.pool_stability import PoolMemory, Pools
from situate.spot.nodes.prices import Price, Prices
from situate.spot.rebalance.decide import ClusterView, Decision, Phase, State, decide
from situate.spot.rebalance.node_termination import MoveConstraints
from situate.spot.workloads.cluster_objects import Cluster, WorkloadMemory
from situate.spot.workloads.on_demand_target import Namespace, TargetRules
from situate.spot.workloads.owners import Controller, ReplicaSetFacts
from tests.spot.builders import NODES, NOW, OD, SPOT, UID, owner, pod, pods

KEY = "spot.situate.dev/on-demand"


class Rooms(FreeCapacity):
    begun = False

    def __init__(self, *, on_demand: bool = True, spot: bool = True, calm: bool = True) -> None:
        self.answers = {OD: on_demand, SPOT: spot}
        self.calm = calm

    def prepare_in_steps(self) -> Generator[None, None, None]:
        self.begun = True
        yield

    def fits(self, pod: PodFacts, capacity: Capacity, *, without: Any = None, pools: Any = None) -> bool:
        assert self.begun, "admission would wait until pods that wait are placed"
        return self.answers[capacity] and (pools is None or self.calm)


NO_RETURNS = Limits(returns=ReturnConditions(enabled=False))
ONE_AT_A_TIME = Limits(evictions=EvictionLimits(per_cluster=1))


def cluster(*workloads: tuple[Owner, Iterable[PodFacts]], **more: Any) -> Cluster:
    sets = {}
    for of, _ in workloads:
        between = Controller("apps/v1", of.kind, of.name, of.uid)
        sets[f"{of.uid}-r1"] = ReplicaSetFacts(f"{of.uid}-r1", between, "shop", of.name, of.replicas, "r1")
    fields: dict[str, Any] = {"nodes": NODES, "namespaces": {"shop": Namespace("shop")}, **more}
    return Cluster(
        {of.uid: of for of, _ in workloads}, sets, {of.uid: tuple(given) for of, given in workloads}, **fields
    )


def deployment(target: int, spec: str, name: str = "web", **more: Any) -> tuple[Owner, list[PodFacts]]:
    given = [
        replace(each, uid=f"{name}-{each.key.name}", cost=200 if each.node == "od" else 100 if each.pod_class else None)
        for each in pods(spec)
    ]
    annotations = {KEY: str(target), **more.pop("annotations", {})}
    of = owner(more.pop("replicas", len(given)), name=name, uid=f"uid-{name}", annotations=annotations, **more)
    return of, given


def decided(
    *workloads: tuple[Owner, Iterable[PodFacts]],
    state: State | None = None,
    room: Rooms | None = None,
    limits: Limits | None = None,
    now: float = NOW,
    **more: Any,
) -> Decision:
    situation = ClusterView(cluster(*workloads), room or Rooms(), TargetRules(), limits or Limits(), **more)
    return decide(state or State(), situation, now)


def moves(found: Decision) -> list[Action]:
    return [action for action in found.actions if not isinstance(action, SetCost)]


def names(found: Decision) -> list[str]:
    return [action.pod.name for action in moves(found)]


@pytest.mark.rule("spot:B10", "spot:P28", "spot:S21", "spot:I12", "spot:I13", "spot:F7")
def test_one_pod_of_a_workload_at_a_time_and_those_that_fit_not_at_all() -> None:
    wrong, right = deployment(2, "bare:3"), deployment(1, "od:1 spot:2", "fine")
    found = decided(wrong, right)
    assert moves(found) == [Evict(pod("bare-0").key, "web-bare-0", "uid-web", Reason.REPAIR)]
    assert found.reports["uid-web"].phase is Phase.CONVERTING
    assert (found.reports["uid-fine"].phase, found.reports["uid-fine"].need) == (Phase.SETTLED, 0)
    assert decided(wrong, right) == found, "the same state, the same decision"
    again = decided(wrong, right, state=found.state, now=NOW + 1)
    assert (moves(again), again.reports["uid-web"].blocked) == ([], BlockReason.IN_FLIGHT), "the watch may lag"
    late = decided(wrong, right, state=found.state, now=NOW + 15)
    assert len(moves(late)) == 1, "the API has refused"


@pytest.mark.rule("spot:B11", "spot:S34")
def test_the_next_move_waits_until_the_replacement_is_ready_and_has_been_for_a_while() -> None:
    first = decided(deployment(2, "spot:3"))
    of, given = deployment(2, "spot:3")
    rest = [each for each in given if each.uid != moves(first)[0].uid]
    starting = pod("new", "od", OD, ready=False, created=NOW + 1)
    assert decided((of, [*rest, starting]), state=first.state, now=NOW + 30).reports["uid-web"].blocked is (
        BlockReason.IN_FLIGHT
    )
    ready = replace(starting, ready=True, ready_since=NOW + 40)
    soon = decided((of, [*rest, ready]), state=first.state, now=NOW + 50)
    assert soon.reports["uid-web"].blocked is BlockReason.COOL_DOWN
    assert soon.state.memories["uid-web"].moved == ""
    assert len(moves(decided((of, [*rest, ready]), state=soon.state, now=NOW + 100))) == 1


@pytest.mark.rule("spot:B11")
def test_three_failures_stop_a_workload_for_an_hour() -> None:
    of, given = deployment(3, "spot:3")
    state, now = State(), NOW
    for attempt in range(3):
        moved = decided((of, given), state=state, now=now)
        assert len(moves(moved)) == 1, attempt
        state = moved.state
        waiting = [*given[1:], pod("new", "", OD, created=now + 1)]
        failed = decided((of, waiting), state=state, now=now + 61, room=Rooms(on_demand=False))
        assert moves(failed) == []
        state, now = failed.state, now + 120
    assert [notice.reason for notice in failed.notices] == ["MovesStopped", "NoOnDemandRoom"]
    stopped = decided((of, given), state=state, now=now)
    assert (moves(stopped), stopped.reports["uid-web"].blocked) == ([], BlockReason.STOPPED)
    assert len(moves(decided((of, given), state=state, now=now + 3600))) == 1


@pytest.mark.rule("spot:B11", "spot:B12")
def test_replacements_that_never_get_ready_do_not_hold_up_other_workloads_for_ever() -> None:
    ill = [deployment(2, "spot:2", f"ill-{number}") for number in range(5)]
    well = deployment(2, "spot:2", "well")
    first = decided(*ill)
    assert len(moves(first)) == 5
    gone = {move.uid for move in moves(first)}
    broken = [
        (of, [*(each for each in given if each.uid not in gone), pod(f"{of.name}-new", "od", OD, ready=False)])
        for of, given in ill
    ]
    soon = decided(*broken, well, state=first.state, now=NOW + 599)
    assert (moves(soon), soon.reports["uid-well"].blocked) == ([], BlockReason.BUDGET)
    later = decided(*broken, well, state=soon.state, now=NOW + 600)
    assert [move.owner for move in moves(later)] == ["uid-well"]


@pytest.mark.rule("spot:B11", "spot:B39")
def test_pods_that_nobody_classes_are_not_replaced_for_ever() -> None:
    of, given = deployment(3, "bare:3")
    state, evicted, told = State(), 0, []
    for number in range(20):
        now = NOW + 60.0 * number
        found = decided((of, given), state=state, now=now)
        told += [notice.message for notice in found.notices]
        for move in moves(found):
            evicted += 1
            new = pod(f"new-{evicted}", "spot", None, created=int(now) + 1, ready_since=now + 20)
            given = [*(each for each in given if each.uid != move.uid), new]
        state = found.state
    assert evicted == 3
    assert ["the last one because the new pod has no class" in message for message in told] == [True]
    assert found.reports["uid-web"].blocked is BlockReason.STOPPED


@pytest.mark.rule("spot:B13", "spot:P35")
def test_the_budgets_of_the_cluster_hold_and_who_lacks_most_goes_first() -> None:
    many = [deployment(1, "spot:2", f"w{number}") for number in range(4)]
    needy = deployment(3, "spot:4", "needy")
    found = decided(*many, needy, limits=Limits(evictions=EvictionLimits(per_cluster=2)))
    assert [action.owner for action in moves(found)] == ["uid-needy", "uid-w0"]
    assert found.reports["uid-w1"].blocked is BlockReason.BUDGET
    hourly = decided(*many, state=State(moved_at=(NOW - 3599,) * 59), limits=Limits())
    assert len(moves(hourly)) == 1
    assert len(moves(decided(*many, state=State(moved_at=(NOW - 3600,) * 60)))) == 4


@pytest.mark.rule("spot:B13")
def test_outside_of_its_windows_nothing_is_moved() -> None:
    never = Window(parse_cron("0 0 31 2 *"), 60, parse_time_zone("UTC"))
    closed = decided(deployment(1, "spot:2"), limits=Limits(windows=(never,)))
    assert (moves(closed), closed.reports["uid-web"].blocked) == ([], BlockReason.WINDOW)
    of, given = deployment(0, "spot:2")
    doomed = [replace(given[0], node="doomed"), given[1]]
    assert len(moves(decided((of, doomed), limits=Limits(windows=(never,))))) == 1, "waves wait for no window"
    looks: list[float] = []

    class Watched(Window):
        def is_open_at(self, now: float) -> bool:
            looks.append(now)
            return False

    watched = Watched(never.cron, never.duration_s, never.zone)
    decided(*(deployment(1, "spot:2", name=name) for name in "abc"), limits=Limits(windows=(watched,)))
    assert looks == [NOW], "once for all workloads: it takes milliseconds"


@pytest.mark.rule("spot:B14")
def test_read_only_says_what_it_would_do() -> None:
    given = deployment(1, "spot:2")
    told = decided(given, limits=Limits(read_only=True))
    assert told.actions == ()
    assert [each for each in told.read_only_actions if isinstance(each, Evict)] == moves(decided(given))
    assert told.state.memories["uid-web"].moved == ""
    assert (
        decided(given, state=told.state, limits=Limits(read_only=True), now=NOW + 1).read_only_actions
        == told.read_only_actions
    )


@pytest.mark.rule("spot:S22", "spot:D17", "spot:B26", "spot:P35")
@pytest.mark.parametrize(
    ("room", "limits", "want"),
    [
        pytest.param(Rooms(), Limits(), None, id="room and calm"),
        pytest.param(Rooms(spot=False), Limits(), BlockReason.NO_SPOT_ROOM, id="no room"),
        pytest.param(Rooms(calm=False), Limits(), BlockReason.NOT_CALM, id="not calm"),
        pytest.param(Rooms(spot=False), Limits(spot_autoscaling=True), None, id="nodes come when pods wait"),
        pytest.param(
            Rooms(calm=False), Limits(spot_autoscaling=True), BlockReason.NOT_CALM, id="nodes that are not calm"
        ),
        pytest.param(Rooms(), NO_RETURNS, BlockReason.NOT_CALM, id="returns switched off"),
    ],
)
def test_a_surplus_goes_to_spot_only_if_spot_can_take_it(room: Rooms, limits: Limits, want: BlockReason | None) -> None:
    found = decided(deployment(1, "od:2 spot:1"), room=room, limits=limits)
    assert (found.reports["uid-web"].blocked, len(moves(found))) == (want, int(want is None))


@pytest.mark.rule("spot:P35", "spot:B18")
def test_nobody_is_moved_to_on_demand_without_room_there() -> None:
    found = decided(deployment(1, "spot:2"), room=Rooms(on_demand=False))
    assert (moves(found), found.reports["uid-web"].blocked) == ([], BlockReason.NO_ON_DEMAND_ROOM)
    scaled = decided(deployment(1, "spot:2"), room=Rooms(on_demand=False), limits=Limits(on_demand_autoscaling=True))
    assert len(moves(scaled)) == 1


@pytest.mark.rule("spot:B26", "spot:B27")
def test_returns_are_spaced_and_a_failed_one_doubles_the_wait() -> None:
    of, given = deployment(0, "od:3")
    over = [replace(each, pod_class=SPOT) for each in given]
    first = decided((of, over))
    assert [action.reason for action in moves(first) if isinstance(action, Evict)] == [Reason.RETURN]
    back = pod("back", "spot", SPOT, created=NOW, ready_since=NOW + 10)
    settled = decided((of, [*over[1:], back]), state=first.state, now=NOW + 599)
    assert (moves(settled), settled.reports["uid-web"].blocked) == ([], BlockReason.COOL_DOWN)
    assert len(moves(decided((of, [*over[1:], back]), state=settled.state, now=NOW + 600))) == 1
    pending = replace(back, node="", ready=False, ready_since=None, created=NOW + 1)
    failed = decided((of, [*over[1:], pending]), state=first.state, now=NOW + 61)
    assert failed.state.memories["uid-web"].return_wait_s == 1200
    at_once = [*over[1:], replace(pending, created=NOW)]  # times of objects are whole seconds
    failed = decided((of, at_once), state=decided((of, over), now=NOW + 0.7).state, now=NOW + 61)
    assert failed.state.memories["uid-web"].return_wait_s == 1200


@pytest.mark.rule("spot:B26", "spot:B29")
def test_a_return_has_to_pay_within_a_day() -> None:
    of, given = deployment(0, "od:2")
    over = [replace(each, pod_class=SPOT, cpu_milli=100) for each in given]
    nodes = {**NODES, "od": replace(NODES["od"], instance_type="m5", cpu_milli=2000)}

    def ask(price: float) -> Decision:
        situation = ClusterView(
            cluster((of, over), nodes=nodes), Rooms(), prices=Prices({("m5", ""): Price(price, price / 2)})
        )
        return decide(State(), situation, NOW)

    assert len(moves(ask(0.1))) == 1
    assert ask(0.001).reports["uid-web"].blocked is BlockReason.NOT_CALM, "0.002 for a restart is a month's saving"


@pytest.mark.rule("spot:F17", "spot:B11")
def test_pods_that_another_system_keeps_on_spot_are_not_moved_for_ever() -> None:
    of, given = deployment(1, "spot:2")
    state, now, pods_now = State(), NOW, list(given)
    for attempt in range(3):
        moved = decided((of, pods_now), state=state, now=now)
        (move,) = moves(moved)
        back = pod(f"back-{attempt}", "spot", SPOT, created=now + 1, ready_since=now + 30)
        pods_now = [each for each in pods_now if each.uid != move.uid] + [back]
        state, now = moved.state, now + 200
    stopped = decided((of, pods_now), state=state, now=now)
    assert (moves(stopped), stopped.reports["uid-web"].blocked) == ([], BlockReason.STOPPED)
    assert [notice.reason for notice in stopped.notices] == ["MovesStopped"]
    lower = replace(of, annotations={KEY: "0"})
    met = decided((lower, pods_now), state=state, now=now)
    assert met.state.memories["uid-web"].failures == 0, "it is not wanted any more, so nothing has failed"


@pytest.mark.rule("spot:B12", "spot:I4")
@pytest.mark.parametrize(
    ("more", "left"),
    [
        pytest.param({"rolling": True}, [], id="a rollout that a quota holds up"),
        pytest.param({}, [pod("left", "spot", SPOT)], id="a scale-down that nobody carries out"),
    ],
)
def test_a_rollout_or_scale_down_is_awaited_for_ten_minutes(more: dict[str, Any], left: list[PodFacts]) -> None:
    of, given = deployment(2, "od:1 spot:3", **more)
    first = decided((of, [*given, *left]))
    assert moves(first) == []
    early = decided((of, [*given, *left]), state=first.state, now=NOW + 599)
    assert moves(early) == []
    assert early.requeue_after is not None
    late = decided((of, [*given, *left]), state=early.state, now=NOW + 600)
    assert [each.reason for each in moves(late) if isinstance(each, Evict)] == [Reason.TO_ON_DEMAND]
    unready = [*given[:-1], replace(given[-1], ready=False, ready_since=None)]
    assert moves(decided((of, [*unready, *left]), state=early.state, now=NOW + 6000)) == [], "I4 holds for ever"
    again = decided((replace(of, revision="r2"), [*given, *left]), state=early.state, now=NOW + 600)
    assert moves(again) == [], "another rollout is awaited anew"
    over = decided((replace(of, rolling=False), given), state=early.state, now=NOW + 599)
    assert over.state.memories["uid-web"].awaited_since is None


@pytest.mark.rule("spot:P29", "spot:S3")
@pytest.mark.parametrize(
    ("kind", "annotations", "limits", "want"),
    [
        pytest.param("Deployment", {}, Limits(), Release, id="a Deployment: make before break"),
        pytest.param("Deployment", {}, Limits(make_before_break=False), Evict, id="or at once, where that is not used"),
        pytest.param("CloneSet", {}, Limits(), Evict, id="nor can be"),
        pytest.param("StatefulSet", {}, Limits(), None, id="a StatefulSet waits"),
        pytest.param("StatefulSet", {"spot.situate.dev/allow-restart": "true"}, Limits(), Evict, id="until allowed"),
        pytest.param("StatefulSet", {}, Limits(windows=(Window(parse_cron("* * * * *"), 60, parse_time_zone("UTC")),)),
                     Evict, id="or a window is open"),
    ],
)  # fmt: skip
def test_an_only_pod(kind: str, annotations: dict[str, str], limits: Limits, want: type | None) -> None:
    of = owner(1, kind, name="web", annotations={KEY: "1", **annotations})
    found = decided((of, [pod("web-0", "spot", SPOT)]), limits=limits)
    assert [type(each) for each in moves(found)] == ([want] if want else [])
    assert found.reports[UID].blocked is (None if want else BlockReason.RESTART_NOT_ALLOWED)


@pytest.mark.rule("spot:B23", "spot:F9")
def test_during_a_wave_only_the_wave_moves() -> None:
    of, given = deployment(1, "od:1 spot:2")
    hit = [given[0], replace(given[1], node="doomed"), given[2]]
    found = decided((of, hit), deployment(2, "spot:3", "api"))
    assert [type(each) for each in moves(found)] == [Release]
    assert found.wave
    assert (found.reports["uid-web"].phase, found.reports["uid-api"].blocked) == (Phase.WAVE, BlockReason.WAVE)


@pytest.mark.rule("spot:B22")
def test_a_pod_at_risk_moves_make_before_break_under_the_same_limits() -> None:
    of, given = deployment(1, "od:1 spot:2")
    risky = [given[0], replace(given[1], node="risky"), given[2]]
    found = decided((of, risky))
    assert [(type(each), each.reason) for each in moves(found) if isinstance(each, Release)] == [
        (Release, Reason.AT_RISK)
    ]
    assert moves(decided((of, risky), limits=ONE_AT_A_TIME, state=State({"x": WorkloadMemory()}))) == moves(found)
    recent = [replace(each, ready_since=NOW - 5) for each in risky]
    assert moves(decided((of, recent))) == []
    assert moves(decided((of, risky), room=Rooms(on_demand=False, spot=False))) == []


@pytest.mark.rule("spot:P11", "spot:S30", "spot:I6")
def test_mistakes_are_reported_and_the_last_valid_policy_stays() -> None:
    first = decided(deployment(2, "od:2 spot:1"))
    of, given = deployment(2, "od:2 spot:1")
    wrong = replace(of, annotations={KEY: "-3"})
    found = decided((wrong, given), state=first.state)
    assert (moves(found), found.reports["uid-web"].effective_target) == ([], 2)
    assert [(notice.reason, notice.owner) for notice in found.notices] == [("InvalidPolicy", "uid-web")]
    assert 'found "-3"' in found.notices[0].message
    assert found.notices[0].message.endswith("the last valid value, 2, stays in force until it is corrected")


@pytest.mark.finding("N19")
@pytest.mark.rule("spot:P11", "spot:P5", "spot:S30")
@pytest.mark.parametrize("spec", ["od:2 spot:3", "od:5", "spot:5", "od:2 spot:2 bare:1"])
def test_without_a_valid_value_no_pod_is_moved_either_way(spec: str) -> None:
    found = decided(deployment(2, spec, annotations={KEY: "lots"}))
    report = found.reports["uid-web"]
    assert moves(found) == []
    assert (report.target.on_demand, report.target.unreadable) == (5, True)
    assert report.blocked is (BlockReason.INVALID_POLICY if report.need else None)
    assert [notice.reason for notice in found.notices] == ["InvalidPolicy"]
    assert found.notices[0].message.endswith(
        "no valid value is known, so new Pods are created on demand and no Pod is moved until it is corrected"
    )


@pytest.mark.rule("spot:S30", "spot:D12")
def test_a_workload_that_is_switched_off_is_left_as_it_is() -> None:
    off = deployment(2, "spot:3", annotations={"spot.situate.dev/mix": "disabled"})
    found = decided(off)
    assert (found.actions, found.reports["uid-web"].phase) == ((), Phase.UNMANAGED)
    released = [pod("old", "spot", released=True, deadline=NOW - 100), *off[1]]
    assert names(decided((off[0], released))) == ["old"], "what was begun is ended"


@pytest.mark.rule("spot:B8", "spot:P25")
def test_a_conflict_is_reported_with_its_field() -> None:
    found = decided(deployment(2, "spot:3", pinned=SPOT, conflict="spec.nodeSelector"))
    assert (moves(found), found.reports["uid-web"].blocked) == ([], BlockReason.PINNED)
    assert [(n.reason, n.message) for n in found.notices] == [
        ("PolicyConflict", "more pods must be on demand, but spec.nodeSelector allows only spot nodes")
    ]


@pytest.mark.rule("spot:B45")
def test_a_leader_is_never_moved_by_policy_and_told_of_on_spot() -> None:
    of, given = deployment(2, "od:1 spot:1")
    around = MoveConstraints(leaders=frozenset({"web-spot-0"}))
    found = decided((of, given), constraints=around)
    assert (moves(found), found.reports["uid-web"].blocked) == ([], BlockReason.HELD)
    assert [notice.reason for notice in found.notices] == ["LeaderOnSpot"]
    assert decided((of, given[::-1]), constraints=MoveConstraints(leaders=frozenset({"web-od-0"}))).notices == ()


@pytest.mark.rule("spot:B41")
def test_a_floor_that_one_zone_could_take_away_is_told_of() -> None:
    def told(*zones: str) -> list[str]:
        places = {f"n{n}": replace(NODES["od"], name=f"n{n}", zone=zone) for n, zone in enumerate(zones)}
        of, given = deployment(2, "od:2")
        stood = [replace(each, node=f"n{n}") for n, each in enumerate(given)]
        known = cluster((of, stood), nodes={**places, "far": replace(NODES["od"], name="far", zone="z")})
        return [notice.reason for notice in decide(State(), ClusterView(known, Rooms()), NOW).notices]

    assert told("a", "a") == ["OneZone"]
    assert told("a", "b") == []
    assert told("z", "z") == [], "there is no other zone"


@pytest.mark.rule("spot:P31")
def test_deletion_costs_follow_what_pods_stand_on() -> None:
    of, given = deployment(1, "od:1 spot:2")
    stale = [replace(given[0], cost=100), given[1], replace(given[2], cost=7)]
    found = decided((of, stale))
    assert found.actions == (SetCost(given[0].key, given[0].uid, "uid-web", 200),)
    assert found.actions[0].patch["metadata"]["annotations"] == {"controller.kubernetes.io/pod-deletion-cost": "200"}
    assert decided((replace(of, template_cost=True), stale)).actions == ()


@pytest.mark.rule("spot:B17", "spot:B18", "spot:B19", "spot:F11")
def test_what_is_done_for_a_pod_without_room() -> None:
    of, given = deployment(2, "od:1 spot:1", replicas=3)
    short = [*given, pod("want", "", OD, created=NOW - 130)]
    full = Rooms(on_demand=False)
    waits = decided((of, short), room=full)
    assert (moves(waits), waits.reports["uid-web"].waiting) == ([], 1)
    assert [n.reason for n in waits.notices] == ["NoOnDemandRoom"]
    more = [*short, pod("too", "", OD, created=NOW - 130)]
    again = decided((replace(of, replicas=4), more), room=full)
    assert (again.notices, again.reports["uid-web"].waiting) == (waits.notices, 2), "told once, however many they are"
    owed = decided((of, short), room=full, limits=Limits(degrade_after_s=120))
    assert [(type(each), each.pod.name) for each in moves(owed)] == [(Delete, "want")]
    assert owed.state.memories["uid-web"].debt == 1
    again = decided((of, short), room=full, limits=Limits(degrade_after_s=120), state=owed.state, now=NOW + 1)
    assert (moves(again), again.state.memories["uid-web"].debt) == ([], 1), "the watch may lag"
    less = [*given, pod("back", "spot", SPOT, created=NOW + 2, ready_since=NOW + 10)]
    settled = decided((of, less), room=full, state=owed.state, now=NOW + 100)
    assert (settled.reports["uid-web"].effective_target, settled.reports["uid-web"].phase) == (1, Phase.SETTLED)
    repaid = decided((of, less), state=settled.state, now=NOW + 200)
    assert len(moves(decided((of, less), state=repaid.state, now=NOW + 205))) == 1


@pytest.mark.rule("spot:I12")
def test_when_to_look_again() -> None:
    assert decided(deployment(1, "od:1 spot:1")).requeue_after is None
    assert decided(deployment(2, "od:1 spot:1")).requeue_after == 5
    assert NODES["cordoned"].state is NodeState.CORDONED


@pytest.mark.rule("spot:B20", "spot:P30")
@pytest.mark.parametrize("managed", [True, False])
def test_a_released_pod_is_looked_at_again_at_the_moment_at_which_its_time_is_up(managed: bool) -> None:
    annotations = {} if managed else {MIX: "disabled"}
    old = pod("old", "doomed", SPOT, released=True, deadline=NOW + 120.3, grace_s=30.0)
    given = deployment(0, "spot:1", replicas=2, annotations=annotations)[0], [old, pod("new", "od", SPOT, ready=False)]
    up = NOW + 120.3 - 30 - 5
    assert decided(given, now=NOW).requeue_after == (5 if managed else pytest.approx(85.3))
    before = decided(given, now=up - 3.7)
    assert moves(before) == []
    assert before.requeue_after is not None
    assert before.requeue_after == pytest.approx(3.7)
    then = decided(given, now=up - 3.7 + before.requeue_after)
    assert moves(then) == [Delete(old.key, "uid-old", "uid-web", Reason.REPLACED)]
    assert then.requeue_after == 5, "not again at a moment that is past"


@pytest.mark.rule("spot:B20", "spot:B45", "spot:P30")
def test_of_pods_on_nodes_that_end_the_first_whose_time_is_up_decides_when_to_look_again() -> None:
    given = [
        pod("early", "doomed", SPOT, grace_s=60.0, ready=False),
        pod("late", "doomed", SPOT, grace_s=1.0, ready=False),
        pod("ends", "doomed", SPOT, grace_s=62.0, terminating=True),
    ]
    of = deployment(0, "spot:2")[0]
    nowhere = Rooms(on_demand=False, spot=False)
    for now, left in ((NOW + 52, 3.0), (NOW + 55, 5.0), (NOW + 112, 2.0), (NOW + 114, 5.0)):
        assert decided((of, given), room=nowhere, now=now).requeue_after == left, now - NOW


@pytest.mark.rule("spot:D17", "spot:B18")
def test_who_is_on_its_way_keeps_its_place() -> None:
    """The first StatefulSet's pod is still ending: its place on demand is not given to the second's."""

    class OnePlace(Rooms):
        taken = ""

        def fits(self, pod: PodFacts, capacity: Capacity, *, without: Any = None, pools: Any = None) -> bool:
            self.taken = self.taken or pod.uid
            return self.taken == pod.uid

    first, second = deployment(2, "od:1 bare:2", "first"), deployment(2, "od:1 bare:2", "second")
    begun = decided(first, second, room=OnePlace())
    (move,) = moves(begun)
    assert move.owner == "uid-first"
    going = [replace(each, terminating=each.uid == move.uid) for each in first[1]]
    later = decided((first[0], going), second, state=begun.state, room=OnePlace(), now=NOW + 5)
    assert moves(later) == []
    assert later.reports["uid-second"].blocked is BlockReason.NO_ON_DEMAND_ROOM


@pytest.mark.rule("spot:B4", "spot:P2")
def test_a_pod_that_slipped_through_lately_is_put_right_without_a_cool_down() -> None:
    of, given = deployment(2, "od:1 bare:2")
    young = [replace(each, created=NOW - 30, ready_since=NOW - 5) for each in given]
    assert [each.reason for each in decided((of, young)).actions if isinstance(each, Evict)] == [Reason.REPAIR]
    classed = [replace(each, pod_class=each.pod_class or SPOT, cost=100) for each in young]
    assert decided((of, classed)).reports[of.uid].blocked is BlockReason.COOL_DOWN
    old = [replace(each, ready_since=NOW - 5) for each in given]
    assert decided((of, old)).reports[of.uid].blocked is BlockReason.COOL_DOWN, "what ran before us can wait"
    patient = replace(of, min_ready_s=20.0)
    assert decided((patient, young)).reports[of.uid].blocked is BlockReason.COOL_DOWN


@pytest.mark.rule("spot:B8", "spot:P25")
def test_a_workload_whose_pods_no_node_may_hold_is_told_which_field_says_so() -> None:
    of, given = deployment(0, "spot:2", placeable=False, conflict="spec.nodeSelector")
    (notice,) = decided((of, given)).notices
    assert (notice.owner, notice.reason) == (of.uid, "Unplaceable")
    assert notice.message.startswith("spec.nodeSelector allows neither")


@pytest.mark.finding("N30")
@pytest.mark.rule("spot:B29")
def test_a_cool_down_is_no_block_and_ends_at_a_known_time() -> None:
    of, given = deployment(3, "od:1 spot:4")
    steady = [replace(given[0], ready_since=NOW - 20), *given[1:]]
    report = decided((of, steady)).reports[of.uid]
    assert (report.phase, report.blocked, report.until) == (Phase.CONVERTING, BlockReason.COOL_DOWN, NOW + 40)
    full = decided((of, given), room=Rooms(on_demand=False)).reports[of.uid]
    assert (full.phase, full.blocked, full.until) == (Phase.BLOCKED, BlockReason.NO_ON_DEMAND_ROOM, None)


@pytest.mark.finding("N30")
@pytest.mark.rule("spot:B26", "spot:B29")
def test_a_pool_that_is_not_calm_says_from_when_on_it_is() -> None:
    of, given = deployment(0, "od:1 spot:2")
    over = [replace(given[0], pod_class=SPOT), *given[1:]]
    pools = Pools({"m5/a": PoolMemory(interrupted_at=NOW - 600)})
    report = decided((of, over), room=Rooms(calm=False), state=State(pools=pools)).reports[of.uid]
    assert (report.blocked, report.until) == (BlockReason.NOT_CALM, NOW + 1200), "calm for 30 min"
    off = decided((of, over), limits=NO_RETURNS).reports[of.uid]
    assert (off.blocked, off.until) == (BlockReason.NOT_CALM, None), "going back is switched off"
