"""Settings that change while the shipped controller runs: they take effect at once, and what need not move stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from situate.testing.vpod.history import CAPACITY, SetSource, VpodHistorySettings
from situate.testing.vpod.invariants.rules import VpodWatchdog
from situate.testing.vpod.run import perform
from situate.testing.vpod.world.world import GROUPS_PATH, NAMESPACE, STATEFULSET, TENANTS, VPodWorld
from situate.vpod.model.options import PolicyName

pytestmark = pytest.mark.rule("vpod:B15")


class Running:
    """A cluster with two processes of vpod, none of which is restarted."""

    def __init__(self) -> None:
        self.world = VPodWorld(1, VpodHistorySettings())
        self.watchdog = VpodWatchdog(self.world)
        self.world.let_pass(20.0)
        self.members = tuple(self.world.members)

    def want(self, source: int, vreplicas: int) -> None:
        perform(self.world, self.watchdog, SetSource(0.0, source, vreplicas))

    def change(self, **settings: Any) -> None:
        """The file that the processes share says so from now on."""
        for member in self.members:
            changed = msgspec.structs.replace(member.controller.settings, **settings)
            member.process.loop.call_soon_threadsafe(member.controller.reconfigure, changed)

    def placements(self, source: int) -> dict[str, int]:
        found = self.world.call("GET", f"{GROUPS_PATH}/namespaces/{TENANTS[source]}/consumergroups/s{source}")
        return {each["podName"]: each["vreplicas"] for each in found.get("status", {}).get("placements", [])}

    def replicas(self) -> int:
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{STATEFULSET}"
        return int(self.world.call("GET", path)["spec"]["replicas"])

    def comes(self, *holds: Callable[[], bool], within_s: float = 120.0) -> bool:
        """Whether all become true at one time."""
        self.world.let_pass(within_s, stop=lambda: all(each() for each in holds))
        self.watchdog.check()
        return all(each() for each in holds)


def pod(ordinal: int) -> str:
    return f"{STATEFULSET}-{ordinal}"


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    yield made
    assert tuple(made.world.members) == made.members
    made.world.close()


def test_more_capacity_moves_nothing_and_needs_fewer_pods(running: Running) -> None:
    running.want(0, 2 * CAPACITY)
    assert running.comes(lambda: running.placements(0) == {pod(0): CAPACITY, pod(1): CAPACITY})
    running.change(pod_capacity=2 * CAPACITY)
    running.world.let_pass(5.0)
    assert running.placements(0) == {pod(0): CAPACITY, pod(1): CAPACITY}
    assert running.comes(lambda: running.replicas() == 1, lambda: running.placements(0) == {pod(0): 2 * CAPACITY})


def test_less_capacity_moves_only_what_is_too_much(running: Running) -> None:
    running.want(0, 2)
    assert running.comes(lambda: running.placements(0) == {pod(0): 2})
    running.want(1, 4)
    assert running.comes(lambda: running.placements(1) == {pod(0): 4})
    running.change(pod_capacity=5)

    def moved() -> dict[str, int]:
        held = [running.placements(0), running.placements(1)]
        return {name: sum(each.get(name, 0) for each in held) for name in (pod(0), pod(1))}

    assert running.comes(lambda: moved() == {pod(0): 5, pod(1): 1}, lambda: running.replicas() == 2)


def test_min_replicas_spreads_and_lets_go_again(running: Running) -> None:
    running.want(0, 4)
    assert running.comes(lambda: running.placements(0) == {pod(0): 4})
    running.change(min_replicas=3)
    assert running.comes(lambda: running.replicas() == 3)
    running.want(0, 6)
    assert running.comes(lambda: len(running.placements(0)) == 3, lambda: sum(running.placements(0).values()) == 6)
    running.change(min_replicas=0)
    assert running.comes(lambda: running.replicas() == 1, lambda: running.placements(0) == {pod(0): 6})


def test_a_limit_holds_from_when_it_is_set_until_it_is_raised(running: Running) -> None:
    running.change(max_replicas=1)
    running.want(0, 2 * CAPACITY)
    assert running.comes(lambda: running.placements(0) == {pod(0): CAPACITY})
    running.world.let_pass(60.0)
    assert running.replicas() == 1
    running.change(max_replicas=2)
    assert running.comes(lambda: running.placements(0) == {pod(0): CAPACITY, pod(1): CAPACITY}, within_s=20.0)


def test_another_policy_is_for_what_is_placed_from_now_on(running: Running) -> None:
    running.want(0, CAPACITY + 2)
    assert running.comes(lambda: sum(running.placements(0).values()) == CAPACITY + 2)
    before = running.placements(0)
    running.change(policy=PolicyName.PACK)
    running.want(1, 3)
    assert running.comes(lambda: sum(running.placements(1).values()) == 3)
    assert running.placements(0) == before
    free = {name: CAPACITY - held for name, held in before.items()}
    first = min(3, free.get(pod(0), 0))
    assert running.placements(1).get(pod(0), 0) == first
