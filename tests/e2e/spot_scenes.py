"""One running installation in whose cluster much happens at once, since most of it has to be waited for.

Each scene has nodes of its own, chosen by the label `pool`, so that no scene's nodes matter to another. `Scenes.begin`
puts them all up; what becomes of them is asked by tests (`test_spot_running`), from a recording of pods and nodes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL, CLASS, MIX
from tests.controlplane.errors import ControlPlaneError
from tests.e2e.pod_history import Moment, least, leaving, moments
from tests.e2e.recording import Change, Recording
from tests.e2e.spot_installed import Installed, deployment, stateful_set
from tests.e2e.stub_nodes import add_stub_node, run_pod, speaking
from tests.e2e.vpod_cluster import Request, pod_is_ready
from tests.waiting import eventually

SOON = "example.com/ends-soon"
"""A taint that gives a notice of twenty seconds."""
SETTINGS: dict[str, Any] = {
    "webhook": {"certificateLife": "60s", "timeout": "10s"},
    "evictions": {"coolDown": "1s", "perHour": 1000, "perCluster": 50},
    "return": {"nodeAge": "1s", "calm": "1s", "every": "1s"},
    "start": "2s",
    "signals": [{"source": "taint", "key": SOON, "state": "doomed", "noticeSeconds": 20}],
}
"""Times short enough for a test to see the end of them; what is not named is as shipped."""
BRIEF = {"brief-all": 0, "brief-web": 2, "brief-more": 6}
"""Workloads of ten pods, and their floors, whose spot nodes are deleted without a word."""
BRIEF_NODES = ("brief-spot-0", "brief-spot-1")
OPEN: dict[str, Any] = {"nodeSelector": {"pool": "open"}}
"""Pods to which nothing happens but what their workload's owner does."""
ZONE = "topology.kubernetes.io/zone"


@dataclass
class Load:
    """Pods that are asked for as a dry run, again and again, as a ReplicaSet's controller would create them."""

    answered: list[tuple[datetime, str]] = field(default_factory=list)
    """When, and the class; empty if there was none."""
    problems: list[str] = field(default_factory=list)


class Scenes:
    def __init__(self, spot: Installed, recording: Recording) -> None:
        self.spot = spot
        self.cluster = spot.cluster
        self.recording = recording
        self.load = Load()
        self._before: dict[str, set[str]] = {}
        """Uids of pods that were put up, by workload."""

    # What is there

    def changes(self) -> list[Change]:
        return list(self.recording.changes())

    def history(self, since: int = 0) -> Iterator[Moment]:
        return (each for each in moments(self.changes(), self.spot.shop) if each.revision > since)

    def revision(self) -> int:
        """Of the last change until now."""
        return self.changes()[-1].revision

    def least_serving(self, app: str, replicas: int, since: int = 0) -> int:
        """From the moment on at which all of them served."""
        return least(self.history(since), lambda moment: len(moment.serving(app)), replicas)

    def evicted(self, app: str) -> list[str]:
        """Pods of a workload that we have evicted, in order: names."""
        begins = f"/api/v1/namespaces/{self.spot.shop}/pods/{app}-"
        made = self.written("pods/eviction", "create")
        return [each.uri.split("/")[6] for each in made if each.uri.startswith(begins)]

    def written(self, resource: str, verb: str) -> list[Request]:
        """What we have asked for and been granted."""
        asked = self.cluster.requests(self.spot.space)
        return [each for each in asked if (each.resource, each.verb) == (resource, verb) and each.code < 300]

    def wait_ready(self, app: str, replicas: int) -> list[Any]:
        """All of them ready, and none besides them."""

        def whole(pods: list[Any]) -> bool:
            return len(pods) == replicas and all(map(pod_is_ready, pods))

        return eventually(f"{app} has {replicas} ready pods", partial(self.spot.pods_of, app), whole)

    def wait_on_demand(self, app: str, number: int, replicas: int) -> None:
        """So many stand on demand, and all are there and ready."""
        items = self.cluster.get("/api/v1/nodes")["items"]
        nodes = {each["metadata"]["name"]: each["metadata"]["labels"].get(CAPACITY_LABEL) for each in items}

        def settled(pods: list[Any]) -> bool:
            found = sum(nodes.get(each["spec"].get("nodeName")) == "on-demand" for each in pods)
            return len(pods) == replicas and all(map(pod_is_ready, pods)) and found == number

        eventually(f"{app} has {number} of {replicas} on demand", partial(self.spot.pods_of, app), settled)

    def wait_image(self, app: str, image: str, count: int) -> None:
        """So many ready pods of it run that image."""

        def running(pods: list[Any]) -> int:
            return sum(pod_is_ready(each) and each["spec"]["containers"][0]["image"] == image for each in pods)

        pods = partial(self.spot.pods_of, app)
        eventually(f"{count} pods of {app} run {image}", pods, lambda found: running(found) == count)

    def scale(self, kind: str, app: str, replicas: int) -> None:
        self.cluster.kubectl("scale", f"{kind}/{app}", "-n", self.spot.shop, f"--replicas={replicas}")

    def patch(self, kind: str, app: str, content: Mapping[str, Any]) -> None:
        self.cluster.kubectl("patch", f"{kind}/{app}", "-n", self.spot.shop, "--type=merge", "-p", json.dumps(content))

    def taint(self, pool: str, taint: str) -> None:
        """The spot nodes of a pool."""
        chosen = f"pool={pool},{CAPACITY_LABEL}=spot"
        self.cluster.kubectl("taint", "node", "-l", chosen, taint)

    def end_brief_nodes(self) -> None:
        """Once everything there stands where it should."""
        for app, floor in BRIEF.items():
            self.wait_on_demand(app, floor, 10)
        self.cluster.kubectl("delete", "node", *BRIEF_NODES)

    # What happens

    def add_pool(self, pool: str, on_demand: int, spot: int) -> None:
        for capacity, count in (("on-demand", on_demand), ("spot", spot)):
            names = [f"{pool}-{capacity}-{number}" for number in range(count)]
            if not names:
                continue
            self.cluster.add_nodes(*names, labels={CAPACITY_LABEL: capacity, "pool": pool})

    def put_up_before_us(self) -> None:
        """Workloads that run before anything of ours is there, all of their pods on spot nodes: others come later."""
        self.add_pool("old", 0, 3)
        here = {"nodeSelector": {"pool": "old"}}
        self.spot.deploy(
            deployment("old-web", 6, "3", pod=here),
            deployment("old-guarded", 3, "2", pod=here),
            deployment("old-fitting", 2, "0", pod=here),
            stateful_set("old-set", 3, pod=here),
            budget("old-guarded", minAvailable=3),
        )
        for app, replicas in (("old-web", 6), ("old-guarded", 3), ("old-fitting", 2), ("old-set", 3)):
            pods = self.wait_ready(app, replicas)
            self._before[app] = {each["metadata"]["uid"] for each in pods}
        self.add_pool("old", 2, 0)

    def untouched(self, app: str) -> bool:
        """Whether its pods are those that were put up, and none is on its way out."""
        staying = {each["metadata"]["uid"] for each in self.spot.pods_of(app) if not leaving(each)}
        return staying == self._before[app]

    def put_up_waves(self) -> None:
        """Workloads whose spot nodes will end: with a notice, in a moment, or without a word."""
        for pool, on_demand, spot in (("notice", 2, 3), ("locked", 1, 1), ("brief", 2, 2), ("open", 3, 3)):
            self.add_pool(pool, on_demand, spot)
        waves = f"pool in (notice,locked,brief),{CAPACITY_LABEL}=on-demand"
        self.cluster.kubectl("taint", "node", "-l", waves, "example.com/dear=yes:PreferNoSchedule")
        self.cluster.wait_scheduler("open-spot-0")
        slow = {"annotations": {"ready-after": "1s"}, "nodeSelector": {"pool": "notice"}}
        starting = {"annotations": {"ready-after": "2s"}, "nodeSelector": {"pool": "brief"}}
        self.spot.deploy(
            *(deployment(app, 10, str(floor), pod=starting) for app, floor in BRIEF.items()),
            deployment("locked-web", 2, "0", pod={"nodeSelector": {"pool": "locked"}}),
            budget("locked-web", minAvailable=2),
            deployment("notice-web", 10, "2", pod=slow),
            deployment("notice-all", 4, "0", pod=slow),
            deployment("notice-guarded", 3, "0", pod=slow),
            budget("notice-guarded", maxUnavailable=1),
            stateful_set("notice-set", 5, pod=slow),
        )

    def put_up_silence(self) -> None:
        """In the zone s1 one of two nodes falls silent, in the zone s2 three of four: too many for Kubernetes."""
        here = {CAPACITY_LABEL: "spot", "pool": "silent"}
        zones = {f"silent-{zone}-{number}": zone for zone, count in (("s1", 1), ("s2", 3)) for number in range(count)}
        for name, zone in zones.items():
            add_stub_node(self.cluster.plane, name, {**here, ZONE: zone})
        with speaking(self.cluster.plane, *zones):
            for zone in ("s1", "s2"):
                living = {CAPACITY_LABEL: "on-demand", "pool": "silent", ZONE: zone}
                self.cluster.add_nodes(f"living-{zone}", labels=living)
            self._put_up_beside_silence()

    def _put_up_beside_silence(self) -> None:
        quick = [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
            for key in ("unreachable", "not-ready")
        ]
        workloads = [deployment("silent-web", 4, "2", pod={"nodeSelector": {"pool": "silent"}})]
        for zone in ("s1", "s2"):
            plain = {"nodeSelector": {"kubernetes.io/hostname": f"silent-{zone}-0"}, "tolerations": quick}
            left_alone = deployment(f"plain-{zone}", 1, pod=plain)
            left_alone["spec"]["template"]["metadata"]["labels"][MIX] = "disabled"
            workloads.append(left_alone)
        self.spot.deploy(*workloads)
        for app, replicas in (("plain-s1", 1), ("plain-s2", 1), ("silent-web", 4)):
            pods = self.spot.wait_pods(app, replicas)
            self._before[app] = {each["metadata"]["uid"] for each in pods}
            for pod in pods:
                if pod["spec"]["nodeName"].startswith("silent-"):
                    run_pod(self.cluster.plane, self.spot.shop, pod["metadata"]["name"])

    @contextmanager
    def under_load(self) -> Iterator[None]:
        """Asks for pods of one workload all the time, ten a second at most, in a thread."""
        self.spot.deploy(deployment("asked-for", 1, "0", pod=OPEN))
        self.wait_ready("asked-for", 1)
        chosen = "labelSelector=app%3Dasked-for"
        (owner,) = self.cluster.get(f"/apis/apps/v1/namespaces/{self.spot.shop}/replicasets?{chosen}")["items"]
        over = threading.Event()
        thread = threading.Thread(target=self._ask, args=(owner, over), name="load", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _ask(self, replica_set: Mapping[str, Any], over: threading.Event) -> None:
        about = replica_set["metadata"]
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": about["name"], "uid": about["uid"]}
        template = replica_set["spec"]["template"]
        metadata = {
            "generateName": about["name"] + "-",
            "labels": template["metadata"]["labels"],
            "ownerReferences": [{**reference, "controller": True}],
        }
        path = f"/api/v1/namespaces/{self.spot.shop}/pods?dryRun=All"
        while not over.wait(0.1):
            try:
                made = self.cluster.plane.request("POST", path, {"metadata": metadata, "spec": template["spec"]})
            except (ControlPlaneError, OSError) as problem:
                self.load.problems.append(str(problem))
            else:
                self.load.answered.append((datetime.now(UTC), made["metadata"]["labels"].get(CLASS, "")))


def budget(app: str, **spec: Any) -> dict[str, Any]:
    chosen = {"selector": {"matchLabels": {"app": app}}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app}, "spec": chosen}
