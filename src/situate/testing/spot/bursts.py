"""Bursts of pods through the real webhook: a Deployment is created while watches lag.

The counts of its classes must be exact (B1). Benchmarks and tests call `play_bursts`. A burst depends on its shape and
its seed only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from situate.spot.model.pods_nodes_workloads import CLASS, ON_DEMAND
from situate.testing.spot.world.webhooks import ReviewFaults
from situate.testing.spot.world.world import SHOP, SpotWorld, machinery_settings, parse_settings
from situate.testing.virtual_time.isolation import disable_collector, suppress_logs
from situate.testing.virtual_time.network import NetworkFaults

DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{SHOP}/deployments"
LONGEST_DELAY_S: Final = 2.0
"""Maximum delay of watches (B1)."""
_WITHIN_S: Final = 60.0
_NODES: Final = 6
"""Nodes of each kind, with capacity for all pods."""


@dataclass(frozen=True, slots=True)
class BurstShape:
    """A Deployment that is created at once."""

    replicas: int
    policy: str
    """The value of the annotation."""
    floor: int
    """The floor that results from the policy."""
    scaled_to: int | None = None
    """New number of replicas half a second later, if any. `floor` then belongs to this number."""


SHAPES: Final = (*(BurstShape(50, str(floor), floor) for floor in (0, 5, 25, 26, 50)), BurstShape(500, "50%", 250))
"""The shapes of B1."""


@dataclass(frozen=True, slots=True)
class BurstResult:
    """The result of one burst."""

    shape: BurstShape
    seed: int
    delay_s: float
    """Minimum delay of watches. Each watch may lag further, up to `LONGEST_DELAY_S`."""
    classes: Counter[str]
    """Pods by the class from admission, once all were created. The empty name counts pods without a class."""
    virtual_s: float
    """Virtual seconds until all pods were created."""

    @property
    def deficit(self) -> int:
        """Return the number of missing on-demand pods. A scale-down may leave a surplus, which spot corrects later."""
        return max(0, self.shape.floor - self.classes["on-demand"])

    @property
    def is_exact(self) -> bool:
        replicas = self.shape.replicas if self.shape.scaled_to is None else self.shape.scaled_to
        wanted = {"on-demand": self.shape.floor, "spot": replicas - self.shape.floor}
        return self.classes == Counter(wanted)


def play_bursts(shapes: Iterable[BurstShape] = SHAPES, tries: int = 20, first_seed: int = 0) -> Iterator[BurstResult]:
    """Play `tries` bursts of each shape: without delay, with the longest delay, then with drawn delays."""
    for shape in shapes:
        for seed in range(first_seed, first_seed + tries):
            yield play_burst(shape, seed)


def play_burst(shape: BurstShape, seed: int) -> BurstResult:
    """Play one burst on an empty cluster with a leader that answers."""
    rng = Random(f"burst {seed}")
    latency = rng.choice((0.005, 0.05, 0.3))
    delay = {0: 0.0, 1: LONGEST_DELAY_S}.get(seed, rng.uniform(0.0, LONGEST_DELAY_S))
    with disable_collector(), suppress_logs():
        world = SpotWorld(seed, parse_settings(), machinery_settings())
        try:
            return _play_in_world(world, shape, seed, delay, latency)
        finally:
            world.close()


def _play_in_world(world: SpotWorld, shape: BurstShape, seed: int, delay: float, latency: float) -> BurstResult:
    for number in range(_NODES):
        world.add_node(f"spot-{number}", "spot")
        world.add_node(f"od-{number}", "on-demand")
    assert world.wait_until_led(), "no process leads"
    world.let_pass(5.0)
    world.network.faults = NetworkFaults(
        event_delay_s=delay, event_jitter_s=0.0 if seed == 0 else LONGEST_DELAY_S - delay
    )
    world.webhook_calls.faults = ReviewFaults(latency_s=(0.0005, latency))
    begun = world.now
    world.create_object(DEPLOYMENTS, deployment("web", shape.replicas, shape.policy))
    wanted = shape.replicas
    if shape.scaled_to is not None:
        wanted = shape.scaled_to
        world.let_pass(0.5)
        world.call("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": wanted}}, patch=True)

    pods = world.cluster.api.store.table("pods")

    def complete() -> bool:
        return sum(not pods.objects[key].deleting for key in pods.keys(SHOP)) == wanted

    deployed = world.let_pass(_WITHIN_S, stop=complete)
    assert deployed, f"{len(world.pods('web'))} of {wanted} pods were created within {_WITHIN_S:g} s"
    alive = [each["metadata"] for each in world.pods("web") if not each["metadata"].get("deletionTimestamp")]
    classes = Counter(each["labels"].get(CLASS, "") for each in alive)
    return BurstResult(shape, seed, delay, classes, world.now - begun)


def deployment(name: str, replicas: int, policy: str = "", **spec: Any) -> dict[str, Any]:
    """Build a Deployment. An empty `policy` means the default. `spec` adds fields to the pods."""
    labels = {"app": name}
    pod = {"terminationGracePeriodSeconds": 2, "containers": [{"name": "c", "image": "example.com/c:1"}], **spec}
    return {
        "metadata": {"name": name, "annotations": {ON_DEMAND: policy} if policy else {}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
