"""The rows of the prototype's table: kinds of pods, at 5,000 and at 15,000 nodes.

A tenth of the nodes is tainted, half of the pods prefer some nodes, as where the baseline was measured. The pods wait
in the queue when the clock starts; `bench.engine_binding` begins with the bytes of a watch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any, Final

from bench.engine_objects import HOSTNAME, ZONE, equal_lines, equal_pods, nodes, pod_event, pod_spec, read_pods
from bench.engine_play import Workload
from situate.objects.kinds.nodes import Node

CLASSES: Final = 20
ROOM = {"cpu": "32", "memory": "256Gi", "pods": "110"}
ZONES = ("zone-a", "zone-b", "zone-c")


def cluster(count: int) -> list[Node]:
    """Three zones; every tenth node is tainted, every second one has the disk that pods prefer."""
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    made = []
    for share, taints in ((9, ()), (1, (taint,))):
        for disk in ("ssd", "hdd"):
            size = count * share // 20
            made += nodes(size, ZONES, ROOM, prefix=f"{disk}-{share}", labels={"disk": disk}, taints=taints)
    Random(1).shuffle(made)
    return made


def prefers() -> dict[str, Any]:
    """Node affinity."""
    wish = {
        "weight": 10,
        "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
    }
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}


def a_spec(rng: Random, **more: Any) -> dict[str, Any]:
    requests = {"cpu": f"{rng.randrange(10, 400)}m", "memory": f"{rng.randrange(10, 800)}Mi"}
    wish = {"affinity": prefers()} if rng.random() < 0.5 else {}
    return pod_spec(requests, **{**wish, **more})


def plain(count: int) -> list[bytes]:
    """No two pods alike."""
    rng = Random(2)
    return [pod_event(f"plain-{number}", a_spec(rng)) for number in range(count)]


def of_apps(count: int, spec_of: Callable[[int, Random], dict[str, Any]]) -> list[bytes]:
    """Pods of twenty apps, one of any of them after the other."""
    rng = Random(3)
    specs = [spec_of(app, rng) for app in range(CLASSES)]
    apps = [rng.randrange(CLASSES) for _ in range(count)]
    by_app = [
        equal_lines(f"app-{app}", apps.count(app), spec, labels={"app": f"app-{app}"}) for app, spec in enumerate(specs)
    ]
    return [next(by_app[app]) for app in apps]


def classes(count: int) -> list[bytes]:
    return of_apps(count, lambda app, rng: a_spec(rng))


def equal(count: int) -> list[bytes]:
    return list(equal_lines("equal", count, pod_spec({"cpu": "100m", "memory": "500Mi"})))


def spread(count: int) -> list[bytes]:
    """Each app evenly over zones and hosts, if that is possible."""
    return of_apps(count, spreading)


def spreading(app: int, rng: Random) -> dict[str, Any]:
    own = {"whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": f"app-{app}"}}}
    constraints = [{"maxSkew": 5, "topologyKey": ZONE, **own}, {"maxSkew": 3, "topologyKey": HOSTNAME, **own}]
    return a_spec(rng, topologySpreadConstraints=constraints)


def affinity(count: int) -> list[bytes]:
    """A third of the apps keep to a zone if they can, a third must keep to one, a third has one pod to a host."""
    return of_apps(count, attached)


def attached(app: int, rng: Random) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": f"app-{app}"}}, "topologyKey": ZONE}
    preferred = [{"weight": 10, "podAffinityTerm": term}]
    kinds: tuple[dict[str, Any], ...] = (
        {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}},
        {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**term, "topologyKey": HOSTNAME}]}},
    )
    return a_spec(rng, affinity=kinds[app % 3])


def related(count: int) -> list[bytes]:
    """Half of the apps as in `spread`, half as in `affinity`."""
    return of_apps(count, lambda app, rng: (attached if app % 2 else spreading)(app, rng))


KINDS: Final[Mapping[str, tuple[Callable[[int], list[bytes]], int]]] = MappingProxyType(
    {
        "plain": (plain, 5000),
        "classes": (classes, 20_000),
        "equal": (equal, 100_000),
        "spread": (spread, 5000),
        "affinity": (affinity, 3000),
        "related": (related, 3000),
    }
)
"""How the watch tells of the pods, and how many there are."""


def workload(kind: str, node_count: int, of: int) -> Workload:
    """One in `of` of the pods."""
    make, count = KINDS[kind]
    return Workload(cluster(node_count), read_pods(make(count // of)))


def preemption(node_count: int, of: int) -> Workload:
    """Full nodes with four pods each, of which three have to go for each pod that comes."""
    low = pod_spec({"cpu": "900m", "memory": "500Mi"})
    high = pod_spec({"cpu": "3", "memory": "500Mi"}, priority=10)
    return Workload(nodes(node_count), equal_pods("high", 1000 // of, high), equal_pods("low", node_count * 4, low))
