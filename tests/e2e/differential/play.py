"""A cluster's life on both sides: pods come one at a time, and each is decided before the next is posted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.e2e.differential.api import Object
from tests.e2e.differential.clusters import changed_nodes, claims_of, draw_cluster, started
from tests.e2e.differential.comparing import counted, differences, victims_differ
from tests.e2e.differential.drawing import Draw
from tests.e2e.differential.objects import Cluster, key_of
from tests.e2e.differential.ours import Answer, Ours
from tests.e2e.differential.pods import INCOMING, Theme, draw_pod
from tests.e2e.differential.theirs import Change, KubeScheduler, Theirs, decided, told_of, waits_for_volumes

PODS_EACH = 50
_EVERY = 4
"""One cluster in so many changes half-way."""
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
        if number == pods // 2 and seed % _EVERY == 0 and gated is None:
            life.change_nodes(changed_nodes(draw, cluster))
        theme = draw.one(INCOMING)
        pod = draw_pod(draw, f"pod-{number}", theme, claims_of(cluster))
        if theme is Theme.GATES:
            gated = gated or life.hold(pod)
            continue
        life.decide(life.post(pod))
        if life.silent:
            break
        if gated is not None:
            life.decide(life.let_go(gated))
            gated = None
    return life.played


class _Life:
    """Of one cluster."""

    def __init__(self, seed: int, scheduler: KubeScheduler, wanted: Cluster) -> None:
        self.played = Played()
        self.silent = False
        """Whether kube-scheduler has stopped saying anything."""
        self._seed = seed
        self._scheduler = scheduler
        self._cluster = scheduler.begin(wanted)
        self._pods = {pod["metadata"]["uid"]: pod for pod in self._cluster["pods"]}
        self._ours = Ours(self._cluster)
        self._begun = _LATER
        """When the last pod has started, in seconds."""

    def change_nodes(self, nodes: list[Object]) -> None:
        """Our engine hears of it as of any change; kube-scheduler starts anew."""
        promised = [pod for pod in self._pods.values() if pod["status"].get("nominatedNodeName") and not decided(pod)]
        changed, reminded = self._scheduler.change_nodes(nodes, promised)
        known = {node["metadata"]["name"]: node for node in (*self._cluster["nodes"], *changed)}
        self._cluster = {**self._cluster, "nodes": list(known.values())}
        for node in changed:
            self._ours.set_node(node)
        for pod in reminded:
            self._see(Change(pod, gone=False))

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
        theirs = told_of(pod)
        try:
            ended = self._wait(uid)
            told = self._pods[uid]
            theirs = told_of(told)
            found = differences(theirs, answer)
            if theirs.nominated and answer is not None:
                found += self._make_room(told, answer, ended)
            elif ended:
                found.append(f"it ended {sorted(_keys(ended))} for nobody")
        except TimeoutError:
            self.silent = True
            found = ["kube-scheduler went silent over it"]
        if found or answer is None:
            self.played.cases.append(
                Case(self._seed, pod, before, theirs, {} if answer is None else answer.as_json(), found)
            )
        else:
            self.played.counts += counted(theirs, answer)
        if not self.silent:
            self._settle(uid)

    def _settle(self, uid: str) -> None:
        """The pod starts, or goes."""
        pod = self._pods[uid]
        if pod["spec"].get("nodeName"):
            if pod["spec"].get("volumes"):
                self._cluster |= self._scheduler.storage()
                self._ours.set_storage(self._cluster)
            self._begun += 1
            status = {"phase": "Running", "startTime": started(self._begun)}
            self._see(Change(self._scheduler.change_status(pod, status), gone=False))
        else:
            self._scheduler.delete(pod)
            self._see(Change(pod, gone=True))

    def _make_room(self, pod: Object, answer: Answer, ended: list[Object]) -> list[str]:
        """Waits until the victims have ended, and then for the pod where that is sure to wake it; differences in both.

        With one victim it is. With more, kube-scheduler may let it sleep for minutes: it asks only the plugin that
        refused the node whether the last one's end helps, and drops what it hears before. See
        docs/framework-differences.md.
        """
        uid, node = pod["metadata"]["uid"], pod["status"]["nominatedNodeName"]
        there = answer.room.get(node, "")
        expected: frozenset[str] = frozenset() if isinstance(there, str) else there[0]
        for other in [other for other in self._pods.values() if key_of(other) in expected and _terminating(other)]:
            self._scheduler.delete(other)  # nobody else ends them here
        change = self._until(lambda change: expected <= _keys(ended) or _is_placed(change, uid), pod, ended)
        if expected and expected == _keys(ended) and len(expected) > 1:
            return []
        if not _is_placed(change, uid):
            # a label that nobody selects: to a pod that was repelled it is a reason to be tried again
            self._scheduler.change(pod, {"metadata": {"labels": {"nudged": "yes"}}})
            change = self._until(lambda change: _is_placed(change, uid), pod, ended)
        again = self._ours.answer(uid)
        self._see(change)
        return victims_differ(node, _keys(ended), answer) + differences(told_of(change.pod), again)

    def _until(self, holds: Callable[[Change], bool], pod: Object, ended: list[Object]) -> Change:
        """The change of which it holds; our engine has heard of all, but for the pod's own placement."""
        change = Change(pod, gone=False)
        while not holds(change):
            change = self._next_change()
            ended += [change.pod] if change.gone else []
            if not _is_placed(change, pod["metadata"]["uid"]):
                self._see(change)
        return change

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


def _keys(pods: list[Object]) -> frozenset[str]:
    return frozenset(map(key_of, pods))


def _is_placed(change: Change, uid: str) -> bool:
    return change.uid == uid and bool(change.pod["spec"].get("nodeName"))


def _terminating(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]
