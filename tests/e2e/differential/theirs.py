"""kube-scheduler's side: a cluster is loaded while it does not run, then it decides pod after pod.

Why it has seen all that we have seen. Nodes and whatever else is no pod are written before its process starts, and do
not change while it runs: its informers begin with a consistent list (WatchList without a resourceVersion, KEP-3157;
our own plain lists before it starts bring the API server's watch cache up to date as well, KEP-2340), and no cycle
begins before every handler has been given that list (`WaitForHandlersSync` in cmd/kube-scheduler/app/server.go). Pods
come and go while it runs, but all through one watch and one handler (pkg/scheduler/eventhandlers.go): a pod is in its
queue only once every earlier change of any pod is in its cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from tests.controlplane.plane import ControlPlane, Options
from tests.e2e.differential.api import Api, Object, Refused
from tests.e2e.differential.configuration import configuration
from tests.e2e.differential.extenders import ExtenderServer
from tests.e2e.differential.objects import KINDS, NAMESPACES, NODES, OTHERS, PODS, Cluster, Kind, as_made, key_of
from tests.e2e.differential.volumes import given_to, provisioned
from tests.waiting import eventually

SCHEDULER = "kube-scheduler"


def options(extenders: ExtenderServer) -> Options:
    """Of a control plane whose scheduler asks these."""
    return Options(
        scheduler=True,
        scheduler_configuration=configuration(extenders.url),
        flags={
            # Batching takes nodes over from one pod to the next without looking at the others.
            SCHEDULER: ("--feature-gates=OpportunisticBatching=false",),
            "kube-apiserver": (
                # Nodes stay as they are made, pods may have any priority, and claims can be deleted with no controller.
                "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority,RuntimeClass,StorageObjectInUseProtection",
                "--feature-gates=UserNamespacesHostNetworkSupport=true",
                "--delete-collection-workers=8",
            ),
        },
    )


_VOLUMES = next(kind for kind in OTHERS if kind.plural == "persistentvolumes")
_CLAIMS = next(kind for kind in OTHERS if kind.plural == "persistentvolumeclaims")
_AT_ONCE = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}


_HOMELESS: Object = {
    "metadata": {"name": "homeless", "namespace": NAMESPACES[0]},
    "spec": {
        "nodeSelector": {"example.com/no-node-has": "this"},
        "preemptionPolicy": "Never",
        "containers": [{"name": "main", "image": "none"}],
    },
}
"""A pod that no cluster here has a node for."""


@dataclass(frozen=True, slots=True)
class Change:
    """Of a pod, as the watch tells it."""

    pod: Object
    gone: bool

    @property
    def uid(self) -> str:
        uid: str = self.pod["metadata"]["uid"]
        return uid


@dataclass(frozen=True, slots=True)
class Theirs:
    """What kube-scheduler did about a pod."""

    node: str
    """Empty if it was refused."""
    message: str
    nominated: str = ""

    def as_json(self) -> Object:
        """For case files."""
        return {"node": self.node, "message": self.message, "nominated": self.nominated}


class KubeScheduler:
    """A control plane with the real scheduler, taken from one cluster to the next."""

    def __init__(self, plane: ControlPlane, extenders: ExtenderServer) -> None:
        """`extenders`: those of the plane's `options`."""
        self.extenders = extenders
        self._plane = plane
        self._api = Api(plane)
        self._watch: Iterator[tuple[str, Object]] = iter(())
        for name in NAMESPACES:
            self._api.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def close(self) -> None:
        self._api.close()

    def begin(self, cluster: Cluster) -> Cluster:
        """Loads the cluster in place of the one before, and starts the scheduler; the cluster as the server has it."""
        self._plane.component(SCHEDULER).kill()
        self._wipe()
        self._load(cluster)
        lists = {kind.plural: self._api.send("GET", kind.path()) for kind in KINDS}
        lists["namespaces"] = self._api.send("GET", "/api/v1/namespaces")
        self._watch = self._api.watch(PODS.path(), lists[PODS.plural]["metadata"]["resourceVersion"])
        self._plane.start_component(SCHEDULER)
        found = {plural: [item for item in each["items"] if _is_ours(item)] for plural, each in lists.items()}
        return found | {PODS.plural: self._promised(cluster, found[PODS.plural])}

    def _promised(self, wanted: Cluster, pods: list[Object]) -> list[Object]:
        """The pods, once those that may not be scheduled yet have been promised their nodes.

        While it runs, which its refusal of another pod shows: it takes promises to gated pods from updates alone
        (backend/queue/scheduling_queue.go moveToActiveQ), so that it would not know of those before.
        """
        promises = {key_of(pod): pod["status"]["nominatedNodeName"] for pod in wanted["pods"] if _is_promised(pod)}
        if promises:
            self.delete(self._await(self.post(_HOMELESS)))
        return [
            self._api.send(
                "PATCH", f"{PODS.path_of(pod)}/status", {"status": {"nominatedNodeName": promises[key_of(pod)]}}
            )
            if key_of(pod) in promises
            else pod
            for pod in pods
        ]

    def change_nodes(self, nodes: list[Object], promised: list[Object]) -> tuple[list[Object], list[Object]]:
        """Nodes change, or come, while it does not run; they, and the promised pods, as the server has them then."""
        self._plane.component(SCHEDULER).kill()
        changed = [self._put(node) for node in nodes]
        self._plane.start_component(SCHEDULER)
        if promised:
            self.delete(self._await(self.post(_HOMELESS)))  # see _promised: they have to change for it, somehow
        return changed, [self.change(pod, {"metadata": {"labels": {"reminded": "yes"}}}) for pod in promised]

    def _put(self, node: Object) -> Object:
        path = NODES.path_of(node)
        try:
            self._api.send("PUT", path, node)
        except Refused as refused:
            if refused.status != HTTPStatus.NOT_FOUND:
                raise
            self._api.send("POST", NODES.path(), node)
        return self._api.send("PUT", f"{path}/status", node)

    def ask(self, cluster: Cluster, pod: Object) -> Theirs:
        """What it does about one pod in a cluster."""
        self.begin(cluster)
        return told_of(self._await(self.post(as_made(pod))))

    def post(self, pod: Object) -> Object:
        """The pod as the server has admitted it."""
        return self._api.send("POST", PODS.path(pod["metadata"]["namespace"]), pod)

    def delete(self, pod: Object) -> None:
        """At once, whatever it is doing; harmless if it is gone."""
        try:
            self._api.send("DELETE", PODS.path_of(pod), _AT_ONCE)
        except Refused as refused:
            if refused.status != HTTPStatus.NOT_FOUND:
                raise

    def change(self, pod: Object, patch: Any) -> Object:
        """Merges into the pod; as it is then."""
        return self._api.send("PATCH", PODS.path_of(pod), patch)

    def change_status(self, pod: Object, status: Object) -> Object:
        """As its kubelet would; as it is then."""
        return self._api.send("PATCH", f"{PODS.path_of(pod)}/status", {"status": status})

    def give_volumes(self, pod: Object) -> None:
        """As the controllers of storage would: what the scheduler has chosen for the pod's claims becomes theirs."""
        namespace = pod["metadata"]["namespace"]
        for volume in pod["spec"].get("volumes", ()):
            if "persistentVolumeClaim" in volume:
                name = volume["persistentVolumeClaim"]["claimName"]
                eventually(f"claim {name} is given a volume", partial(self._give_volume, _CLAIMS.path(namespace, name)))

    def storage(self) -> Cluster:
        """Claims and volumes as they are now."""
        return {kind.plural: self._api.send("GET", kind.path())["items"] for kind in (_VOLUMES, _CLAIMS)}

    def _give_volume(self, path: str) -> bool:
        """Whether the claim has one, now at the latest."""
        claim = self._api.send("GET", path)
        if claim["spec"].get("volumeName"):
            return True
        metadata = claim["metadata"]
        if "volume.kubernetes.io/selected-node" in metadata.get("annotations", {}):
            made = provisioned(claim)
            self._make(_VOLUMES, made)
            chosen = [made]
        else:
            found = self._api.send("GET", _VOLUMES.path())["items"]
            chosen = [each for each in found if each["spec"].get("claimRef", {}).get("uid") == metadata["uid"]]
        for volume in chosen:
            self._api.send("PATCH", path, given_to(claim, volume["metadata"]["name"]))
        return bool(chosen)

    def next_change(self) -> Change:
        """Of any pod, in the order in which the server made them; waits for it."""
        kind, pod = next(self._watch)
        return Change(pod, kind == "DELETED")

    def _await(self, pod: Object) -> Object:
        """The pod once it has been decided about."""
        while not decided(pod):
            change = self.next_change()
            if change.uid == pod["metadata"]["uid"]:
                pod = change.pod
                if waits_for_volumes(pod):
                    self.give_volumes(pod)
        return pod

    def _wipe(self) -> None:
        for kind in (PODS, *OTHERS, NODES):
            for namespace in NAMESPACES if kind.namespaced else ("",):
                self._api.send("DELETE", kind.path(namespace), _AT_ONCE)

    def _load(self, cluster: Cluster) -> None:
        for namespace in cluster["namespaces"]:
            name = namespace["metadata"]["name"]
            if name in NAMESPACES:
                labels = {"team": None, **namespace["metadata"].get("labels", {})}
                self._api.send("PATCH", f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})
        for kind in KINDS:
            self._api.each(partial(self._make, kind), cluster.get(kind.plural, ()))

    def _make(self, kind: Kind, item: Object) -> None:
        """With its status, and on its way out if it is."""
        namespace = item["metadata"].get("namespace", "")
        self._api.send("POST", kind.path(namespace), as_made(item))
        if kind.with_status and item.get("status") and not _is_promised(item):
            self._api.send("PATCH", f"{kind.path_of(item)}/status", {"status": item["status"]})
        if item["metadata"].get("deletionTimestamp"):
            self._api.send("DELETE", kind.path_of(item))


def _is_ours(item: Object) -> bool:
    """Whether it is not of the server's own."""
    return item["metadata"].get("namespace", NAMESPACES[0]) in NAMESPACES


def _is_promised(item: Object) -> bool:
    """Whether it is a pod with a promise, and still none with a node."""
    return "nominatedNodeName" in item.get("status", {}) and "nodeName" not in item["spec"]


def decided(pod: Object) -> bool:
    """Whether a scheduler has said something of the pod."""
    return bool(pod["spec"].get("nodeName")) or _refusal(pod) is not None


def waits_for_volumes(pod: Object) -> bool:
    """Whether a scheduler has a node for the pod, which it does not get before its claims have volumes.

    The node is told before they are written (NominatedNodeNameForExpectation, KEP-5278).
    """
    return bool(pod["status"].get("nominatedNodeName")) and not decided(pod)


def told_of(pod: Object) -> Theirs:
    """What the scheduler has said of the pod."""
    node = pod["spec"].get("nodeName", "")
    return Theirs(node, "" if node else _refusal(pod) or "", pod["status"].get("nominatedNodeName", ""))


def _refusal(pod: Object) -> str | None:
    """Why the pod was refused; None if it was not."""
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["reason"] in ("Unschedulable", "SchedulerError"):
            message: str = condition.get("message", "")
            return message
    return None
