"""Supervisors on virtual time, with executors that are the shipped ones: who gets what, and when."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from unittest.mock import ANY

import pytest

from situate.runtime.metrics import Metrics
from situate.sharding.assignment.desired_executors import SizingConfig
from situate.sharding.executor.controller.objects import Request
from situate.sharding.executor.controller.work import Work
from situate.sharding.executor.next_step import Outcome
from situate.sharding.fencing.admission_policy import LeaderLease, ServiceAccounts, fencing_policies
from situate.sharding.fencing.admit import Fence
from situate.sharding.leases.membership import lease_name
from situate.sharding.model.field_paths import Content
from situate.sharding.model.names import PRIORITY, STATUS
from situate.sharding.model.object_view import ObjectView
from situate.sharding.partitions.hashing import fnv1a64
from situate.sharding.partitions.partitions import partition_of, static_partition
from situate.sharding.rebalancing import Goal, RebalanceConfig
from situate.sharding.strategies import MinScheduled, ObjectFacts, RoundRobin, Rules
from situate.testing.sharding.world.executor_world import NAMESPACE, ExecutorProcess
from situate.testing.sharding.world.reports import REPORTS, report
from situate.testing.sharding.world.supervisor_world import LEASES, PODS, SupervisorWorld
from situate.testing.virtual_time.network import NetworkFaults


async def quick(_: ExecutorProcess, __: Content, ___: Work) -> Outcome:
    await asyncio.sleep(1)
    return Outcome.succeeded("Done")


@pytest.mark.rule("sharding:K3", "sharding:K5", "sharding:L1", "sharding:S4")
def test_objects_are_spread_over_executors(town: SupervisorWorld) -> None:
    members = [town.create_executor(name) for name in ("a", "b", "c")]
    town.start_supervisor()
    for number in range(12):
        town.create(f"r-{number}")
    assert town.run(60, lambda: sum(len(each.running_names) for each in members) == 12)
    assert Counter(each.executor for each in town.views()) == {"a": 4, "b": 4, "c": 4}


def test_what_comes_later_is_assigned_within_a_second(town: SupervisorWorld) -> None:
    town.create_executor("a")
    town.start_supervisor()
    town.run(30)
    town.create("r")
    assert town.run(1, lambda: "r" in town.first_assigned_at)


@pytest.mark.rule("sharding:K8", "sharding:L2")
def test_a_crash_moves_the_objects_when_the_lease_has_run_out(town: SupervisorWorld) -> None:
    first, second = town.create_executor("a"), town.create_executor("b")
    town.start_supervisor()
    for number in range(4):
        town.create(f"r-{number}")
    assert town.run(30, lambda: len(first.running_names) == len(second.running_names) == 2)
    town.run(20)
    crashed_at = town.world.now
    first.crash()
    assert town.run(20, lambda: len(second.running_names) == 4)
    assert 10 < town.world.now - crashed_at < 17.1
    assert Counter(each.why for each in town.views()) == {"new": 2, "lost": 2}


@pytest.mark.rule("sharding:B2")
def test_the_next_supervisor_takes_over_in_time_and_moves_nothing(town: SupervisorWorld) -> None:
    town.create_executor("a")
    town.create_executor("b")
    town.start_supervisor("s1")
    town.start_supervisor("s2")
    for number in range(6):
        town.create(f"r-{number}")
    town.run(30)
    before = {view.name: view.epoch for view in town.views()}
    first = town.current_leader
    assert first is not None
    crashed_at = town.world.now
    first.crash()
    town.create("late")
    assert town.run(20, lambda: "late" in town.first_assigned_at)
    assert town.world.now - crashed_at <= 17
    assert {view.name: view.epoch for view in town.views() if view.name != "late"} == before


@pytest.mark.rule("sharding:S10", "sharding:X4")
def test_a_leader_that_wakes_up_writes_nothing_in_its_old_term(town: SupervisorWorld) -> None:
    town.create_executor("a")
    old = town.start_supervisor("s1")
    assert town.run(10, lambda: old.is_leader)
    new = town.start_supervisor("s2")
    town.run(10)
    old.process.pause()
    town.run(20, lambda: new.is_leader)
    town.create("first")
    town.run(1, lambda: "first" in town.first_assigned_at)
    new.crash()
    town.create("second")
    old.process.resume()
    assert town.run(40, lambda: "second" in town.first_assigned_at)
    assert town.view("second").term > town.view("first").term


@pytest.mark.rule("sharding:X15")
def test_a_silent_watch_kills_nobody(town: SupervisorWorld) -> None:
    members = [town.create_executor("a"), town.create_executor("b")]
    town.start_supervisor()
    for number in range(4):
        town.create(f"r-{number}")
    assert town.run(10, lambda: sum(len(each.running_names) for each in members) == 4)
    town.network.faults = NetworkFaults(lose_event=1.0)
    town.run(90)
    assert {view.epoch for view in town.views()} == {1}


@pytest.mark.rule("sharding:B4", "sharding:L3")
def test_a_cordoned_executor_gives_everything_up(town: SupervisorWorld) -> None:
    first, second = town.create_executor("a"), town.create_executor("b")
    town.start_supervisor()
    for number in range(6):
        town.create(f"r-{number}")
    assert town.run(10, lambda: len(first.running_names) == len(second.running_names) == 3)
    town.cordon("a")
    assert town.run(10, lambda: len(second.running_names) == 6)
    assert not first.running_names


def test_no_more_are_asked_to_drain_than_may_be_at_a_time(town_of: Callable[..., SupervisorWorld]) -> None:
    async def reluctant(member: ExecutorProcess, _: Content, __: Work) -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            await asyncio.sleep(3)

    town = town_of(max_parallel_drains=2)
    first = town.create_executor("a", reluctant)
    town.start_supervisor()
    for number in range(6):
        town.create(f"r-{number}")
    assert town.run(10, lambda: len(first.running_names) == 6)
    second = town.create_executor("b", reluctant)
    town.run(5)
    town.cordon("a")
    most = 0
    for _ in range(60):
        town.run(0.25)
        most = max(most, sum(view.drain is not None for view in town.views()))
    assert most == 2
    assert len(second.running_names) == 6, "each turn follows the last at once"


def test_who_is_full_gets_no_more_until_there_is_room(town: SupervisorWorld) -> None:
    release = {"r-0": 20.0}

    async def for_a_while(_: ExecutorProcess, obj: Content, __: Work) -> Outcome:
        await asyncio.sleep(release.get(obj["metadata"]["name"], 1e9))
        return Outcome.succeeded()

    member = town.create_executor("a", for_a_while, capacity=2)
    town.start_supervisor(strategy=RoundRobin())
    town.run(5)
    for number in range(3):
        town.create(f"r-{number}")
        town.run(1)
    town.run(5)
    assert member.running_names == ["r-0", "r-1"]
    condition = town.get("r-2")["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Assigned", "False", "NoCapacity")
    assert town.run(20, lambda: member.running_names == ["r-1", "r-2"])
    assert town.run(5, lambda: town.get("r-2")["status"]["conditions"][0]["status"] == "True")


def test_of_those_that_wait_the_highest_priority_goes_first(town: SupervisorWorld) -> None:
    async def three_seconds(_: ExecutorProcess, __: Content, ___: Work) -> Outcome:
        await asyncio.sleep(3)
        return Outcome.succeeded()

    member = town.create_executor("a", three_seconds, capacity=1)
    town.start_supervisor()
    town.run(5)
    for number, priority in enumerate((0, 0, 5, 9)):
        town.create(f"r-{number}")
        town.annotate(f"r-{number}", PRIORITY, str(priority))
        town.run(0.5)
    town.run(40)
    assert member.handled_names == ["r-0", "r-3", "r-2", "r-1"]


def test_nobody_there_is_said_and_what_waits_is_placed_when_somebody_comes(town: SupervisorWorld) -> None:
    town.start_supervisor()
    town.create("r")
    assert town.run(10, lambda: bool(town.get("r").get("status")))
    assert town.get("r")["status"]["conditions"][0]["reason"] == "NoExecutors"
    town.create_executor("a")
    assert town.run(2, lambda: "r" in town.first_assigned_at)


@pytest.mark.rule("sharding:K10")
def test_each_partition_has_a_supervisor_and_executors_of_its_own(town: SupervisorWorld) -> None:
    for index in range(2):
        town.create_executor(f"e{index}", partition=str(index), pool=f"p{index}")
        town.start_supervisor(f"s{index}", partition=str(index), pool=f"p{index}", keyspace=static_partition(index, 2))
    for number in range(20):
        town.create(f"r-{number}")
    assert town.run(20, lambda: len(town.first_assigned_at) == 20)
    for view in town.views():
        assert view.executor == f"e{partition_of(fnv1a64(view.uid), 2)}"


@pytest.mark.rule("sharding:B11")
def test_it_is_ready_when_executors_and_objects_are_known(town: SupervisorWorld) -> None:
    town.network.down = True
    leader = town.start_supervisor()
    town.run(5)
    assert "is not listed yet" in str(leader.supervisor.not_ready())
    town.network.down = False
    assert town.run(120, lambda: leader.supervisor.not_ready() is None)


def test_it_gives_its_lease_back_when_it_is_stopped(town: SupervisorWorld) -> None:
    town.create_executor("a")
    town.start_supervisor("s1")
    town.start_supervisor("s2")
    assert town.run(10, lambda: town.current_leader is not None)
    first = town.current_leader
    assert first is not None
    first.stop()
    assert town.run(2, lambda: town.current_leader not in (None, first))
    assert not first.process.is_alive


@pytest.mark.rule("sharding:K8")
def test_forced_moves_take_turns(town_of: Callable[..., SupervisorWorld]) -> None:
    town = town_of(max_forced_moves_per_s=2.0)
    first = town.create_executor("a")
    town.start_supervisor()
    for number in range(8):
        town.create(f"r-{number}")
    assert town.run(10, lambda: len(first.running_names) == 8)
    second = town.create_executor("b")
    town.run(5)
    first.crash()
    town.write_pod_status("a", terminated=True)
    town.run(1.9)
    assert 1 <= len(second.running_names) <= 5
    assert town.run(4, lambda: len(second.running_names) == 8)


@pytest.mark.rule("sharding:B11", "sharding:B16")
def test_a_scrape_shows_who_has_what(town: SupervisorWorld) -> None:
    metrics = Metrics()
    town.create_executor("a")
    town.create_executor("b")
    leader = town.start_supervisor(metrics=metrics, sizing=SizingConfig(per_executor=2))
    for number in range(5):
        town.create(f"r-{number}")
    town.run(10)
    assert leader.is_leader
    label = {"supervisor": str(leader.supervisor.scope.lease)}

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"situate_shard_{name}", label | labels)

    assert {value("open", executor="a"), value("open", executor="b")} == {2, 3}
    assert (value("assigned_total"), value("unassigned"), value("imbalance")) == (5, 0, 1.2)
    assert value("desired_executors") == 3
    town.run(30)
    lease = town.call("GET", f"{LEASES}/{leader.supervisor.scope.lease.name}")
    report = json.loads(lease["metadata"]["annotations"][STATUS])
    assert (report["desiredExecutors"], report["open"]) == (3, 5), (report, town.world.now)
    assert value("executors", status="Healthy") == 2
    assert b"situate_leading" in metrics.render()
    held = value("open", executor="a")
    town.members[0].crash()
    town.write_pod_status("a", terminated=True)
    town.run(2)
    assert (value("moves_total", cause="lost"), value("open", executor="b")) == (held, 5)


@pytest.mark.rule("sharding:B6")
def test_executors_become_equal_a_few_objects_at_a_time(town: SupervisorWorld) -> None:
    first = town.create_executor("a")
    town.start_supervisor(rebalance=RebalanceConfig(Goal.EVEN, max_moves_share=0.25))
    for number in range(8):
        town.create(f"r-{number}")
    assert town.run(10, lambda: len(first.running_names) == 8)
    second = town.create_executor("b")
    town.run(58)
    assert not second.running_names, "so long nobody is moved after a newcomer"
    town.run(15)
    assert len(second.running_names) == 2
    town.run(300)
    assert (len(first.running_names), len(second.running_names)) == (4, 4)
    assert sorted(view.epoch for view in town.views()) == [1, 1, 1, 1, 2, 2, 2, 2]


@pytest.mark.rule("sharding:L6")
def test_an_object_whose_event_was_missed_is_found(town: SupervisorWorld) -> None:
    town.create_executor("a")
    town.start_supervisor()
    town.run(10)
    town.network.faults = NetworkFaults(lose_event=1.0)
    town.create("r")
    assert town.run(60, lambda: "r" in town.first_assigned_at)


def test_an_object_that_cannot_be_written_waits_and_holds_up_nobody(town: SupervisorWorld) -> None:
    town.create_executor("a")
    town.start_supervisor()
    town.run(10)
    town.refused_names.add("bad")
    town.create("bad")
    town.create("good")
    assert town.run(1, lambda: "good" in town.first_assigned_at)
    town.run(60)
    assert 3 < len(town.refusals) < 12
    town.refused_names.clear()
    assert town.run(120, lambda: "bad" in town.first_assigned_at)


def fence(town: SupervisorWorld, *, lease: LeaderLease | None = None) -> list[str]:
    """The policies, in the town's cluster, in which `s1` is the supervisors' account."""
    made = fencing_policies(
        "reports-fencing", REPORTS, ServiceAccounts(("shop:s",), ("shop:executor",)), Fence(), lease
    )
    paths = []
    for each in made:
        content = json.loads(json.dumps(each).replace("system:serviceaccount:shop:s'", "supervisor s1'"))
        plural = "validatingadmissionpolicies" if "Binding" not in each["kind"] else "validatingadmissionpolicybindings"
        town.call("POST", f"/apis/admissionregistration.k8s.io/v1/{plural}", content)
        paths.append(f"/apis/admissionregistration.k8s.io/v1/{plural}/{each['metadata']['name']}")
    return paths


@pytest.mark.finding("N21")
@pytest.mark.rule("sharding:S10")
def test_a_supervisor_whose_writes_the_fence_refuses_says_so(town: SupervisorWorld) -> None:
    """A policy that looks at the Lease of another supervisor, as after a change to partitions."""
    other = {"leaseTransitions": 7, "holderIdentity": "gone"}
    town.call("POST", LEASES, {"metadata": {"name": "other"}, "spec": other})
    paths = fence(town, lease=LeaderLease(NAMESPACE, "other"))
    town.create_executor("a")
    leader = town.start_supervisor()
    town.run(10)
    town.create("r")
    assert town.run(10, lambda: bool(town.get("r").get("status")))
    (condition,) = town.get("r")["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Assigned", "False", "WriteRefused")
    assert "ValidatingAdmissionPolicy reports-fencing-term refuses the write" in condition["message"]
    town.run(40)
    lease = town.call("GET", f"{LEASES}/{leader.supervisor.scope.lease.name}")
    assert "reports-fencing-term" in json.loads(lease["metadata"]["annotations"][STATUS])["writeRefused"]
    assert leader.supervisor.counts.fence_refusals > 1
    for path in paths[2:]:
        town.call("DELETE", path)
    assert town.run(60, lambda: "r" in town.first_assigned_at)
    town.run(40)
    assert town.get("r")["status"]["conditions"][0]["status"] == "True"
    lease = town.call("GET", f"{LEASES}/{leader.supervisor.scope.lease.name}")
    assert "writeRefused" not in json.loads(lease["metadata"]["annotations"][STATUS])


@pytest.mark.finding("N21")
@pytest.mark.rule("sharding:K10")
def test_the_fence_of_partitions_lets_their_supervisors_write(town: SupervisorWorld) -> None:
    fence(town)
    town.create_executor("a")
    town.start_supervisor()
    town.create("r")
    assert town.run(20, lambda: "r" in town.first_assigned_at)


@pytest.mark.rule("sharding:X6", "sharding:L5")
def test_pods_that_flap_keep_nobody_waiting_for_long(town: SupervisorWorld) -> None:
    town.create_executor("a")
    town.create_executor("b")
    town.start_supervisor()
    town.run(10)
    for number in range(60):
        town.write_pod_status("b", ready=number % 2 == 0)
        if number == 20:
            town.create("r")
            created_at = town.world.now
        town.run(0.3)
    assert town.first_assigned_at["r"] - created_at < 2.5


@pytest.mark.rule("sharding:K8", "sharding:X14")
def test_an_object_of_an_executor_that_nobody_has_is_reassigned(town: SupervisorWorld) -> None:
    gone = town.create_executor("gone")
    town.run(1)
    town.assign("r", gone)
    town.call("DELETE", f"{LEASES}/{lease_name('default', 'gone', gone.uid)}")
    gone.crash()
    town.call("DELETE", f"{PODS}/gone", {"gracePeriodSeconds": 0})
    member = town.create_executor("a")
    town.start_supervisor()
    town.run(14)
    assert not member.running_names, "its lease may live where nobody sees it"
    assert town.run(10, lambda: member.running_names == ["r"])


@pytest.mark.rule("sharding:X4")
def test_a_new_incarnation_inherits_nothing_and_gets_new_work_at_once(town: SupervisorWorld) -> None:
    first = town.create_executor("a")
    town.start_supervisor()
    town.create("old")
    assert town.run(10, lambda: first.running_names == ["old"])
    first.crash()
    second = town.create_executor("a")
    town.run(2)
    town.create("new")
    assert town.run(3, lambda: second.running_names == ["new"])
    assert town.view("old").executor_uid == first.uid
    assert town.run(20, lambda: second.running_names == ["new", "old"])


@pytest.mark.rule("sharding:S10")
def test_terms_go_on_when_somebody_deletes_the_lease(town: SupervisorWorld) -> None:
    member = town.create_executor("a")
    first = town.start_supervisor("s1")
    town.create("before")
    assert town.run(30, lambda: member.running_names == ["before"])
    first.crash()
    town.call("DELETE", f"{LEASES}/{first.supervisor.scope.lease.name}")
    town.start_supervisor("s2")
    town.create("after")
    assert town.run(30, lambda: member.running_names == ["before", "after"])
    assert town.view("after").term > town.view("before").term


class Moody(MinScheduled):
    """A strategy of a user's that fails at what it is told."""

    def observe_scheduled(self, obj: ObjectFacts) -> None:
        super().observe_scheduled(obj)
        if obj.name == "bad":
            raise ValueError("a bad day")


def test_what_a_user_has_written_may_fail_and_stops_nobody(town: SupervisorWorld) -> None:
    def weigh(view: ObjectView) -> int:
        return int(view.content["spec"]["weight"])

    member = town.create_executor("a")
    town.start_supervisor(strategy=Moody(), weight_of=weigh)
    for name in ("bad", "good"):
        town.create(name)
    assert town.run(10, lambda: sorted(member.running_names) == ["bad", "good"])


@pytest.mark.rule("sharding:S1", "sharding:S5")
def test_who_has_come_back_unseen_keeps_what_another_supervisor_gave_it(town: SupervisorWorld) -> None:
    """This one's watch of leases is silent: it takes the executor for gone, and asks before it takes anything."""
    first = town.create_executor("a")
    town.create_executor("b")
    town.start_supervisor()
    town.run(5)
    first.process.pause()
    town.run(25)
    town.silent_listings = "/leases"
    town.network.cut_watches()
    first.process.resume()
    town.run(6)
    town.assign("r", first)
    assert town.run(5, lambda: first.running_names == ["r"])
    town.run(5)
    assert first.running_names == ["r"]
    assert (town.view("r").executor, town.view("r").epoch) == ("a", 1)


@pytest.mark.rule("sharding:B4")
@pytest.mark.parametrize(("wait_s", "holder"), [(0.0, "b"), (20.0, "a")])
def test_a_planned_restart_may_wait_for_the_successor(
    town_of: Callable[..., SupervisorWorld], wait_s: float, holder: str
) -> None:
    town = town_of(wait_for_successor=wait_s)
    first = town.create_executor("a")
    town.start_supervisor()
    town.create("r")
    assert town.run(10, lambda: first.running_names == ["r"])
    town.create_executor("b")
    town.run(5)
    first.stop()
    assert town.run(10, lambda: first.has_ended)
    town.run(3)
    town.create_executor("a")
    assert town.run(10, lambda: town.view("r").executor == holder)


@pytest.mark.rule("sharding:B5")
def test_a_rollout_moves_each_object_about_once(town: SupervisorWorld) -> None:
    """Ordered replacement with one pod more than there were: what is moved goes to the newest pods."""
    revision = "pod-template-hash"
    old = [town.create_executor(name, labels={revision: "old"}) for name in ("a", "b", "c")]
    town.start_supervisor()
    for number in range(12):
        town.create(f"r-{number}")
    assert town.run(10, lambda: sum(len(each.running_names) for each in old) == 12)
    new = []
    for number, each in enumerate(old):
        town.run(2)
        new.append(town.create_executor(f"n{number}", labels={revision: "new"}))
        town.run(5)
        each.stop()
        assert town.run(10, lambda: each.has_ended)  # noqa: B023  # asked at once
    assert town.run(10, lambda: sum(len(each.running_names) for each in new) == 12)
    moves = sum(view.epoch - 1 for view in town.views())
    assert moves / 12 <= 1.10


@pytest.mark.rule("sharding:B11")
def test_a_dry_run_explains_each_candidate_and_changes_nothing(town: SupervisorWorld) -> None:
    for name in ("a", "b", "c"):
        town.create_executor(name)
    rules = Rules(filters=(lambda _, executor: "it is Tuesday" if executor.id == "b" else None,))
    leader = town.start_supervisor(rules=rules)
    town.run(5)
    town.create("first")
    assert town.run(2, lambda: "first" in town.first_assigned_at)
    town.cordon("c")
    town.run(2)
    asked = Request(NAMESPACE, "first")
    found = leader.supervisor.dry_run(asked)
    assert found is not None
    assert found == leader.supervisor.dry_run(asked)
    assert {each.executor: (each.place, each.why) for each in found.candidates} == {
        "a": (1, ANY),
        "b": (None, "it is Tuesday"),
        "c": (None, "Draining"),
    }
    assert found.chosen == "a"
    assert leader.supervisor.dry_run(Request(NAMESPACE, "none")) is None


@pytest.mark.rule("sharding:B16")
def test_namespaces_that_wait_get_room_by_their_shares(town_of: Callable[..., SupervisorWorld]) -> None:
    town = town_of(scheduler_jitter=0.0)
    town.call("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
    town.start_supervisor(namespace=None, shares={"other": 2.0})
    for number in range(8):
        town.create(f"mine-{number}")
        town.call("POST", REPORTS.path("other"), report(f"theirs-{number}"))
    town.run(10)
    town.create_executor("a", namespace=None, capacity=6)
    assert town.run(10, lambda: len(town.first_assigned_at) == 6)
    town.run(5)
    assert Counter(name.partition("-")[0] for name in town.first_assigned_at) == {"theirs": 4, "mine": 2}


def test_the_leases_of_dead_executors_are_cleared_away_and_no_others(town: SupervisorWorld) -> None:
    """A lease's duration and a minute after the end, with the next sweep."""
    members = [town.create_executor(name) for name in ("dead", "alive")]
    town.start_supervisor()
    town.run(10)
    members[0].crash()
    town.call("DELETE", f"{PODS}/dead", {"gracePeriodSeconds": 0})
    names = [lease_name("default", each.pod, each.uid) for each in members]

    def leases() -> list[bool]:
        found = {each["metadata"]["name"] for each in town.call("GET", LEASES)["items"]}
        return [name in found for name in names]

    town.run(85)
    assert leases() == [True, True]
    assert town.run(40, lambda: not leases()[0])
    town.run(60)
    assert leases() == [False, True]


@pytest.mark.rule("sharding:S1")
def test_a_lease_stays_while_something_is_assigned_to_its_executor(town: SupervisorWorld) -> None:
    """Here what cannot be read, which nobody moves."""
    member = town.create_executor("a")
    town.start_supervisor()
    town.create("r")
    assert town.run(10, lambda: town.view("r").executor == "a")
    path = f"{REPORTS.path(NAMESPACE, 'r')}/status"
    found = town.get("r")
    status = found.get("status", {})
    town.call("PUT", path, found | {"status": {**status, "completedAt": True}})
    member.crash()
    town.call("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    town.run(180)
    assert town.call("GET", LEASES)["items"][0]["metadata"]["name"] == lease_name("default", "a", member.uid)
    town.call("PUT", path, town.get("r") | {"status": status})
    assert town.run(40, lambda: lease_name("default", "a", member.uid) not in str(town.call("GET", LEASES)))
