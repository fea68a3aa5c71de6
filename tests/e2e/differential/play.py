"""A cluster's life on both sides: pods come one at a time, and each is decided before the next is posted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.e2e.differential.api import Object
from tests.e2e.differential.clusters import claims_of, draw_cluster, started
from tests.e2e.differential.comparing import counted, differences, victims_differ
from tests.e2e.differential.drawing import Draw
from tests.e2e.differential.objects import Cluster, key_of
from tests.e2e.differential.ours import Answer, Ours
from tests.e2e.differential.pods import INCOMING, Theme, draw_pod
from tests.e2e.differential.theirs import Change, KubeScheduler, Theirs, decided, told_of, waits_for_volumes

PODS_EACH = 50
_LATER = 36_000
"""Seconds after the first pods in place have started."""


@dataclass(frozen=True, slots=True)
class Case:
    """A pod about which the two differ, with the cluster as it stood."""

    seed: int
    pod: Object
    cluster: Cluster
    theirs: Theirs
    ours: Object
    differences: list[str]

    def as_json(self) -> Object:
        return {
            "seed": self.seed,
            "differences": self.differences,
            "theirs": self.theirs.as_json(),
            "ours": self.ours,
            "pod": self.pod,
            "cluster": self.cluster,
        }

    @classmethod
    def from_json(cls, wire: Object) -> Case:
        """As `as_json` wrote it."""
        theirs = Theirs(**wire["theirs"])
        return cls(wire["seed"], wire["pod"], wire["cluster"], theirs, wire["ours"], wire["differences"])


@dataclass(slots=True)
class Played:
    """What a seed has come to."""

    counts: Counter[str] = field(default_factory=Counter)
    cases: list[Case] = field(default_factory=list)


def play(seed: int, scheduler: KubeScheduler, pods: int = PODS_EACH) -> Played:
    """One cluster and so many pods. It goes on after a difference: each pod is compared on its own."""
    draw = Draw(seed)
    cluster = draw_cluster(draw)
    life = _Life(seed, scheduler, cluster)
    gated: Object | None = None
    for number in range(pods):
        theme = draw.one(INCOMING)
        pod = draw_pod(draw, f"pod-{number}", theme, claims_of(cluster))
        if theme is Theme.GATES:
            gated = gated or life.hold(pod)
            continue
        life.decide(life.post(pod))
        if gated is not None:
            life.decide(life.let_go(gated))
            gated = None
    return life.played


class _Life:
    """Of one cluster."""

    def __init__(self, seed: int, scheduler: KubeScheduler, wanted: Cluster) -> None:
        self.played = Played()
        self._seed = seed
        self._scheduler = scheduler
        self._cluster = scheduler.begin(wanted)
        self._pods = {pod["metadata"]["uid"]: pod for pod in self._cluster["pods"]}
        self._ours = Ours(self._cluster)
        self._begun = _LATER
        """When the last pod has started, in seconds."""

    def post(self, pod: Object) -> str:
        """Its uid."""
        return self._see(Change(self._scheduler.post(pod), gone=False))

    def hold(self, pod: Object) -> Object:
        """Posts a pod that may not be scheduled yet."""
        uid = self.post(pod)
        assert self._ours.answer(uid) is None
        return self._pods[uid]

    def let_go(self, gated: Object) -> str:
        """Takes the gates from a pod that nobody has touched while others were scheduled; its uid."""
        uid: str = gated["metadata"]["uid"]
        assert not decided(self._pods[uid]), f"{key_of(gated)} was gated, and scheduled"
        self.played.counts["gated"] += 1
        return self._see(Change(self._scheduler.change(gated, {"spec": {"schedulingGates": []}}), gone=False))

    def decide(self, uid: str) -> None:
        """Has both decide about the pod, and compares; then it starts, or is deleted if it was refused."""
        pod, before = self._pods[uid], self._snapshot(uid)
        answer = self._ours.answer(uid)
        ended = self._wait(uid)
        told = self._pods[uid]
        theirs = told_of(told)
        found = differences(theirs, answer)
        if theirs.nominated and answer is not None:
            found += self._make_room(told, answer, ended)
        if found or answer is None:
            self.played.cases.append(
                Case(self._seed, pod, before, theirs, {} if answer is None else answer.as_json(), found)
            )
        else:
            self.played.counts += counted(theirs, answer)
        if self._pods[uid]["spec"].get("nodeName"):
            if pod["spec"].get("volumes"):
                self._cluster |= self._scheduler.storage()
                self._ours.set_storage(self._cluster)
            self._begun += 1
            status = {"phase": "Running", "startTime": started(self._begun)}
            self._see(Change(self._scheduler.change_status(self._pods[uid], status), gone=False))
        else:
            self._scheduler.delete(self._pods[uid])
            self._see(Change(self._pods[uid], gone=True))

    def _make_room(self, pod: Object, answer: Answer, ended: list[Object]) -> list[str]:
        """Waits until the pod has the node that was promised to it; differences in who had to go, and where it went."""
        uid, node = pod["metadata"]["uid"], pod["status"]["nominatedNodeName"]
        there = answer.room.get(node, "")
        expected = frozenset() if isinstance(there, str) else there[0]
        leaving = [other for other in self._pods.values() if key_of(other) in expected and _terminating(other)]
        for other in leaving:  # nobody else ends them here
            self._scheduler.delete(other)
        nudged = False
        while True:
            if not nudged and expected <= {key_of(other) for other in ended}:
                # Where two terms of a victim repelled pods and one of them the preemptor, it sleeps on (docs).
                self._scheduler.change(pod, {"metadata": {"labels": {"nudged": "yes"}}})
                nudged = True
            change = self._next_change()
            if change.uid == uid and change.pod["spec"].get("nodeName"):
                break
            if change.gone:
                ended.append(change.pod)
            self._see(change)
        again = self._ours.answer(uid)
        self._see(change)
        found = victims_differ(node, frozenset(key_of(other) for other in ended), answer)
        return found + differences(told_of(change.pod), again)

    def _wait(self, uid: str) -> list[Object]:
        """Until kube-scheduler has decided about the pod; the pods that ended meanwhile."""
        ended = []
        while not decided(self._pods[uid]):
            change = self._next_change()
            if change.gone:
                ended.append(change.pod)
            self._see(change)
            if change.uid == uid and waits_for_volumes(change.pod):
                self._scheduler.give_volumes(change.pod)
        return ended

    def _next_change(self) -> Change:
        """Of pods that are still of interest."""
        while True:
            change = self._scheduler.next_change()
            if change.uid in self._pods:
                return change

    def _see(self, change: Change) -> str:
        """Both we and our engine hear of it; the uid."""
        if change.gone:
            self._pods.pop(change.uid, None)
            self._ours.remove_pod(change.uid)
        else:
            self._pods[change.uid] = change.pod
            self._ours.set_pod(change.pod)
        return change.uid

    def _snapshot(self, uid: str) -> Cluster:
        """As it stands without the pod."""
        return {**self._cluster, "pods": [pod for other, pod in self._pods.items() if other != uid]}


def _terminating(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]
