"""Growing when capacity is short, and shrinking in order: seen at every revision that the cluster went through."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.recording import Change, Recording
from tests.e2e.vpod_cluster import Arena, Cluster, placed
from tests.waiting import eventually

CAPACITY = 4


@pytest.mark.rule(
    "vpod:B4", "vpod:S1", "vpod:S8", "vpod:V7", "vpod:V9", "vpod:V15", "vpod:V16", "vpod:V19", "vpod:L3", "vpod:L4"
)
def test_the_set_grows_as_needed_and_is_emptied_before_it_is_cut(cluster: Cluster, arena: Callable[..., Arena]) -> None:
    """Pods come and go one at a time: the StatefulSet is OrderedReady, and we write nothing but its scale."""
    with arena("scaling", podCapacity=CAPACITY) as ours:
        ours.add_statefulset(policy="OrderedReady")
        ours.want(early=12)
        sets, core = (f"{root}/namespaces/{ours.name}/" for root in ("/apis/apps/v1", "/api/v1"))
        with Recording(cluster.plane, f"{sets}statefulsets", f"{core}pods", ours.group_path()) as recording:
            ours.start()
            assert ours.wait_placed()["early"] == {f"dispatcher-{n}": 4 for n in range(3)}
            ours.want(late=4)
            assert ours.wait_placed()["late"] == {"dispatcher-3": 4}
            grown = list(recording.changes())

            ours.want(early=7)  # 11 vreplicas fit on three pods, and what is on the fourth has to move
            eventually("the set is smaller", ours.replicas, lambda replicas: replicas == 3)
            ours.wait_placed()
            shrunk = [each for each in recording.changes() if each.revision > grown[-1].revision]

            ours.want(early=0, late=0)
            eventually("the set is empty", ours.replicas, lambda replicas: replicas == 0)
            eventually("no pod is left", lambda: cluster.get(f"{core}pods")["items"], lambda left: not left)
            everything = list(recording.changes())
            assert ours.placements() == {"early": {}, "late": {}}
        written = {
            (each.verb, each.resource) for each in cluster.requests(ours.name) if "statefulsets" in each.resource
        }

    assert {each for each in written if each[0] not in ("get", "list", "watch")} == {("update", "statefulsets/scale")}
    assert ends(everything) == [(f"dispatcher-{n}", end) for n in (3, 2, 1, 0) for end in ("begins", "is gone")]

    assert replicas_over(grown) == [0, 3, 4]
    assert replicas_over(shrunk)[-1] == 3
    for replicas, held in moments(everything):
        for name, pods in held.items():
            assert all(ordinal(pod) < replicas for pod in pods), (replicas, name, pods)
        loads = [sum(pods.get(f"dispatcher-{n}", 0) for pods in held.values()) for n in range(replicas)]
        assert max(loads, default=0) <= CAPACITY

    # exactly what had to leave has moved: early only gave places up, late left the fourth pod and no other
    while_shrinking = list(moments([*grown, *shrunk]))[len(grown) :]
    for pod in ("dispatcher-0", "dispatcher-1", "dispatcher-2"):
        early = [held["early"].get(pod, 0) for _, held in while_shrinking]
        late = [held["late"].get(pod, 0) for _, held in while_shrinking]
        assert early == sorted(early, reverse=True), (pod, early)
        assert late == sorted(late), (pod, late)


@pytest.mark.rule("vpod:V21", "vpod:D2")
def test_a_reapplied_manifest_moves_nothing(cluster: Cluster, arena: Callable[..., Arena]) -> None:
    """Somebody applies the StatefulSet as it was installed, with replicas 0: they are asked for again at once."""
    with arena("reapplied", podGrace="10m") as ours:
        ours.add_statefulset()
        ours.want(orders=6)
        ours.start()
        before = ours.wait_placed()
        ours.add_statefulset(replicas=0)
        eventually("the replicas are back", ours.replicas, lambda replicas: replicas == 2)
        eventually("the pods are back", ours.ready_pods, lambda pods: len(pods) == 2)
        eventually("somebody is told", lambda: ours.events("ReplicasReset"))
        assert ours.placements() == before


def ends(changes: list[Change]) -> list[tuple[str, str]]:
    """What became of pods that were told to end, in the order of the revisions."""
    found: list[tuple[str, str]] = []
    for each in changes:
        if each.object["kind"] == "Pod" and "deletionTimestamp" in each.object["metadata"]:
            end = each.object["metadata"]["name"], "is gone" if each.deleted else "begins"
            if end not in found:
                found.append(end)
    return found


def replicas_over(changes: list[Change]) -> list[int]:
    """Each value of spec.replicas, repetitions left out."""
    values: list[int] = []
    for each in changes:
        if each.object["kind"] == "StatefulSet":
            replicas = each.object["spec"]["replicas"]
            if values[-1:] != [replicas]:
                values.append(replicas)
    return values


def moments(changes: list[Change]) -> Iterator[tuple[int, dict[str, dict[str, int]]]]:
    """After each revision: spec.replicas, and vreplicas by pod by ConsumerGroup."""
    replicas, held = 0, dict[str, dict[str, int]]()
    for each in changes:
        name = each.object["metadata"]["name"]
        if each.object["kind"] == "StatefulSet":
            replicas = each.object["spec"]["replicas"]
        elif each.object["kind"] == "ConsumerGroup" and each.deleted:
            del held[name]
        elif each.object["kind"] == "ConsumerGroup":
            held[name] = placed(each.object)
        yield replicas, dict(held)


def ordinal(pod: str) -> int:
    return int(pod.rpartition("-")[2])
