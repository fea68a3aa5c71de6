"""Scripted stories of the shipped controller and webhook on virtual time: bursts that are cut, waves, rollouts.

What random histories check holds here as well: the same watchdog looks at every write, answer and change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.spot.config.settings import SpotSettings
from situate.spot.model.object_names import POLICIES
from situate.spot.model.pods_nodes_workloads import CLASS, ON_DEMAND
from situate.spot.workloads.on_demand_policy import Count, Default, Policy
from situate.spot.workloads.policy_record import KEY, from_text
from situate.testing.histories.steps import RestoreNodes
from situate.testing.spot import steps
from situate.testing.spot.invariants.object_rows import OwnerRow
from situate.testing.spot.invariants.rules import unfinished_work
from situate.testing.spot.run import SpotHistoryRun
from situate.testing.spot.world.initial_objects import WorkloadPlan
from situate.testing.spot.world.webhooks import ReviewFaults
from situate.testing.spot.world.workloads import workload
from situate.testing.spot.world.world import OWN_NAMESPACE, SHOP, SpotWorld, parse_settings
from situate.testing.virtual_time.isolation import disable_collector, suppress_logs
from situate.testing.virtual_time.network import NetworkFaults

DEPLOYMENTS = f"/apis/apps/v1/namespaces/{SHOP}/deployments"
WEB = WorkloadPlan("web", "Deployment", 10, "2")


@contextmanager
def stage(
    *plans: WorkloadPlan, seed: int = 1, events: bool = False, settings: SpotSettings | None = None
) -> Iterator[SpotHistoryRun]:
    """Nodes of both kinds, a leader that answers, and workloads that have come up."""
    with disable_collector(), suppress_logs():
        made = SpotHistoryRun.create(seed, settings or parse_settings(), events=events)
        try:
            made.begin(plans)
            yield made
            made.watchdog.check()
        finally:
            made.world.close()


def owner(of: SpotHistoryRun, name: str = "web") -> OwnerRow:
    return next(each for each in of.recorder.owners.values() if each.name == name)


def classes(of: SpotHistoryRun, name: str = "web") -> Counter[str]:
    alive = [each for each in of.world.pods(name) if not each["metadata"].get("deletionTimestamp")]
    return Counter(each["metadata"]["labels"].get(CLASS, "") for each in alive)


def answers_again(of: SpotHistoryRun) -> bool:
    leader = of.world.leader()
    return leader is not None and any(
        door.listening and door.process is leader.process for door in of.world.endpoints.values()
    )


def least(of: SpotHistoryRun, what: Callable[[str], int], name: str = "web") -> list[int]:
    """The list grows by what is found of the workload whenever one of its pods changes."""
    uid = owner(of, name).uid
    found: list[int] = []
    of.recorder.change_listeners.append(lambda changed: found.append(what(uid)) if changed == uid else None)
    return found


def want(of: SpotHistoryRun, policy: str, name: str = "web") -> None:
    change = {"metadata": {"annotations": {ON_DEMAND: policy}}}
    of.world.call("PATCH", f"{DEPLOYMENTS}/{name}", change, patch=True)


def recorded(of: SpotHistoryRun) -> dict[str, Policy]:
    """The policies on the ConfigMap, by uid of the workload."""
    found = of.world.call("GET", f"/api/v1/namespaces/{OWN_NAMESPACE}/configmaps/{POLICIES}")
    return from_text(found["data"][KEY])


def settle(of: SpotHistoryRun, seconds: float = 600.0) -> None:
    """Until every workload stands as it should."""
    for _ in range(int(seconds / 5)):
        of.world.let_pass(5.0)
        of.watchdog.check()
        if (missing := unfinished_work(of.watchdog)) is None:
            return
    pytest.fail(f"after {seconds:g} s: {missing}")


@pytest.mark.rule("spot:B2", "spot:P20", "spot:P21", "spot:K3", "spot:D2", "spot:F5")
@pytest.mark.parametrize(("every", "floor"), [(2, 5), (3, 20), (5, 12)])
def test_refused_creations_leave_the_floor_exact(every: int, floor: int) -> None:
    with stage(events=True) as of:
        of.world.network.faults = NetworkFaults(event_delay_s=0.5, event_jitter_s=1.5)
        of.performer.perform(steps.RefuseCreations(0.0, every))
        of.performer.create(WorkloadPlan("web", "Deployment", 40, str(floor)))
        of.world.let_pass(60.0)
        of.world.network.faults = NetworkFaults()
        settle(of)
        assert of.world.happened["creation refused"] >= 40 // every
        assert of.recorder.on_demand_count(owner(of).uid) == floor
        assert len(of.watchdog.policy_moves) <= 1


@pytest.mark.rule("spot:B3", "spot:P18", "spot:F2")
@pytest.mark.parametrize("seed", range(4))
def test_repeated_and_reordered_reviews_are_counted_once(seed: int) -> None:
    with stage(seed=seed) as of:
        of.world.network.faults = NetworkFaults(event_delay_s=2.0)
        of.world.webhook_calls.faults = ReviewFaults(latency_s=(0.001, 0.4), repeat=0.5)
        of.performer.create(WorkloadPlan("web", "Deployment", 50, "20"))
        of.world.let_pass(20.0)
        assert of.world.network.happened["review repeated"] >= 10
        assert classes(of)["on-demand"] >= 20
        assert classes(of)[""] == 0


@pytest.mark.rule("spot:B4", "spot:P22", "spot:F3", "spot:I11")
@pytest.mark.parametrize("answers", [1, 4, 11, 23])
@pytest.mark.parametrize("end", ["killed", "paused"])
def test_a_leader_that_is_lost_in_a_burst_leaves_the_floor(answers: int, end: str) -> None:
    with stage() as of:
        given = 0

        def lose(_: str, __: object) -> None:
            nonlocal given
            given += 1
            leader = of.world.leader()
            if given == answers and leader is not None:
                act = of.world.end if end == "killed" else lambda member: member.process.pause()
                of.world.timeline.call_after(0.0, lambda: act(leader))

        of.world.answer_listeners.append(lose)
        of.world.network.faults = NetworkFaults(event_delay_s=1.0)
        of.world.webhook_calls.faults = ReviewFaults(latency_s=(0.001, 0.05))
        of.performer.create(WorkloadPlan("web", "Deployment", 30, "10"))
        assert of.world.let_pass(5.0, stop=lambda: given >= answers)
        lost = of.world.now
        of.world.let_pass(0.01)
        assert of.world.let_pass(20.0, stop=lambda: answers_again(of)), "somebody answers again within 20 s"
        of.world.let_pass(max(0.0, lost + 85.0 - of.world.now))
        assert of.recorder.on_demand_count(owner(of).uid) >= 10, "put right within a minute after that"
        for member in of.world.members:
            member.process.resume()
        of.watchdog.check()


@pytest.mark.rule("spot:I11", "spot:P1", "spot:F3")
def test_a_leader_that_slept_gives_no_answer_to_what_was_asked_meanwhile() -> None:
    with stage(WorkloadPlan("db", "StatefulSet", 3, parallel=True)) as of:
        sleeper = of.world.leader()
        assert sleeper is not None
        sleeper.process.pause()
        sets = f"/apis/apps/v1/namespaces/{SHOP}/statefulsets"
        of.world.call("PATCH", f"{sets}/db", {"spec": {"replicas": 6}}, patch=True)
        of.world.let_pass(30.0)
        assert of.world.network.happened["review timed out"] >= 1
        told: list[tuple[str, int]] = []
        of.world.answer_listeners.append(lambda identity, reply: told.append((identity, reply.status)))
        sleeper.process.resume()
        of.world.let_pass(5.0)
        assert {status for identity, status in told if identity == sleeper.identity} == {503}


@pytest.mark.rule("spot:I4", "spot:I5", "spot:B18")
@pytest.mark.parametrize("trouble", ["unready", "missing"])
def test_nothing_is_moved_while_a_pod_is_missing_or_does_not_serve(trouble: str) -> None:
    with stage(WEB) as of:
        name = min(pod.name for pod in of.recorder.pods.values() if pod.pod_class == "spot")
        if trouble == "missing":
            of.performer.perform(steps.RefuseCreations(0.0, 1))
            of.world.call("DELETE", f"/api/v1/namespaces/{SHOP}/pods/{name}")
        else:
            change = {"metadata": {"annotations": {"unready": "true"}}}
            of.world.call("PATCH", f"/api/v1/namespaces/{SHOP}/pods/{name}", change, patch=True)
        of.world.let_pass(5.0)
        want(of, "4")
        of.world.let_pass(180.0)
        of.watchdog.check()
        assert of.watchdog.policy_moves == []


@pytest.mark.rule("spot:P13", "spot:B26", "spot:B28", "spot:D7")
def test_pods_that_found_no_room_on_spot_count_where_they_are_and_go_back() -> None:
    quick = parse_settings(**{"return": {"every": "15s", "nodeAge": "30s", "calm": "60s"}})
    with stage(settings=quick) as of:
        of.performer.perform(steps.Fill(0.0, "spot"))
        of.performer.create(WEB)
        of.world.let_pass(40.0)
        assert (classes(of)["spot"], of.recorder.on_demand_count(owner(of).uid)) == (8, 10)
        of.performer.perform(RestoreNodes(0.0))
        settle(of, 1200.0)


@pytest.mark.rule("spot:I10", "spot:P12", "spot:D6", "spot:F12")
def test_pods_on_a_node_that_loses_its_label_are_not_on_demand_any_more() -> None:
    with stage(WEB) as of:
        of.watchdog.record_disturbance()
        held = {pod.node for pod in of.recorder.pods.values() if pod.pod_class == "on-demand"}
        for name in held:
            change = {"metadata": {"labels": {"node.kubernetes.io/capacity": None}}}
            of.world.call("PATCH", f"/api/v1/nodes/{name}", change, patch=True)
        assert of.recorder.on_demand_count(owner(of).uid) == 0
        settle(of)


@pytest.mark.rule("spot:I9", "spot:P23", "spot:D8", "spot:S24")
def test_what_a_user_asks_of_nodes_still_holds() -> None:
    with stage(WorkloadPlan("zonal", "Deployment", 6, "3", zone="zone-0")) as of:
        nodes = of.recorder.nodes
        zones = {nodes[pod.node].labels["topology.kubernetes.io/zone"] for pod in of.recorder.pods.values()}
        assert zones == {"zone-0"}
        assert of.recorder.on_demand_count(owner(of, "zonal").uid) == 3


@pytest.mark.rule("spot:B10", "spot:I5", "spot:P2", "spot:D14")
def test_installed_onto_a_running_cluster_it_moves_what_lacks_and_nothing_else() -> None:
    plans = (WEB, WorkloadPlan("api", "Deployment", 4), WorkloadPlan("db", "StatefulSet", 3))
    with stage() as of:
        of.performer.perform(steps.BothDown(0.0, 60.0))
        of.performer.perform(steps.Fill(0.0, "on-demand"))
        for plan in plans:
            of.performer.create(plan)
        of.world.let_pass(50.0)
        of.performer.perform(RestoreNodes(0.0))
        rows = [owner(of, plan.name) for plan in plans]
        assert [of.recorder.serving_count(row.uid) for row in rows] == [10, 4, 3]
        serving = {row.name: least(of, of.recorder.serving_count, row.name) for row in rows}
        before = {pod.uid for pod in of.recorder.pods.values()}
        of.world.let_pass(600.0)
        assert Counter(name for _, name, _ in of.watchdog.policy_moves) == {"web": 2, "db": 2}
        assert min(serving["web"]) >= 9
        assert min(serving["db"]) >= 2
        assert len(before - {pod.uid for pod in of.recorder.pods.values()}) == 4


@pytest.mark.rule("spot:B15", "spot:B16", "spot:D13", "spot:P31")
@pytest.mark.parametrize("surge", [True, False])
def test_rollouts_keep_the_floor_at_every_moment_and_end_exact(surge: bool) -> None:
    plan = WorkloadPlan("web", "Deployment", 10, "4", surge=surge)
    with stage(plan) as of:
        found = least(of, of.recorder.on_demand_serving_count)
        for version in (1, 2, 0):
            change = {"spec": {"template": {"metadata": {"annotations": {"version": str(version)}}}}}
            of.world.call("PATCH", f"{DEPLOYMENTS}/web", change, patch=True)
            of.world.let_pass(10.0)
            if version == 2:
                of.world.call("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 12}}, patch=True)
            settle(of)
        assert min(found) >= (4 if surge else 3)
        assert of.watchdog.policy_moves == []


@pytest.mark.finding("N19")
@pytest.mark.rule("spot:P11", "spot:P22", "spot:F3")
@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_a_typo_leaves_the_floor_in_force_whoever_leads(end: str) -> None:
    with stage(WorkloadPlan("web", "Deployment", 10, "3")) as of:
        settle(of)
        before = {each["metadata"]["uid"] for each in of.world.pods("web")}
        want(of, "lots")
        of.world.let_pass(5.0)
        for member in tuple(of.world.members):
            (of.world.end if end == "killed" else of.world.stop)(member)
        assert of.world.let_pass(60.0, stop=lambda: answers_again(of))
        of.world.let_pass(120.0)
        assert {each["metadata"]["uid"] for each in of.world.pods("web")} == before, "a typo moves no Pod"
        found = least(of, of.recorder.on_demand_serving_count)
        change = {"spec": {"template": {"metadata": {"annotations": {"version": "1"}}}}}
        of.world.call("PATCH", f"{DEPLOYMENTS}/web", change, patch=True)
        of.world.let_pass(300.0)
        assert min(found) >= 3
        assert classes(of) == {"on-demand": 3, "spot": 7}, "the webhook goes by the same value"
        want(of, "2")
        settle(of, 1800.0)
        assert of.recorder.on_demand_count(owner(of).uid) == 2


class WithoutRights:
    """The API server of an installation whose rights are older than its image: it refuses ConfigMaps."""

    def __init__(self, world: SpotWorld) -> None:
        self._world = world
        self.refused = 0

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch | None:
        if request.path.startswith(f"/api/v1/namespaces/{OWN_NAMESPACE}/configmaps"):
            self.refused += 1
            status = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "no"}
            return Response(403, msgspec.json.encode(status), {"content-type": "application/json"})
        return self._world.answer(request, now, identity)


@pytest.mark.finding("N19")
@pytest.mark.rule("spot:P11", "spot:P1")
def test_a_leader_that_may_not_read_the_record_answers_and_moves_nothing_that_is_in_doubt() -> None:
    with stage(WorkloadPlan("web", "Deployment", 4, "2")) as of:
        settle(of)
        want(of, "lots")
        of.world.let_pass(5.0)
        of.world.network.server = server = WithoutRights(of.world)
        before = {each["metadata"]["uid"] for each in of.world.pods("web")}
        for member in tuple(of.world.members):
            of.world.stop(member)
        assert of.world.let_pass(60.0, stop=lambda: answers_again(of))
        of.world.let_pass(120.0)
        assert server.refused
        assert {each["metadata"]["uid"] for each in of.world.pods("web")} == before
        of.performer.create(WorkloadPlan("api", "Deployment", 4, "1"))
        of.world.let_pass(30.0)
        assert classes(of, "api") == {"on-demand": 1, "spot": 3}


@pytest.mark.finding("N19")
@pytest.mark.rule("spot:P11", "spot:P5")
def test_a_value_that_never_was_readable_moves_nothing_and_new_pods_are_on_demand() -> None:
    with stage(WorkloadPlan("web", "Deployment", 4, "lots"), WorkloadPlan("api", "Deployment", 4, "2")) as of:
        of.world.let_pass(60.0)
        assert classes(of) == {"on-demand": 4}
        want(of, "1")
        settle(of, 1800.0)
        assert of.recorder.on_demand_count(owner(of).uid) == 1


@pytest.mark.finding("N19")
@pytest.mark.rule("spot:P11")
def test_a_removed_annotation_means_the_default_and_its_record_goes() -> None:
    with stage(WorkloadPlan("web", "Deployment", 4, "2")) as of:
        settle(of)
        assert recorded(of) == {owner(of).uid: Count(2)}
        of.world.call("PATCH", f"{DEPLOYMENTS}/web", {"metadata": {"annotations": {ON_DEMAND: None}}}, patch=True)
        settle(of, 1800.0)
        assert recorded(of) == {}
        want(of, "lots")
        of.world.let_pass(5.0)
        assert recorded(of) == {owner(of).uid: Default()}, "the value in force stays, also for the next leader"
        of.world.call("DELETE", f"{DEPLOYMENTS}/web")
        of.world.let_pass(5.0)
        assert recorded(of) == {}


@pytest.mark.finding("N19")
@pytest.mark.rule("spot:P11", "spot:B9")
def test_a_workload_that_is_made_again_has_no_record_of_the_one_before() -> None:
    with stage(WorkloadPlan("web", "Deployment", 4, "2")) as of:
        settle(of)
        of.world.call("DELETE", f"{DEPLOYMENTS}/web")
        of.world.let_pass(30.0)
        of.performer.create(WorkloadPlan("web", "Deployment", 4, "lots"))
        of.world.let_pass(30.0)
        assert recorded(of) == {}
        assert classes(of) == {"on-demand": 4}


@pytest.mark.rule("spot:I2", "spot:I3", "spot:S4", "spot:B20", "spot:B21")
@pytest.mark.parametrize("silent", [False, True])
def test_when_all_spot_ends_without_a_word_the_floor_serves(silent: bool) -> None:
    plans = (WEB, WorkloadPlan("db", "StatefulSet", 5))
    with stage(*plans) as of:
        web, db = least(of, of.recorder.serving_count), least(of, of.recorder.serving_count, "db")
        of.performer.perform(steps.Wave(0.0, 0.0, silent))
        ended = of.world.now
        of.world.let_pass(15.0)
        assert of.world.let_pass(240.0, stop=lambda: of.recorder.serving_count(owner(of).uid) == 10)
        assert min(web) >= 2
        assert min(db) >= 3
        assert of.world.now - ended <= 90.0


@pytest.mark.rule("spot:B20", "spot:B22", "spot:S5", "spot:F9")
def test_two_announced_waves_one_in_the_recovery_of_the_other_cost_nobody_a_pod() -> None:
    with stage(WEB) as of:
        found = least(of, of.recorder.serving_count)
        of.performer.perform(steps.Wave(0.0, 120.0, silent=False))
        of.world.let_pass(60.0)
        of.performer.perform(steps.AddSpot(0.0, 6))
        of.world.let_pass(20.0)
        of.performer.perform(steps.Wave(0.0, 120.0, silent=False))
        of.world.let_pass(200.0)
        settle_floor = of.recorder.on_demand_count(owner(of).uid)
        assert settle_floor >= 2
        assert min(found) >= 10


@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.rule("spot:B27", "spot:B39")
def test_spot_that_comes_and_goes_moves_each_pod_at_most_once_in_two_hours() -> None:
    with stage(WorkloadPlan("web", "Deployment", 6, "1")) as of:
        for _ in range(20):
            of.performer.perform(steps.Wave(0.0, 0.0, silent=False))
            of.world.let_pass(180.0)
            of.performer.perform(steps.AddSpot(0.0, 6))
            of.world.let_pass(180.0)
        assert of.recorder.serving_count(owner(of).uid) == 6
        assert len(of.watchdog.policy_moves) <= 6


@pytest.mark.rule("spot:B26", "spot:B27", "spot:P22", "spot:F3")
@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_new_leader_waits_for_the_calm_that_the_one_before_waited_for(end: str) -> None:
    patient = parse_settings(**{"return": {"every": "15s", "nodeAge": "30s", "calm": "300s", "flap": "10s"}})
    with stage(WorkloadPlan("web", "Deployment", 4, "1"), settings=patient) as of:
        of.performer.perform(steps.Fill(0.0, "spot"))
        of.world.call("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 8}}, patch=True)
        of.world.let_pass(30.0)
        of.performer.clouds.end_node("spot-0", silent=False)
        of.performer.clouds.end_node("spot-1", silent=False)  # each of a pool of its own
        ended = of.world.now
        of.world.let_pass(2.0)
        leader = of.world.leader()
        assert leader is not None
        (of.world.end if end == "kill" else of.world.stop)(leader)
        of.performer.perform(RestoreNodes(0.0))
        of.world.let_pass(ended + 299.0 - of.world.now)
        assert of.recorder.on_demand_count(owner(of).uid) > 1
        assert of.watchdog.policy_moves == []
        assert of.world.let_pass(120.0, stop=lambda: bool(of.watchdog.policy_moves))


@pytest.mark.rule("spot:B39", "spot:F13")
def test_an_autoscaler_and_spot_do_not_move_pods_to_and_fro() -> None:
    with stage(WorkloadPlan("web", "Deployment", 8, "3")) as of:
        for replicas in (12, 6, 14, 4, 10, 5, 9) * 2:
            of.world.call("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": replicas}}, patch=True)
            of.world.let_pass(100.0)
        assert of.watchdog.policy_moves == []
        assert of.recorder.on_demand_count(owner(of).uid) == 3


def evict(of: SpotHistoryRun, name: str) -> bool:
    """As a descheduler, a vertical autoscaler or a drain does."""
    row = of.recorder.pod_named(name)
    if row is None or not row.live:
        return False
    of.watchdog.record_disturbance(of.recorder.owner_of(row))
    eviction = {"metadata": {"name": name, "namespace": SHOP}}
    answer = of.world.call("POST", f"/api/v1/namespaces/{SHOP}/pods/{name}/eviction", eviction)
    return bool(answer["status"] == "Success")


def take_away(of: SpotHistoryRun, node: str) -> None:
    """As a cluster autoscaler does with a node that is not worth its price, and another one comes soon after."""
    pods = [pod.name for pod in of.recorder.pods.values() if pod.node == node]
    of.watchdog.record_disturbance()
    of.performer.clouds.taint(node, "ToBeDeletedByClusterAutoscaler")
    for name in pods:
        evict(of, name)
    of.world.let_pass(30.0)
    of.performer.clouds.end_node(node, silent=False)
    of.world.let_pass(60.0)
    of.performer.clouds.add_nodes("spot" if node.startswith("spot") else "on-demand", 1)


@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.rule("spot:B39", "spot:F13", "spot:I13")
def test_two_hours_beside_autoscalers_and_a_descheduler_are_no_tug_of_war() -> None:
    """Pods are scaled every 10 min, evicted every 5 min, and every 20 min a node is taken away and replaced."""
    most = {"web": 12, "db": 3}
    with stage(WorkloadPlan("web", "Deployment", 8, "3"), WorkloadPlan("db", "StatefulSet", 3)) as of:
        evicted, ends = 0, of.world.now + 7200.0
        for number in range(24):
            begun = of.world.now
            if number % 2 == 0:
                replicas = (12, 6, 10, 4)[number // 2 % 4]
                of.world.call("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": replicas}}, patch=True)
            of.world.let_pass(60.0)
            crowd = Counter(pod.node for pod in of.recorder.pods.values()).most_common(1)[0][0]
            evicted += evict(of, max(pod.name for pod in of.recorder.pods.values() if pod.node == crowd))
            of.world.let_pass(60.0)
            if number % 4 == 3:
                kinds = of.performer.clouds
                take_away(of, (kinds.spot_nodes() if number % 8 == 3 else kinds.on_demand_nodes())[0])
            of.world.let_pass(begun + 300.0 - of.world.now)
            of.watchdog.check()
        assert (evicted, of.world.now) == (24, ends)
        by_us = Counter(name for _, name, _ in of.watchdog.policy_moves)
        assert all(by_us[name] <= number for name, number in most.items()), of.watchdog.policy_moves
        settle(of)
        before = of.watchdog.moves
        of.world.let_pass(300.0)
        assert of.watchdog.moves == before, "everybody is content once nobody else does anything"


@pytest.mark.rule("spot:B37", "spot:P6", "spot:F15")
def test_certificates_that_live_for_a_minute_fail_no_admission() -> None:
    with stage(WEB, settings=parse_settings(webhook={"certificateLife": "60s"})) as of:
        for number in range(20):
            of.world.call("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 10 + number % 2 * 5}}, patch=True)
            of.world.let_pass(9.0)
        assert classes(of)[""] == 0
        happened = of.world.network.happened
        assert (happened["certificate not trusted"], happened["review refused"], happened["review timed out"]) == (
            0,
            0,
            0,
        )


@pytest.mark.rule("spot:I15", "spot:D9", "spot:F4")
def test_without_the_system_pods_start_and_drain() -> None:
    with stage(WEB) as of:
        of.performer.perform(steps.BothDown(0.0, 300.0))
        of.world.call("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 16}}, patch=True)
        of.world.let_pass(20.0)
        assert of.recorder.serving_count(owner(of).uid) == 16
        name = next(pod.name for pod in of.recorder.pods.values())
        eviction = {"metadata": {"name": name, "namespace": SHOP}}
        answer = of.world.call("POST", f"/api/v1/namespaces/{SHOP}/pods/{name}/eviction", eviction)
        assert answer["status"] == "Success"
        of.world.let_pass(20.0)
        assert of.recorder.pod_named(name) is None
        assert of.recorder.serving_count(owner(of).uid) == 16


@pytest.mark.rule("spot:I8", "spot:S3")
def test_pods_of_nobody_and_of_others_are_left_as_they_are() -> None:
    with stage() as of:
        plain = workload(WEB)["spec"]["template"]
        plain["metadata"] = {"name": "bare", "labels": {"app": "bare"}}
        of.world.create_object(f"/api/v1/namespaces/{SHOP}/pods", plain)
        alone = {"metadata": {"name": "alone"}, "spec": {**workload(WEB)["spec"], "replicas": 2}}
        alone["spec"].pop("strategy")
        of.world.create_object(f"/apis/apps/v1/namespaces/{SHOP}/replicasets", alone)
        out = workload(WEB)
        out["spec"]["template"]["metadata"]["labels"]["spot.situate.dev/mix"] = "disabled"
        of.world.create_object(DEPLOYMENTS, out)
        of.world.let_pass(20.0)
        found = of.world.pods()
        assert len(found) == 13
        assert all(CLASS not in each["metadata"]["labels"] for each in found)
        assert all("affinity" not in each["spec"] for each in found)
