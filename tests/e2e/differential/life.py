"""One cluster's life on both sides: each pod is decided about by both, starts or goes, and room is made for some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.e2e.differential.api import Object
from tests.e2e.differential.cases import Case, Played
from tests.e2e.differential.clusters import started
from tests.e2e.differential.comparing import ENDED_EARLY, HEARD_LATE, counted, differences, victims_differ
from tests.e2e.differential.objects import Cluster, key_of
from tests.e2e.differential.ours import Answer, Ours
from tests.e2e.differential.theirs import Change, KubeScheduler, Theirs, decided, told_of, waits_for_volumes

_PATIENT = frozenset(
    ("NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "NodeDeclaredFeatures")
)
"""Plugins to which it makes no difference that a pod was placed."""
_LATER = 36_000
"""Seconds after the first pods in place have started."""


@dataclass(slots=True)
class _Promise:
    """A node is being made free for a pod."""

    pod: Object
    before: Cluster
    theirs: Theirs
    answer: Answer
    ended: list[Object]
    """Pods that have gone since its turn came."""
    placed: Change | None = None
    """The pod's own placement, which our engine has not heard of."""

    @property
    def expected(self) -> frozenset[str]:
        """The pods that have to leave, as we see it."""
        there = self.answer.room.get(self.theirs.nominated, "")
        return frozenset() if isinstance(there, str) else there[0]


class Life:
    """Of one cluster, on both sides."""

    def __init__(self, seed: int, scheduler: KubeScheduler, wanted: Cluster) -> None:
        self.played = Played()
        self.over = False
        """Whether there can be no more pods: nobody knows what kube-scheduler is about."""
        self._seed = seed
        self._scheduler = scheduler
        self._cluster = scheduler.begin(wanted)
        self._pods = {pod["metadata"]["uid"]: pod for pod in self._cluster["pods"]}
        self._ours = Ours(self._cluster, scheduler.extenders.url)
        self._begun = _LATER
        """When the last pod has started, in seconds."""
        self._open: _Promise | None = None

    @property
    def promised(self) -> bool:
        """Whether a pod waits for its victims."""
        return self._open is not None

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

    def decide_in_between(self, pod: Object) -> None:
        """It is another pod's turn before the victims have gone: a less important one, that makes no room itself."""
        assert self._open is not None
        promise, self._open = self._open, None
        spec = pod["spec"]
        spec |= {"preemptionPolicy": "Never", "priority": min(spec["priority"], promise.pod["spec"]["priority"])}
        self.decide(self.post(pod), promise)
        if not self.over:
            self.played.counts["made room while another pod came"] += 1
            self._keep(promise, [])

    def decide(self, uid: str, waiting: _Promise | None = None) -> None:
        """Has both decide about the pod, and compares; then it starts, or is deleted if it was refused.

        `waiting`: for whom a node is being made free. Where victims take their time it may be the pod itself, later.
        """
        pod, before = self._pods[uid], self._snapshot(uid, waiting)
        answer = self._ours.answer(uid)
        theirs = told_of(pod)
        try:
            ended = self._wait(uid)
            theirs = told_of(self._pods[uid])
            found = differences(theirs, answer)
            if theirs.nominated and answer is not None:
                promise = _Promise(pod, before, theirs, answer, ended)
                self._see_them_leave(promise)
                if not found and self._takes_time(promise):
                    self._open = promise
                else:
                    self._keep(promise, found)
                return
            if ended:
                found.append(f"it ended {sorted(_keys(ended))} for nobody")
        except TimeoutError:
            self.over = True
            found = ["kube-scheduler went silent over it"]
        self._compared(pod, before, theirs, answer, found)

    def _keep(self, promise: _Promise, found: list[str]) -> None:
        """The victims go, and the pod gets its node; what is different about that is added to what was found."""
        try:
            found = found + self._make_room(promise)
        except TimeoutError:
            self.over = True
            found = ["kube-scheduler went silent while it made room for it"]
        self._compared(promise.pod, promise.before, promise.theirs, promise.answer, found)

    def _compared(self, pod: Object, before: Cluster, theirs: Theirs, answer: Answer | None, found: list[str]) -> None:
        if found or answer is None:
            self.played.cases.append(
                Case(self._seed, pod, before, theirs, {} if answer is None else answer.as_json(), found)
            )
        else:
            self.played.counts += counted(theirs, answer)
        if not self.over:
            self._settle(pod["metadata"]["uid"])

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

    def _see_them_leave(self, promise: _Promise) -> None:
        """Waits until the victims have gone or are on their way; no longer than kube-scheduler does."""

        def leaving() -> bool:
            there = _keys([pod for pod in self._pods.values() if not _lingering(pod)])
            return not promise.expected & there or promise.placed is not None

        self._until(leaving, promise)

    def _takes_time(self, promise: _Promise) -> bool:
        """Whether another pod's turn may come before the victims have gone: nothing that it does may wake this one."""
        lingering = _keys([pod for pod in self._pods.values() if _lingering(pod)])
        return bool(promise.expected) and promise.expected <= lingering and promise.answer.rejecting <= _PATIENT

    def _make_room(self, promise: _Promise) -> list[str]:
        """Waits until the victims have ended, and then for the pod where that is sure to wake it; differences in both.

        With one victim it is, unless that held a disk from another namespace. With more, kube-scheduler may let it
        sleep for minutes: it asks only the plugin that refused the node whether the last one's end helps, and drops
        what it hears before. See docs/compare/kube-scheduler.md. Where it is enough that they are leaving, as for
        PodTopologySpread, it may have been placed by now: on another node, if it was tried at a moment when those that
        were leaving still kept it from this one, which nobody can look at afterwards. Where another pod had to go, or
        came in between, the pod may not fit after all, and who waits for whom from then on is not looked at.
        """
        pod, node, expected = promise.pod, promise.theirs.nominated, promise.expected
        slow = [other for other in self._pods.values() if key_of(other) in expected and _lingering(other)]
        for other in slow:
            self._scheduler.delete(other)  # nobody else ends them here
        self._until(lambda: _keys(slow) <= _keys(promise.ended), promise)
        elsewhere = promise.placed is not None and told_of(promise.placed.pod).node != node
        asleep = (len(expected) > 1 or _held_a_disk_elsewhere(promise)) and expected == _keys(promise.ended)
        if promise.placed is None and not asleep:
            # a label that nobody selects: to a pod that was repelled it is a reason to be tried again
            nudged = Change(self._scheduler.change(pod, {"metadata": {"labels": {"nudged": "yes"}}}), gone=False)
            if not _is_placed(nudged, nudged.uid):
                self._see(nudged)
        again = self._ours.answer(pod["metadata"]["uid"])
        found = victims_differ(node, _keys(promise.ended), promise.answer)
        if promise.placed is None and again is not None and not again.best:
            self.over = True
        elif asleep:
            self.over = bool(pod["spec"].get("volumes"))  # its claims may be on their way to a node by now
        if self.over:
            self.played.counts[ENDED_EARLY] += 1
        if self.over or asleep:
            return found
        if promise.placed is None:
            self._scheduler.give_volumes(pod)
        self._until(lambda: promise.placed is not None, promise)
        assert promise.placed is not None
        self._see(promise.placed)
        placed = told_of(promise.placed.pod)
        # that it was tried while they were leaving may be heard of later than that they have gone
        late = placed.node != node and again is not None and placed.node not in again.refused
        self.played.counts[HEARD_LATE] += late and not elsewhere
        return found if elsewhere or late else found + differences(placed, again)

    def _until(self, holds: Callable[[], bool], promise: _Promise) -> None:
        """Our engine hears of all that happens meanwhile, but for the pod's own placement."""
        while not holds():
            change = self._next_change()
            if change.gone:
                promise.ended.append(change.pod)
            if _is_placed(change, promise.pod["metadata"]["uid"]):
                promise.placed = change
            else:
                self._see(change)

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

    def _snapshot(self, uid: str, waiting: _Promise | None) -> Cluster:
        """As it stands without the pod. Who is waiting for a node may not go there yet."""
        pods = {other: pod for other, pod in self._pods.items() if other != uid}
        if waiting is not None:
            other = waiting.pod["metadata"]["uid"]
            gates = [{"name": "example.com/victims-are-leaving"}]
            pods[other] = {**pods[other], "spec": {**pods[other]["spec"], "schedulingGates": gates}}
        return {**self._cluster, "pods": list(pods.values())}


def _keys(pods: list[Object]) -> frozenset[str]:
    return frozenset(map(key_of, pods))


def _is_placed(change: Change, uid: str) -> bool:
    return change.uid == uid and bool(change.pod["spec"].get("nodeName"))


def _held_a_disk_elsewhere(promise: _Promise) -> bool:
    """Whether the pod waits for a disk that a pod of another namespace gives back."""
    refused = promise.answer.refused.get(promise.theirs.nominated, ())
    here = f"{promise.pod['metadata']['namespace']}/"
    return any(reason.startswith("VolumeRestrictions:") for reason in refused) and not any(
        key.startswith(here) for key in promise.expected
    )


def _lingering(pod: Object) -> bool:
    """Whether the pod is on its way out, and nobody here ends it."""
    return bool(pod["metadata"].get("deletionGracePeriodSeconds"))
