"""The scheduler on a real API server that has no other one, under the printed rights: what it writes, and how it is
killed and paused in the midst of binding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scheduler_cluster import NODE_CPU, Crew
from tests.e2e.vpod_cluster import Cluster, rfc3339_now
from tests.waiting import eventually

pytestmark = pytest.mark.slow

ELECTION = {"leaseDuration": "12s", "renewDeadline": "9s", "retryPeriod": "500ms"}
"""Short enough to see its end; long enough for a leader not to miss it where a machine stalls for seconds."""


@pytest.fixture
def crew(bare_cluster: Cluster, tmp_path: Path) -> Callable[..., Crew]:
    def make(name: str, **settings: Any) -> Crew:
        return Crew(bare_cluster, name, tmp_path, **settings)

    return make


def test_it_stands_in_for_kube_scheduler(crew: Callable[..., Crew]) -> None:
    """Under the name default-scheduler, in a cluster without one: a Deployment's pods run, and a pod that fits nowhere
    is told so in kube-scheduler's words."""
    with crew("stand-in", profiles=[{"schedulerName": "default-scheduler"}]) as ours:
        ours.scheduler_name = "default-scheduler"
        ours.add_nodes(3)
        ours.start()
        template = {"metadata": {"labels": {"app": "web"}}, "spec": ours.pod("web")["spec"]}
        del template["spec"]["schedulerName"]
        ours.cluster.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web", "namespace": ours.name},
                "spec": {"replicas": 6, "selector": {"matchLabels": {"app": "web"}}, "template": template},
            }
        )
        path = f"/apis/apps/v1/namespaces/{ours.name}/deployments/web"
        eventually("it is ready", lambda: ours.cluster.get(path)["status"].get("readyReplicas"), lambda n: n == 6)
        assert sorted(Counter(ours.bound().values()).values()) == [2, 2, 2]
        (pod, *_) = ours.bound()
        (event,) = eventually("its Event is there", lambda: ours.events(pod, "Scheduled"))
        assert event["note"] == f"Successfully assigned {ours.name}/{pod} to {ours.bound()[pod]}"
        assert (event["type"], event["action"], event["reportingController"]) == (
            "Normal",
            "Binding",
            "default-scheduler",
        )

        ours.create("huge", cpu="1000")
        said = eventually("it is told so", lambda: ours.condition("huge"))
        assert (said["status"], said["reason"]) == ("False", "Unschedulable")
        assert "3 Insufficient cpu" in said["message"]
        (event,) = eventually("and in an Event", lambda: ours.events("huge", "FailedScheduling"))
        assert event["note"] == said["message"]
        assert (event["type"], event["action"]) == ("Warning", "Scheduling")
        described = ours.cluster.kubectl("describe", "pod", "huge", "-n", ours.name)
        assert said["message"].split(" preemption")[0] in described

        checked = ours.cluster.situate("check", "-f", str(ours.file), kubeconfig=ours.kubeconfig())
        assert checked.returncode == 0, checked.stdout


def test_preemption(crew: Callable[..., Crew]) -> None:
    with crew("preempting") as ours:
        ours.add_nodes(1)
        ours.start()
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "worthy"}}
        ours.cluster.apply({**priority, "value": 1000})
        ours.create("victim", cpu=str(NODE_CPU), terminationGracePeriodSeconds=1)
        ours.wait_bound("victim")
        uid = ours.get("victim")["metadata"]["uid"]
        ours.create("important", cpu=str(NODE_CPU), priorityClassName="worthy")
        ours.wait_bound("important")
        preemptor = ours.get("important")
        assert "nominatedNodeName" not in preemptor["status"]
        (event,) = eventually("the victim's Event is there", lambda: ours.events("victim", "Preempted"))
        assert event["note"] == f"Preempted by pod {preemptor['metadata']['uid']} on node {ours.nodes[0]}"
        assert event["regarding"]["uid"] == uid
        assert event["related"]["name"] == "important"


def test_killed_and_paused_in_the_midst_of_binding(crew: Callable[..., Crew]) -> None:
    """Every pod that has room is bound once, by whoever leads; no node holds more than it has; nobody is forgotten."""
    fits, too_many = 48, 4
    with crew("fail-over", client={"qps": 12, "burst": 1}, callsInFlight=4) as ours:
        ours.shared["leaderElection"] = ELECTION
        ours.configure()
        ours.add_nodes(3)
        each = NODE_CPU * 3 // fits
        first = ours.start("first")
        eventually("the first leads", first.leads)
        second = ours.start("second")
        second.wait_synced()
        for number in range(fits + too_many):
            ours.create(f"pod-{number}", cpu=str(each))
        eventually("some are bound", ours.bound, lambda bound: len(bound) >= 10)
        first.process.kill()

        eventually("the second leads", second.leads)
        third = ours.start("third")
        third.wait_synced()
        so_far = len(ours.bound())
        eventually("some more are bound", ours.bound, lambda bound: len(bound) >= min(so_far + 6, fits - 4))
        second.process.pause()
        eventually("the third leads", third.leads)
        eventually("all are bound that can be", ours.bound, lambda bound: len(bound) == fits)
        taken_over = rfc3339_now()
        second.process.resume()
        eventually("the second knows that it lost", lambda: second.said("leadership lost"))

        assert sorted(Counter(ours.bound().values()).values()) == [NODE_CPU // each] * 3
        assert set(ours.bindings().values()) == {1}, "bound once"
        late = [each for each in ours.writes_of(second) if each.at > taken_over]
        assert not [each for each in late if each.code < 300]
        waiting = [f"pod-{number}" for number in range(fits + too_many) if f"pod-{number}" not in ours.bound()]
        assert len(waiting) == too_many
        told = eventually("they know why", lambda: [ours.condition(name) for name in waiting], all)
        assert {each["reason"] for each in told} == {"Unschedulable"}

        gone = next(iter(ours.bound()))
        ours.cluster.plane.request("DELETE", ours.path(gone))
        eventually("its room is used", ours.bound, lambda bound: len(bound) == fits and gone not in bound)


def test_an_api_server_that_dies_and_forgets(crew: Callable[..., Crew]) -> None:
    """SIGKILL of the API server in the midst of binding: answers are lost, and earlier watches are answered 410."""
    early, late = ([f"{when}-{number}" for number in range(20)] for when in ("early", "late"))
    with crew("outage", client={"qps": 10, "burst": 1}) as ours:
        ours.add_nodes(2)
        scheduler = ours.start()
        eventually("it leads", scheduler.leads)
        for name in early:
            ours.create(name)
        eventually("some are bound", ours.bound)
        with ours.refusals_allowed():
            ours.cluster.plane.expire_history()
            eventually("it is at work again", ours.bound, lambda bound: set(early) <= bound.keys())
        for name in late:
            ours.create(name)
        ours.wait_bound(*early, *late)
        assert set(ours.bindings().values()) == {1}


def test_a_pod_says_where_it_is_expected_while_its_volume_is_made(crew: Callable[..., Crew]) -> None:
    """Nobody makes the volume, until the test does; meanwhile the scheduler is killed, and another one goes on."""
    with crew("expecting") as ours:
        ours.shared["leaderElection"] = ELECTION
        ours.configure()
        ours.add_nodes(2)
        made = {"provisioner": "example.com/nobody", "volumeBindingMode": "WaitForFirstConsumer"}
        storage_class = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": ours.name}}
        size = {"storageClassName": ours.name, "accessModes": ["ReadWriteOnce"]}
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": ours.name},
        }
        wanted = {**size, "resources": {"requests": {"storage": "1Gi"}}}
        ours.cluster.apply({**storage_class, **made}, {**claim, "spec": wanted})
        first = ours.start("first")
        ours.create("web", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
        there = eventually("it says where", lambda: ours.get("web")["status"].get("nominatedNodeName"))
        claims = f"/api/v1/namespaces/{ours.name}/persistentvolumeclaims/data"
        selected = "volume.kubernetes.io/selected-node"
        eventually(
            "a volume is asked for",
            lambda: ours.cluster.get(claims)["metadata"].get("annotations", {}).get(selected),
            lambda node: node == there,
        )
        first.process.kill()
        second = ours.start("second")
        eventually("the second leads", second.leads)
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": ours.name}}
        uid = ours.cluster.get(claims)["metadata"]["uid"]
        given = {"kind": "PersistentVolumeClaim", "namespace": ours.name, "name": "data", "uid": uid}
        there_alone = {"hostPath": {"path": "/data"}, "capacity": {"storage": "1Gi"}, "claimRef": given}
        ours.cluster.apply({**volume, "spec": {**size, **there_alone}})
        assert ours.wait_bound("web")["web"] == there
        assert "nominatedNodeName" not in ours.get("web")["status"]
        for path in (f"/api/v1/persistentvolumes/{ours.name}", f"/apis/storage.k8s.io/v1/storageclasses/{ours.name}"):
            ours.cluster.plane.request("DELETE", path)


def test_local_volumes_are_given_away_before_their_pods_are_bound(crew: Callable[..., Crew]) -> None:
    """The scheduler names the claims on the volumes, the real controller binds both, and only then the pods follow."""
    with crew("storing") as ours:
        ours.add_nodes(3)
        empty, one, two = ours.nodes
        there = {"small-1": (one, "1Gi"), "large-1": (one, "5Gi"), "small-2": (two, "1Gi")}
        storage = Storage(ours)
        storage.add_class()
        for name, (node, size) in there.items():
            storage.add_volume(name, node, size)
        wanted = {"a": "1Gi", "b": "1Gi", "c": "3Gi", "later": "20Gi"}
        controller = ours.cluster.plane.component("kube-controller-manager")
        for name, size in wanted.items():
            storage.add_claim(name, size)
        scheduler = ours.start()
        eventually("it leads", scheduler.leads)
        eventually("the volumes are free", storage.free, lambda free: free == there.keys())
        controller.pause()
        try:
            for name in wanted:
                ours.create(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": name}}])
            named = eventually("the claims are named", storage.named, lambda named: len(named) == 3)
            said = eventually("the fourth is told why not", lambda: str(ours.condition("later").get("message", "")))
            assert not ours.bound(), "nobody has bound the claims yet"
        finally:
            controller.resume()
        assert "3 node(s) didn't find available persistent volumes to bind" in said
        assert set(named) == {"a", "b", "c"}
        assert named["c"] == "large-1", "the others are enough for the others"
        bound = ours.wait_bound(*named)
        assert bound == {claim: there[volume][0] for claim, volume in named.items()}
        assert storage.bound() == named
        writes = [(each.resource, each.uri.split("/")[-1]) for each in ours.writes_of(scheduler) if each.code < 300]
        assert Counter(resource for resource, _ in writes)["persistentvolumes"] == len(named), "each patched once"

        storage.add_volume("huge", empty, "50Gi")
        assert ours.wait_bound("later")["later"] == empty
        assert storage.bound() == named | {"later": "huge"}
        storage.clear()


class Storage:
    """Volumes on the discs of nodes, of a class of their own, and claims to them."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._volumes: list[str] = []

    def add_class(self) -> None:
        local = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
        self._post("/apis/storage.k8s.io/v1/storageclasses", self._crew.name, **local)

    def add_volume(self, name: str, node: str, size: str) -> None:
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec = {
            "storageClassName": self._crew.name,
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "local": {"path": f"/discs/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        }
        self._post("/api/v1/persistentvolumes", name, spec=spec)
        self._volumes.append(name)

    def add_claim(self, name: str, size: str) -> None:
        requests = {"resources": {"requests": {"storage": size}}}
        spec = {"storageClassName": self._crew.name, "accessModes": ["ReadWriteOnce"], **requests}
        self._post(f"/api/v1/namespaces/{self._crew.name}/persistentvolumeclaims", name, spec=spec)

    def _post(self, path: str, name: str, **fields: Any) -> None:
        self._crew.cluster.plane.request("POST", path, {"metadata": {"name": name}, **fields})

    def free(self) -> set[str]:
        """Volumes that the controller has seen."""
        found = self._found().items()
        return {name for name, volume in found if volume.get("status", {}).get("phase") == "Available"}

    def named(self) -> dict[str, str]:
        """Volume by claim, of the claims that volumes name."""
        found = self._found().items()
        return {volume["spec"]["claimRef"]["name"]: name for name, volume in found if "claimRef" in volume["spec"]}

    def _found(self) -> dict[str, Any]:
        return {name: self._crew.cluster.get(f"/api/v1/persistentvolumes/{name}") for name in self._volumes}

    def bound(self) -> dict[str, str]:
        """Volume by claim, of the claims that are bound."""
        items = self._crew.cluster.get(f"/api/v1/namespaces/{self._crew.name}/persistentvolumeclaims")["items"]
        return {
            item["metadata"]["name"]: item["spec"]["volumeName"]
            for item in items
            if item.get("status", {}).get("phase") == "Bound"
        }

    def clear(self) -> None:
        plane = self._crew.cluster.plane
        for name in self._volumes:
            plane.request("DELETE", f"/api/v1/persistentvolumes/{name}")
        plane.request("DELETE", f"/apis/storage.k8s.io/v1/storageclasses/{self._crew.name}")


def test_a_pod_that_cannot_be_read_is_told_so_once_and_the_others_go_on(crew: Callable[..., Crew]) -> None:
    with crew("unreadable") as ours:
        ours.add_nodes(1)
        selector = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        ours.create("bad", affinity=alone)
        ours.cluster.plane.rewrite_stored("pods", ours.name, "bad", b"Exists", b"Nearly")
        scheduler = ours.start()
        ours.create("good")
        ours.wait_bound("good")
        said = eventually("it is told so", lambda: ours.condition("bad"))
        assert (said["status"], said["reason"]) == ("False", "SchedulerError")
        assert "Nearly" in said["message"]
        (event,) = eventually("and in an Event", lambda: ours.events("bad", "FailedScheduling"))
        assert event["note"] == said["message"]
        ours.create("better")
        ours.wait_bound("better")
        written = [each for each in ours.writes_of(scheduler) if each.resource == "pods/status" and "/bad/" in each.uri]
        assert len(written) == 1
