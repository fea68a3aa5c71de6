"""Knative's scheduler as a library, with plain and with awaitable callables."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import looptime
import pytest

import situate.vpod
from situate.testing.vpod.builders import make_placements, options, pod, vpod, with_placements
from situate.vpod.controller.facade import SchedulerConfig, StatefulSetScheduler, as_scheduler
from situate.vpod.model.options import DrainOptions, Profile, RebalanceOptions
from situate.vpod.model.pod_classes import PodFacts
from situate.vpod.model.vpod import Key, NotEnoughReplicas, Placement, PlainVPod, Scale, Scheduler, VPod

AT_ONCE: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(settle=0.0)}


@dataclass
class World:
    """Lists what is there; its StatefulSet follows the scale."""

    replicas: int = 2
    pods: dict[int, PodFacts] = field(default_factory=dict)
    vpods: dict[Key, PlainVPod] = field(default_factory=dict)
    fails: bool = False
    version: int = 1
    now: float = 0.0

    def __post_init__(self) -> None:
        self.pods = {ordinal: pod(ordinal) for ordinal in range(self.replicas)}

    def get_scale(self, name: str, options: Mapping[str, str] | None = None) -> Scale:
        if self.fails:
            raise ConnectionError("the API does not answer")
        return Scale("ns", name, self.replicas, self.replicas, str(self.version))

    def update_scale(self, name: str, scale: Scale, options: Mapping[str, str] | None = None) -> Scale:
        assert scale.resource_version in ("", str(self.version)), "a conflict"
        self.replicas, self.version = scale.spec_replicas, self.version + 1
        self.pods = {ordinal: self.pods.get(ordinal, pod(ordinal)) for ordinal in range(self.replicas)}
        return self.get_scale(name)

    def put(self, *subjects: PlainVPod) -> None:
        self.vpods.update({subject.key: subject for subject in subjects})

    def scheduler(self, capacity: int = 10, **changes: Any) -> StatefulSetScheduler:
        evictor = changes.pop("evictor", None)
        config = SchedulerConfig(
            options(capacity, **changes),
            self,
            lambda: list(self.vpods.values()),
            lambda: list(self.pods.values()),
            evictor=evictor,
        )
        return StatefulSetScheduler(config, clock=lambda: self.now)

    def write(self, key: Key, result: list[Placement]) -> None:
        self.put(with_placements(self.vpods[key], tuple(result)))


@pytest.mark.rule("vpod:V31")
def test_it_schedules_what_listers_show() -> None:
    world = World()
    scheduler = world.scheduler()
    assert isinstance(scheduler, Scheduler)
    assert scheduler.schedule(vpod("a/b", 5)) == list(make_placements(3, 2))
    assert scheduler.reserved() == {Key("a", "b"): {"set-0": 3, "set-1": 2}}
    scheduler.reserved().clear()
    assert scheduler.reserved()


class Source:
    """A consumer's own kind of vpod: read-only, and nothing beyond what Knative's has."""

    __slots__ = ("_wanted",)

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted

    @property
    def key(self) -> Key:
        return Key("a", "b")

    @property
    def vreplicas(self) -> int:
        return self._wanted

    @property
    def placements(self) -> tuple[Placement, ...]:
        return make_placements(1)

    @property
    def resource_version(self) -> str:
        return "1"

    @property
    def deletion_timestamp(self) -> str | None:
        return None


@pytest.mark.rule("vpod:V29", "vpod:V30")
def test_a_vpod_of_ones_own_is_listed_and_never_changed() -> None:
    world, source = World(), Source(4)
    config = SchedulerConfig(options(10), world, lambda: iter([source]), lambda: list(world.pods.values()))
    scheduler = StatefulSetScheduler(config, clock=lambda: 0.0)
    scheduler.promote()
    assert scheduler.reserved() == {source.key: {"set-0": 1}}  # what the lister shows
    assert scheduler.schedule(source) == list(make_placements(2, 2))
    assert (source.vreplicas, source.placements) == (4, make_placements(1))


@pytest.mark.rule("vpod:V30", "vpod:D3")
def test_a_lister_that_fails_fails_the_call_and_changes_nothing() -> None:
    world = World()
    fails = False

    def listed() -> list[PlainVPod]:
        if fails:
            raise ConnectionError("no list")
        return [vpod("a/b", 12, make_placements(10, 2))]

    config = SchedulerConfig(options(10), world, listed, lambda: list(world.pods.values()))
    scheduler = StatefulSetScheduler(config, clock=lambda: 0.0)
    scheduler.promote()
    fails = True
    with pytest.raises(ConnectionError):
        scheduler.schedule(vpod("a/b", 1, make_placements(10, 2)))
    with pytest.raises(ConnectionError):
        scheduler.autoscale(True)
    assert (scheduler.reserved(), world.replicas) == ({Key("a", "b"): {"set-0": 10, "set-1": 2}}, 2)


@pytest.mark.rule("vpod:V31")
def test_a_shortage_is_raised_with_what_could_be_placed() -> None:
    with pytest.raises(NotEnoughReplicas) as raised:
        World(1).scheduler().schedule(vpod("a/b", 12))
    assert (raised.value.placements, raised.value.left, raised.value.retry_after) == (list(make_placements(10)), 2, 5.0)


@pytest.mark.rule("vpod:V4")
def test_a_list_in_and_placements_out() -> None:
    scheduler = World().scheduler()
    decisions = scheduler.schedule_all([(vpod("a/b", 0), 15), (vpod("a/c", 0), 9)])
    assert isinstance(decisions, dict)
    assert {str(key): (d.placements, d.left) for key, d in decisions.items()} == {
        "a/b": (make_placements(8, 7), 0),
        "a/c": (make_placements(2, 3), 4),
    }


@pytest.mark.rule("vpod:V26-V36")
def test_the_package_offers_knatives_words() -> None:
    words = {
        *("POD_ANNOTATION_KEY", "total_vreplicas", "Evictor", "VPod", "VPodLister", "Scheduler", "SchedulerFunc"),
        *("as_scheduler", "ScaleClient", "Scale", "ScaleCache", "ScaleCacheConfig", "Placement", "Key"),
        *("placement_for_pod", "pod_count", "pod_name", "ordinal_of", "NotEnoughReplicas", "StatefulSetScheduler"),
    }
    assert words <= set(situate.vpod.__all__)
    assert all(getattr(situate.vpod, name) is not None for name in situate.vpod.__all__)
    assert situate.vpod.StatefulSetScheduler is StatefulSetScheduler
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        situate.vpod.Nonsense  # noqa: B018  # the access itself is what fails


@pytest.mark.rule("vpod:V31", "vpod:V32")
@pytest.mark.parametrize("is_awaitable", [False, True])
async def test_a_function_is_a_scheduler(is_awaitable: bool) -> None:
    calls: list[VPod] = []

    def plain(subject: VPod) -> list[Placement]:
        calls.append(subject)
        return list(make_placements(1))

    async def awaitable(subject: VPod) -> list[Placement]:
        return plain(subject)

    answer = as_scheduler(awaitable if is_awaitable else plain).schedule(vpod("a/b", 1))
    assert (answer if isinstance(answer, list) else await answer) == list(make_placements(1))
    assert len(calls) == 1


@pytest.mark.rule("vpod:V31")
def test_a_missing_lister_of_pods_is_an_error() -> None:
    with pytest.raises(ValueError, match="scheduler of StatefulSet ns/set: pod_lister is missing"):
        SchedulerConfig(options(10), World(), list)


@pytest.mark.rule("vpod:D3", "vpod:V33")
def test_a_failed_read_changes_no_reservation() -> None:
    world = World()
    world.put(vpod("a/b", 12, make_placements(10, 2)))
    scheduler = world.scheduler()
    scheduler.promote()
    before = scheduler.reserved()
    scheduler.scales.reset()
    world.fails = True
    with pytest.raises(ConnectionError):
        scheduler.schedule(world.vpods[Key("a", "b")])
    assert scheduler.reserved() == before
    world.fails = False
    assert scheduler.schedule(world.vpods[Key("a", "b")]) == list(make_placements(10, 2))


@pytest.mark.rule("vpod:D1", "vpod:B2")
def test_a_promotion_is_idempotent_and_moves_nothing() -> None:
    world = World()
    world.put(vpod("a/b", 12, make_placements(10, 2)), vpod("a/c", 3, make_placements(0, 3)))
    scheduler = world.scheduler()
    scheduler.promote()
    first = scheduler.reserved()
    scheduler.promote()
    assert (scheduler.is_leader, scheduler.reserved()) == (True, first)
    for subject in world.vpods.values():
        assert scheduler.schedule(subject) == list(subject.placements)
    scheduler.demote()
    assert not scheduler.is_leader
    assert scheduler.autoscale(True) is None


@pytest.mark.rule("vpod:D9", "vpod:S1")
def test_two_processes_do_not_overcommit_a_pod() -> None:
    world = World(1)
    world.put(vpod("a/a", 8), vpod("a/b", 8))
    one, other = world.scheduler(), world.scheduler()
    world.write(Key("a", "a"), list(one.schedule(world.vpods[Key("a", "a")])))  # type: ignore[arg-type]  # plain here
    with pytest.raises(NotEnoughReplicas) as raised:
        other.schedule(world.vpods[Key("a", "b")])
    assert raised.value.placements == list(make_placements(2))


@pytest.mark.rule("vpod:D24")
def test_a_resync_drops_what_is_gone() -> None:
    world = World()
    world.put(vpod("a/b", 2, make_placements(1, 1)))
    scheduler = world.scheduler()
    scheduler.promote()
    world.vpods.clear()
    scheduler.resync()
    assert scheduler.reserved() == {}


@pytest.mark.rule("vpod:D21", "vpod:D8", "vpod:S8", "vpod:V33")
def test_beats_drain_first_and_write_on_a_fresh_read() -> None:
    world = World(4)
    world.put(vpod("a/b", 20, make_placements(5, 5, 5, 5)))
    scheduler = world.scheduler(**AT_ONCE)
    scheduler.promote()
    world.version = 9  # somebody wrote the scale; the cache does not know
    scheduler.autoscale(True)
    assert world.replicas == 4
    world.write(Key("a", "b"), list(scheduler.schedule(world.vpods[Key("a", "b")])))  # type: ignore[arg-type]  # plain
    scheduler.autoscale(True)
    assert (world.replicas, world.vpods[Key("a", "b")].placements) == (2, make_placements(10, 10))


@pytest.mark.rule("vpod:V15", "vpod:V28")
def test_moves_go_through_the_evictor_that_was_supplied() -> None:
    world = World(3)
    world.put(vpod("a/b", 6, make_placements(2, 2, 2)))
    world.pods.pop(2)
    seen: list[tuple[str | None, Placement]] = []

    def evict(there: PodFacts | None, subject: VPod, placement: Placement) -> None:
        seen.append((None if there is None else there.name, placement))
        held = tuple(each for each in world.vpods[subject.key].placements if each != placement)
        world.put(replace(world.vpods[subject.key], placements=held))

    scheduler = world.scheduler(evictor=evict, **AT_ONCE)
    scheduler.promote()
    scheduler.autoscale(True)
    assert seen == [(None, Placement("set-2", 2)), ("set-1", Placement("set-1", 2))]
    assert scheduler.schedule(world.vpods[Key("a", "b")]) == list(make_placements(6))


def test_rebalance_is_opt_in_and_hands_out_what_to_write() -> None:
    world = World(3)
    world.put(vpod("a/b", 6, make_placements(6)))
    scheduler = world.scheduler(rebalance=RebalanceOptions(enabled=True, max_moves_per_vpod=9, max_moves=9))
    assert scheduler.rebalance() == {}, "a follower moves nothing"
    scheduler.promote()
    assert scheduler.rebalance() == {Key("a", "b"): list(make_placements(2, 2, 2))}
    assert scheduler.rebalance() == {}, "the interval is not over"


async def test_awaitable_callables_give_awaitable_answers_one_after_the_other() -> None:
    world = World()
    world.put(vpod("a/b", 12, make_placements(10, 2)))

    class Client:
        async def get_scale(self, name: str, options: Mapping[str, str] | None = None) -> Scale:
            await asyncio.sleep(0)
            return world.get_scale(name)

        async def update_scale(self, name: str, scale: Scale, options: Mapping[str, str] | None = None) -> Scale:
            await asyncio.sleep(0)
            return world.update_scale(name, scale)

    async def pods() -> list[PodFacts]:
        await asyncio.sleep(0)
        return list(world.pods.values())

    async def vpods() -> list[PlainVPod]:
        await asyncio.sleep(0)
        return list(world.vpods.values())

    scheduler = StatefulSetScheduler(SchedulerConfig(options(10), Client(), vpods, pods), clock=lambda: 0.0)
    promotion = asyncio.ensure_future(scheduler.promote())  # type: ignore[arg-type]  # awaitable here
    await asyncio.sleep(0)
    # a schedule that arrives before the promotion is complete waits for it
    waiting = scheduler.schedule(world.vpods[Key("a", "b")])
    assert not isinstance(waiting, list)
    assert await waiting == list(make_placements(10, 2))
    assert promotion.done()
    with pytest.raises(NotEnoughReplicas):
        await scheduler.schedule(vpod("a/c", 9))  # type: ignore[misc]  # awaitable here


def test_the_loop_beats_retries_and_ends_when_it_is_cancelled() -> None:
    world = World(1)
    world.put(vpod("a/b", 35))

    async def play() -> None:
        loop = asyncio.get_running_loop()
        config = SchedulerConfig(
            options(10, profile=Profile.REFERENCE),
            world,
            lambda: list(world.vpods.values()),
            lambda: list(world.pods.values()),
        )
        scheduler = StatefulSetScheduler(config, clock=loop.time)
        scheduler.promote()
        world.fails = True
        scheduler.scales.reset()
        running = asyncio.create_task(scheduler.run())
        await asyncio.sleep(5)
        assert world.replicas == 1
        world.fails = False
        await asyncio.sleep(1)
        assert world.replicas == 4
        world.put(vpod("a/b", 5))
        await asyncio.sleep(100)
        assert world.replicas == 1
        running.cancel()
        await asyncio.wait([running], timeout=1)
        assert running.done()

    loop = looptime.new_event_loop()
    try:
        loop.run_until_complete(play())
    finally:
        loop.close()
