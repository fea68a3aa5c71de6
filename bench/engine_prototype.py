"""The rows of the prototype's table: kinds of pods, at 5,000 and at 15,000 nodes, and from watch event to binding.

A tenth of the nodes is tainted, half of the pods prefer some nodes, as where the baseline was measured. The pods wait
in the queue when the clock starts, but for the last row: that one begins with the bytes of a watch.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from types import MappingProxyType
from typing import Any, Final

from bench.engine_objects import HOSTNAME, ZONE, equal_pods, nodes, pod_event, pod_spec, read_pods
from bench.engine_play import Play, Workload
from situate.framework.actions import Bind
from situate.framework.decisions import Placed, PlacedRun
from situate.framework.shortcuts import Shortcuts
from situate.kube.client import Client
from situate.kube.transport import Transport
from situate.objects.codec import changes_decoder
from situate.objects.messages import Request, Response
from situate.objects.nodes import Node
from situate.objects.pods import Pod
from situate.objects.resources import PODS

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


def plain_lines(count: int) -> list[bytes]:
    """No two pods alike."""
    rng = Random(2)
    return [pod_event(f"plain-{number}", a_spec(rng)) for number in range(count)]


def plain(count: int) -> list[Pod]:
    return read_pods(plain_lines(count))


def of_apps(count: int, spec_of: Callable[[int, Random], dict[str, Any]]) -> list[Pod]:
    """Pods of twenty apps, one of any of them after the other."""
    rng = Random(3)
    specs = [spec_of(app, rng) for app in range(CLASSES)]
    apps = [rng.randrange(CLASSES) for _ in range(count)]
    by_app = [
        iter(equal_pods(f"app-{app}", apps.count(app), spec, labels={"app": f"app-{app}"}))
        for app, spec in enumerate(specs)
    ]
    return [next(by_app[app]) for app in apps]


def classes(count: int) -> list[Pod]:
    return of_apps(count, lambda app, rng: a_spec(rng))


def equal(count: int) -> list[Pod]:
    return equal_pods("equal", count, pod_spec({"cpu": "100m", "memory": "500Mi"}))


def spread(count: int) -> list[Pod]:
    """Each app evenly over zones and hosts, if that is possible."""

    def spec_of(app: int, rng: Random) -> dict[str, Any]:
        own = {"whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": f"app-{app}"}}}
        constraints = [{"maxSkew": 5, "topologyKey": ZONE, **own}, {"maxSkew": 3, "topologyKey": HOSTNAME, **own}]
        return a_spec(rng, topologySpreadConstraints=constraints)

    return of_apps(count, spec_of)


def affinity(count: int) -> list[Pod]:
    """A third of the apps keep to a zone if they can, a third must keep to one, a third has one pod to a host."""

    def spec_of(app: int, rng: Random) -> dict[str, Any]:
        term = {"labelSelector": {"matchLabels": {"app": f"app-{app}"}}, "topologyKey": ZONE}
        preferred = [{"weight": 10, "podAffinityTerm": term}]
        kinds: tuple[dict[str, Any], ...] = (
            {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}},
            {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
            {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{**term, "topologyKey": HOSTNAME}]
                }
            },
        )
        return a_spec(rng, affinity=kinds[app % 3])

    return of_apps(count, spec_of)


KINDS: Final[Mapping[str, tuple[Callable[[int], list[Pod]], int]]] = MappingProxyType(
    {
        "plain": (plain, 5000),
        "classes": (classes, 20_000),
        "equal": (equal, 100_000),
        "spread": (spread, 5000),
        "affinity": (affinity, 3000),
    }
)
"""How the pods are made, and how many."""


def workload(kind: str, node_count: int, of: int) -> Workload:
    """One in `of` of the pods."""
    make, count = KINDS[kind]
    return Workload(cluster(node_count), make(count // of))


def preemption(node_count: int, of: int) -> Workload:
    """Full nodes with four pods each, of which three have to go for each pod that comes."""
    low = pod_spec({"cpu": "900m", "memory": "500Mi"})
    high = pod_spec({"cpu": "3", "memory": "500Mi"}, priority=10)
    return Workload(nodes(node_count), equal_pods("high", 1000 // of, high), equal_pods("low", node_count * 4, low))


class _Written:
    """A transport that makes the bytes of each request and has every one succeed."""

    def __init__(self) -> None:
        self.bytes = 0

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        head = f"{request.method} {request.path} HTTP/1.1\r\nHost: localhost\r\n"
        head += "".join([f"{name}: {value}\r\n" for name, value in request.headers.items()])
        message = f"{head}Content-Length: {len(request.body)}\r\n\r\n".encode() + request.body
        self.bytes += len(message)
        return _CREATED


_CREATED: Final = Response(201)


def finished(work: Coroutine[Any, Any, None]) -> None:
    """Runs what never has to wait."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits for something")


def parse_and_bind(node_count: int, of: int) -> tuple[Play, float]:
    """Plain pods from the bytes of a watch to the bytes of their bindings; and the seconds that it took."""
    lines = plain_lines(5000 // of)
    play = Play(Workload(cluster(node_count), read_pods(lines)), Shortcuts(), to_the_end=False)
    play.begin()
    written = _Written()
    transport: Transport = written  # type: ignore[assignment]  # nothing is watched, nothing closed
    client = Client(transport)
    decode = changes_decoder(PODS)
    engine, batch = play.engine, 100
    gc.collect()
    gc.freeze()
    begin = time.process_time()
    for first in range(0, len(lines), batch):
        for change in decode(lines[first : first + batch]):
            assert change is not None
            engine.set_pod(change[1], play.now)
        while decisions := engine.schedule_run(play.now, batch):
            for decision in decisions:
                play.decisions.append(decision)
                assert isinstance(decision, Placed | PlacedRun), decision
                for placed in decision if isinstance(decision, PlacedRun) else (decision,):
                    for action in engine.binding(placed).bind:
                        assert isinstance(action, Bind)
                        finished(client.bind(placed.pod.info.pod, action.node))
                    engine.bound(placed)
    spent = time.process_time() - begin
    gc.unfreeze()
    assert written.bytes > 100 * len(lines)
    return play, spent
