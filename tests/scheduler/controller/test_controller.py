"""The live scheduler in small: what it writes and says in kube-scheduler's words, and what does not stop it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from situate.framework.plugin_api.configuration import SchedulerProfile
from situate.framework.plugin_api.plugin import PASSED, RESERVED, PreFiltered, Reserved, Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import Code, Status
from situate.framework.results.verdict import Verdict, pass_all
from situate.framework.snapshot.snapshot import Snapshot
from situate.scheduler.config.settings import SchedulerSettings
from situate.testing.scheduler.world import default_setup, with_plugins
from situate.testing.virtual_time.processes import ProcessState
from tests.scheduler.stage import PODS_PATH, Answer, Stage, stage

SCHEDULED = "Successfully assigned work/web to {}"


def test_a_pod_that_fits_nowhere_is_told_so_once_and_placed_when_there_is_room() -> None:
    with stage(nodes=2) as ours:
        ours.create("big", cpu="3500m")
        ours.create("bigger", cpu="3500m")
        ours.wait_bound("big", "bigger")
        ours.create("waits", cpu="1")
        ours.let_pass(3)
        sentence = (
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims "
            "found for incoming pod."
        )
        assert ours.notes("waits", "FailedScheduling") == [sentence]
        said = dict(ours.condition("waits"))
        assert said.pop("lastTransitionTime")
        assert said == {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": sentence,
            "observedGeneration": 1,
        }
        ours.delete("big")
        ours.wait_bound("waits")
        assert ours.condition("waits")["status"] == "True"


def test_without_nodes_it_says_so() -> None:
    with stage(nodes=0) as ours:
        ours.world.call("DELETE", "/api/v1/nodes/foreign")
        ours.let_pass(1)
        ours.create("web")
        ours.let_pass(3)
        assert ours.condition("web")["message"] == "no nodes available to schedule pods"
        ours.world.add_node(0)
        ours.wait_bound("web")


def test_pods_of_other_schedulers_and_gated_pods_are_left_alone() -> None:
    with stage() as ours:
        ours.create("theirs", schedulerName="default-scheduler")
        ours.create("gated", schedulingGates=[{"name": "example.com/wait"}])
        ours.create("web")
        ours.wait_bound("web")
        assert ours.node_of("theirs") == ours.node_of("gated") == ""
        assert ours.condition("gated")["reason"] == "SchedulingGated", "as the API server writes it"
        assert ours.notes("theirs", "FailedScheduling") == ours.notes("gated", "FailedScheduling") == []
        ours.world.call("PATCH", f"{PODS_PATH}/gated", {"spec": {"schedulingGates": []}}, patch=True)
        ours.wait_bound("gated")


def test_a_more_important_pod_takes_the_room_of_another() -> None:
    with stage(nodes=1) as ours:
        ours.create("victim", cpu="3500m")
        ours.wait_bound("victim")
        uid = ours.pod("victim")["metadata"]["uid"]
        ours.create("important", cpu="3500m", priority=20)
        ours.let_pass(0.2)
        important = ours.pod("important")
        assert important["status"]["nominatedNodeName"] == "node-0"
        assert ours.condition("important")["reason"] == "Unschedulable"
        target = ours.condition("victim", "DisruptionTarget")
        assert target["reason"] == "PreemptionByScheduler"
        assert target["message"] == "situate: preempting to accommodate a higher priority pod"
        assert ours.pod("victim")["metadata"]["uid"] == uid
        assert ours.pod("victim")["metadata"]["deletionTimestamp"]
        preemptor = important["metadata"]["uid"]
        assert ours.notes("victim", "Preempted") == [f"Preempted by pod {preemptor} on node node-0"]
        ours.wait_bound("important")
        assert "nominatedNodeName" not in ours.pod("important")["status"]


class Raises:
    """A plugin of somebody else that has a defect, at one point, for pods of one name."""

    name = "Raises"
    point = ""

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:
        self._raise("pre_filter", pod)
        return PASSED

    def filter(self, state: object, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        self._raise("filter", pod)
        return pass_all(snapshot.count)

    def score(self, state: object, pod: PodInfo, snapshot: Snapshot) -> Any:
        self._raise("score", pod)
        return (
            pass_all(1) if self.point == "an answer of the wrong type" and pod.name == "unlucky" else scores(snapshot)
        )

    def reserve(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Reserved:
        self._raise("reserve", pod)
        return RESERVED

    def unreserve(self, pod: PodInfo, node: str) -> None:
        pass

    def pre_bind_preflight(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Status:
        self._raise("pre_bind", pod)
        return Status(Code.SKIP)

    def pre_bind(self, pod: PodInfo, node: str, snapshot: Snapshot) -> tuple[()]:
        return ()

    def _raise(self, point: str, pod: PodInfo) -> None:
        if point == self.point and pod.name == "unlucky":
            raise ZeroDivisionError("no such luck")


@pytest.mark.parametrize("where", ["pre_filter", "filter", "score", "reserve", "pre_bind"])
def test_a_plugin_that_raises_fails_its_pod_with_its_name_and_nothing_else(where: str) -> None:
    class Here(Raises):
        point = where

    with stage(default_setup(with_plugins(Here))) as ours:
        ours.create("unlucky")
        ours.create("web")
        ours.wait_bound("web")
        ours.let_pass(1)
        assert ours.node_of("unlucky") == ""
        said = ours.condition("unlucky")
        assert said["reason"] == "SchedulerError"
        assert "Raises" in said["message"]
        assert "no such luck" in said["message"]
        assert "Raises" in ours.notes("unlucky", "FailedScheduling")[0]
        assert sample(ours, "scheduler_schedule_attempts_total", result="error") >= 1


def test_a_plugin_that_answers_nonsense_fails_its_pod_and_nothing_else() -> None:
    class Here(Raises):
        point = "an answer of the wrong type"

    with stage(default_setup(with_plugins(Here))) as ours:
        ours.create("unlucky")
        ours.create("web")
        ours.wait_bound("web")
        assert ours.node_of("unlucky") == ""
        assert ours.condition("unlucky")["reason"] == "SchedulerError"


def scores(snapshot: Snapshot) -> Scores:
    return np.zeros(snapshot.count, dtype=np.int64)


def test_a_node_that_vanishes_in_the_midst_of_binding() -> None:
    """The API server binds to it all the same; its pods count nowhere until it is back."""
    with stage(nodes=1) as ours:

        def vanish(_: object, carry: Any) -> Answer:
            ours.world.call("DELETE", "/api/v1/nodes/node-0")
            answer: Answer = carry()
            return answer

        ours.meddle("/binding", vanish)
        ours.create("web", cpu="3")
        ours.let_pass(2)
        assert ours.node_of("web") == "node-0"
        ours.create("next", cpu="3")
        ours.let_pass(2)
        assert ours.node_of("next") == ""
        ours.world.add_node(0)
        ours.let_pass(10)
        assert ours.node_of("next") == "", "the room is still taken"
        ours.delete("web", at_once=True)
        ours.wait_bound("next")


def test_absurd_amounts_and_many_labels_stop_nobody() -> None:
    with stage(nodes=1) as ours:
        ours.create("greedy", cpu="1e15")
        many = {f"label-{number}": "x" for number in range(3000)}
        ours.world.call("PATCH", "/api/v1/nodes/node-0", {"metadata": {"labels": many}}, patch=True)
        constraint = {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {},
        }
        ours.create("everything", topologySpreadConstraints=[constraint])
        ours.wait_bound("everything")
        assert "Insufficient cpu" in ours.condition("greedy")["message"]


def test_profiles_have_names_of_their_own() -> None:
    names = ("situate", "default-scheduler")
    settings = SchedulerSettings(profiles=tuple(SchedulerProfile(scheduler_name=name) for name in names))
    with stage(default_setup(settings=settings)) as ours:
        ours.create("web")
        ours.create("other", schedulerName="default-scheduler")
        ours.wait_bound("web", "other")
        for name in names:
            assert sample(ours, "scheduler_schedule_attempts_total", result="scheduled", profile=name) == 1


def test_metrics_bear_kube_schedulers_names() -> None:
    with stage(nodes=2) as ours:
        ours.create("web")
        ours.create("big", cpu="100")
        ours.create("gated", schedulingGates=[{"name": "example.com/wait"}])
        ours.wait_bound("web")
        assert sample(ours, "scheduler_schedule_attempts_total", result="scheduled", profile="situate") == 1
        assert sample(ours, "scheduler_schedule_attempts_total", result="unschedulable", profile="situate") == 1
        assert sample(ours, "scheduler_pending_pods", queue="unschedulable") == 1
        assert sample(ours, "scheduler_pending_pods", queue="gated") == 1
        assert sample(ours, "scheduler_unschedulable_pods", plugin="NodeResourcesFit", profile="situate") == 1
        assert sample(ours, "scheduler_unschedulable_pods", plugin="SchedulingGates", profile="situate") == 1
        assert sample(ours, "scheduler_pod_scheduling_attempts_count") == 1
        assert sample(ours, "scheduler_pod_scheduling_sli_duration_seconds_count", attempts="1") == 1
        assert sample(ours, "scheduler_preemption_attempts_total") == 1
        assert sample(ours, "scheduler_scheduling_algorithm_duration_seconds_count") == 2
        assert sample(ours, "scheduler_cache_size", type="nodes") == 3
        assert sample(ours, "scheduler_cache_size", type="assumed_pods") == 0
        assert sample(ours, "scheduler_pod_scheduled_after_flush_total") == 0
        assert (
            sample(ours, "scheduler_plugin_evaluation_total", plugin="NodeResourcesFit", extension_point="Filter") > 0
        )
        bound = {"extension_point": "Bind", "status": "Success", "profile": "situate"}
        assert sample(ours, "scheduler_framework_extension_point_duration_seconds_count", **bound) == 1
        incoming = "scheduler_queue_incoming_pods_total"
        assert sample(ours, incoming, queue="active", event="UnschedulablePodAdd") == 2
        assert sample(ours, incoming, queue="unschedulable", event="UnschedulablePodAdd") == 1, "it is gated"
        assert sample(ours, incoming, queue="unschedulable", event="ScheduleAttemptFailure") == 1


def test_buckets_are_kube_schedulers() -> None:
    with stage() as ours:
        ours.create("web")
        ours.wait_bound("web")
        for number in range(80):  # enough for a cycle in which plugins are asked to be sampled: one in ten is
            ours.create(f"large-{number}", cpu="4000")
        executions = "scheduler_plugin_execution_duration_seconds"
        assert ours.world.let_pass(60, stop=lambda: bool(bucket_bounds(ours, executions)))
        bounds = {
            name: [float(value) for value in bucket_bounds(ours, name)]
            for name in (
                "scheduler_scheduling_attempt_duration_seconds",
                "scheduler_pod_scheduling_sli_duration_seconds",
                "scheduler_pod_scheduling_attempts",
                "scheduler_preemption_victims",
                "scheduler_framework_extension_point_duration_seconds",
                "scheduler_plugin_execution_duration_seconds",
            )
        }
        assert bounds["scheduler_scheduling_attempt_duration_seconds"] == [0.001 * 2**n for n in range(15)]
        assert bounds["scheduler_pod_scheduling_sli_duration_seconds"] == [0.01 * 2**n for n in range(20)]
        assert bounds["scheduler_pod_scheduling_attempts"] == [1, 2, 4, 8, 16]
        assert bounds["scheduler_preemption_victims"] == [1, 2, 4, 8, 16, 32, 64]
        points = bounds["scheduler_framework_extension_point_duration_seconds"]
        assert points == [0.0001 * 2**n for n in range(12)]
        plugins = bounds["scheduler_plugin_execution_duration_seconds"]
        assert plugins == pytest.approx([0.00001 * 1.5**n for n in range(20)])


def test_a_new_leader_counts_what_the_old_one_has_bound() -> None:
    with stage(nodes=1) as ours:
        ours.create("web", cpu="3")
        ours.wait_bound("web")
        ours.world.end(ours.world.members[0])
        ours.create("next", cpu="3")
        ours.let_pass(60)
        assert ours.world.leader() is not None
        assert ours.node_of("next") == ""
        ours.delete("web")
        ours.wait_bound("next")


def samples(ours: Stage) -> Any:
    metrics = ours.world.registry
    return text_string_to_metric_families(generate_latest(metrics).decode())


def sample(ours: Stage, name: str, **labels: str) -> float:
    """The sum over the samples with these labels."""
    found = [each for family in samples(ours) for each in family.samples if each.name == name]
    assert found, name
    return float(sum(each.value for each in found if labels.items() <= each.labels.items()))


def bucket_bounds(ours: Stage, name: str) -> list[str]:
    found = [each for family in samples(ours) for each in family.samples if each.name == f"{name}_bucket"]
    return list(dict.fromkeys(each.labels["le"] for each in found if each.labels["le"] != "+Inf"))


class Gatekeeper:
    """Raises for pods of one name before they may become active."""

    name = "Gatekeeper"

    def pre_enqueue(self, pod: PodInfo) -> Status:
        if pod.name == "unlucky":
            raise ZeroDivisionError("no such luck")
        return Status(Code.SUCCESS)


def test_a_gate_that_raises_stays_closed_and_the_others_go_on() -> None:
    with stage(default_setup(with_plugins(Gatekeeper))) as ours:
        ours.create("unlucky")
        ours.create("web")
        ours.wait_bound("web")
        assert ours.node_of("unlucky") == ""
        assert sample(ours, "scheduler_pending_pods", queue="gated") == 1
        engine = ours.world.members[0].controller.engine
        assert engine is not None
        (waiting,) = engine.queue
        assert (waiting.gate, waiting.gate_reasons) == ("Gatekeeper", ("ZeroDivisionError: no such luck",))


class Holds:
    """Holds every pod for two seconds, in vain."""

    name = "Holds"

    def permit(self, pod: PodInfo, node: str, now: float) -> tuple[Status, float]:
        return Status(Code.WAIT), 2.0


def test_a_pod_that_is_held_for_too_long_is_refused_and_its_room_free() -> None:
    with stage(default_setup(with_plugins(Holds)), nodes=1) as ours:
        ours.create("web", cpu="3")
        ours.let_pass(4)
        assert ours.node_of("web") == ""
        (words, *_) = ours.notes("web", "FailedScheduling")
        assert "Holds" in words
        assert ours.condition("web")["reason"] == "Unschedulable"
        waited = sample(ours, "scheduler_permit_wait_duration_seconds_sum", result="Unschedulable")
        assert waited == pytest.approx(2.0, abs=1.1)


def test_without_election_it_leads_at_once_and_ends_in_order() -> None:
    """`leaderElect: false` of a KubeSchedulerConfiguration."""
    setup = replace(default_setup(), election=None)
    with stage(setup) as ours:
        ours.create("web")
        ours.wait_bound("web")
        (member,) = ours.world.members
        member.process.loop.call_soon_threadsafe(member.controller.stop)
        ours.let_pass(10)
        assert member.process.state is ProcessState.ENDED
        assert member.process.failure() is None
