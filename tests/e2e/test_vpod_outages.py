"""What a cluster goes through: the API server away, history forgotten, nodes drained and lost, pods that come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.vpod_cluster import Arena, Cluster, Scheduler
from tests.waiting import eventually, steadily

NODES = ("outage-a", "outage-b", "outage-c")


@pytest.fixture
def nodes(cluster: Cluster) -> Iterator[dict[str, str]]:
    """Three nodes for one test; the selector with which pods land there."""
    selector = {"arena": "outage"}
    cluster.add_nodes(*NODES, labels=selector)
    yield selector
    for name in NODES:
        if cluster.get(f"/api/v1/nodes/{name}"):
            cluster.plane.request("DELETE", f"/api/v1/nodes/{name}")


@pytest.mark.rule("vpod:S1", "vpod:S10", "vpod:D3")
def test_the_api_server_goes_away_and_forgets_its_history(cluster: Cluster, arena: Callable[..., Arena]) -> None:
    # Listings beside the watches, at each beat or at a promotion, would spare them the 410: none until the end.
    with arena("restarts", refreshPeriod="10m") as ours:
        ours.shared["leaderElection"] = {"leaseDuration": "5m", "renewDeadline": "4m", "retryPeriod": "1s"}
        ours.configure()
        ours.add_statefulset()
        ours.want(orders=6, payments=2)
        scheduler = ours.start()
        before = ours.wait_placed()

        with ours.refusals_allowed():
            cluster.restart_apiserver()
        ours.want(payments=5)  # 11 vreplicas need a third pod
        after = ours.wait_placed()
        assert after["orders"] == before["orders"]
        assert ours.replicas() == 3

        # While the scheduler sees nothing, a vpod goes and another one grows, and the history of that is lost. Its
        # connections end before: what was sent on them would be read afterwards.
        known = len(_expired(scheduler))
        scheduler.process.pause()
        cluster.restart_apiserver()
        cluster.plane.request("DELETE", ours.group_path("payments"))
        ours.want(orders=12)
        cluster.restart_apiserver(forget=True)
        scheduler.process.resume()
        eventually("a watch has met 410", lambda: len(_expired(scheduler)), lambda met: met > known)
        after = ours.wait_placed()
        assert sum(after["orders"].values()) == 12  # on three pods of four: payments' places are free again
        assert max(after["orders"].values()) == 4


@pytest.mark.rule("vpod:V23", "vpod:V21", "vpod:B3", "vpod:S5", "vpod:D4")
def test_pods_that_come_back_in_time_move_nothing(
    cluster: Cluster, arena: Callable[..., Arena], nodes: dict[str, str]
) -> None:
    with arena("returning", minReplicas=3, podGrace="10m") as ours:
        ours.add_statefulset(replicas=3, nodeSelector=nodes)
        eventually("the pods run", ours.ready_pods, lambda pods: len(pods) == 3)
        ours.want(orders=6)
        ours.start()
        before = ours.wait_placed()
        assert len(before["orders"]) == 3

        old = ours.pod(1)
        cluster.kubectl("delete", "pod", "-n", ours.name, "dispatcher-1", "--wait=false")
        eventually("another pod has its name", lambda: ours.pod(1), lambda pod: pod and uid(pod) != uid(old))
        eventually("it is ready", ours.ready_pods, lambda pods: len(pods) == 3)

        # a drained node: its pod comes back on another one
        node = ours.pod(2)["spec"]["nodeName"]
        cluster.kubectl("drain", node, "--ignore-daemonsets", "--timeout=120s")
        eventually(
            "its pods run elsewhere", lambda: on_nodes(ours), lambda on: len(on) == 3 and node not in on.values()
        )
        cluster.kubectl("uncordon", node)
        steadily("nothing moves", ours.placements, lambda held: held == before, seconds=1)
        statuses = [each for each in cluster.requests(ours.name) if each.resource == "consumergroups/status"]
        assert len(statuses) == 1  # the first placement


@pytest.mark.rule("vpod:B3", "vpod:S4", "vpod:D4", "vpod:V22")
def test_a_node_that_stays_away_loses_exactly_what_was_on_it(
    cluster: Cluster, arena: Callable[..., Arena], nodes: dict[str, str]
) -> None:
    with arena("lost", minReplicas=3) as ours:
        ours.add_statefulset(replicas=3, nodeSelector=nodes)
        eventually("the pods run", lambda: on_nodes(ours), lambda on: len(on) == 3)
        ours.want(orders=5, payments=3)
        ours.start()
        before = ours.wait_placed()
        homes = on_nodes(ours)
        lost = homes["dispatcher-1"]
        gone = {pod for pod, node in homes.items() if node == lost}
        cluster.kubectl("delete", "node", lost)
        after = eventually(
            "nothing is placed on the lost node",
            ours.placements,
            lambda held: not any(gone & pods.keys() for pods in held.values()),
        )
        after = ours.wait_placed()
        for name, pods in before.items():
            for pod in pods.keys() - gone:
                assert after[name].get(pod, 0) >= pods[pod], (name, pod)
        assert ours.replicas() == 3


def _expired(scheduler: Scheduler) -> list[str]:
    reasons = [each.get("reason", "") for each in scheduler.said("watch expired, listing again")]
    return [reason for reason in reasons if "too old resource version" in reason]


def uid(pod: dict[str, dict[str, str]]) -> str:
    return pod["metadata"]["uid"]


def on_nodes(ours: Arena) -> dict[str, str]:
    """Node by ready pod."""
    pods = {pod: ours.pod(int(pod.rpartition("-")[2])) for pod in ours.ready_pods()}
    return {name: pod["spec"]["nodeName"] for name, pod in pods.items() if pod}
