"""Plugins that are stood in for decide as they do, and a tenth of the cycles says how long each takes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from situate.framework.cycle.cycle import PluginFailed
from situate.framework.cycle.handle import Handle
from situate.framework.engine.decisions import Placed, Refused, Waiting
from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.plugin import FilterPlugin, NormalizePlugin, PostFilterPlugin, Reads, ScorePlugin
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import Profile, plugins_of, profile_of
from situate.framework.results.status import Code, Status
from situate.framework.results.verdict import Verdict, pass_all
from situate.framework.snapshot.snapshot import Snapshot
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.priority_sort import PrioritySort
from situate.scheduler.metrics.metrics import SchedulerMetrics
from situate.scheduler.metrics.plugin_timing import PluginTimes
from situate.testing.scheduler.world import default_setup
from tests.framework.engine.test_engine import Binder, Recorder, node, pod


class Always(random.Random):
    """Draws what it is told."""

    def __init__(self, drawn: float) -> None:
        super().__init__(1)
        self._drawn = drawn

    def random(self) -> float:
        return self._drawn


class Seen:
    """Times of an engine whose stopwatch goes on by a second at each look."""

    def __init__(self, *plugins: Any, drawn: float = 0.0) -> None:
        self.registry = CollectorRegistry()
        ticks = count()
        self.times = PluginTimes(SchedulerMetrics(self.registry), lambda: float(next(ticks)), Always(drawn))
        listed: Sequence[Any] = (PrioritySort(), NodeResourcesFit(), *plugins, Binder())
        self.profile = profile_of("here", [(each, 1) for each in listed])
        self.engine = Engine([self.times.with_timed_plugins(self.profile)])

    def schedule(self) -> object:
        self.times.begin()
        decision = self.engine.schedule(0)
        self.times.end()
        return decision

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def point(self, name: str, status: str = "Success") -> float | None:
        """Seconds."""
        labels = {"extension_point": name, "status": status, "profile": "here"}
        return self.value("scheduler_framework_extension_point_duration_seconds_sum", **labels)

    def plugin(self, plugin: str, point: str, status: str = "Success") -> float | None:
        """Calls."""
        labels = {"plugin": plugin, "extension_point": point, "status": status}
        return self.value("scheduler_plugin_execution_duration_seconds_count", **labels)

    def evaluations(self, plugin: str, point: str) -> float | None:
        return self.value("scheduler_plugin_evaluation_total", plugin=plugin, extension_point=point, profile="here")


class Busy(Recorder):
    """At more extension points."""

    def filter(self, state: object, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        return pass_all(snapshot.count)

    def pre_bind_preflight(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Status:
        return Status(Code.SKIP)

    def pre_bind(self, pod: PodInfo, node: str, snapshot: Snapshot) -> tuple[()]:
        return ()


def test_a_sampled_cycle_tells_how_long_each_plugin_took_and_their_points() -> None:
    seen = Seen(Busy("Busy"))
    seen.engine.set_node(node("a"), 0)
    seen.engine.set_pod(pod("p"), 0)
    placed = seen.schedule()
    assert isinstance(placed, Placed)
    assert seen.plugin("Busy", "Filter") == seen.point("Filter") == 1
    assert seen.plugin("Busy", "Reserve") == seen.plugin("Busy", "Permit") == 1
    assert seen.point("Reserve") == seen.point("Permit") == 1.0
    assert seen.point("PostFilter") is None
    seen.times.begin()
    seen.engine.binding(placed)
    seen.times.end()
    assert seen.point("PreBindPreFlight", "Skip") == 1.0


def test_a_cycle_that_is_not_sampled_only_counts() -> None:
    seen = Seen(Busy("Busy"), drawn=0.1)
    seen.engine.set_node(node("a"), 0)
    for name in ("p", "q"):
        seen.engine.set_pod(pod(name, "100m"), 0)
        assert isinstance(seen.schedule(), Placed)
    assert seen.evaluations("Busy", "Filter") == 2
    assert seen.plugin("Busy", "Filter") is None
    assert seen.point("Filter") is None


def test_a_tenth_is_sampled() -> None:
    ticks = count()
    registry = CollectorRegistry()
    times = PluginTimes(SchedulerMetrics(registry), lambda: float(next(ticks)), random.Random(7))
    engine = Engine(
        [times.with_timed_plugins(profile_of("here", [(PrioritySort(), 1), (Busy("Busy"), 1), (Binder(), 1)]))]
    )
    engine.set_node(node("a", cpu="1000"), 0)
    for number in range(1000):
        engine.set_pod(pod(str(number), "1m"), 0)
        times.begin()
        engine.schedule(0)
        times.end()
    name = "scheduler_plugin_execution_duration_seconds_count"
    labels = {"plugin": "Busy", "extension_point": "Reserve", "status": "Success"}
    sampled = registry.get_sample_value(name, labels)
    assert sampled is not None
    assert 60 <= sampled <= 140


def test_what_a_plugin_says_is_the_status() -> None:
    class Strict(Busy):
        def filter(self, state: object, pod: PodInfo, snapshot: Snapshot) -> Verdict:
            if pod.name == "unlucky":
                raise ZeroDivisionError("oh")
            return super().filter(state, pod, snapshot)

    seen = Seen(Strict("Strict", permit=Status(Code.WAIT)))
    seen.engine.set_node(node("a", cpu="10"), 0)
    seen.engine.set_pod(pod("held"), 0)
    assert isinstance(seen.schedule(), Waiting)
    assert seen.point("Permit", "Wait") == 1.0
    seen.engine.set_pod(pod("unlucky"), 0)
    failed = seen.schedule()
    assert 'running Filter plugin "Strict": ZeroDivisionError: oh' in str(failed)
    assert seen.plugin("Strict", "Filter", "Error") == 1
    assert seen.point("Filter", "Error") is not None
    refusing = Seen(Recorder("No", reserve=Status(Code.UNSCHEDULABLE, ("no",))))
    refusing.engine.set_node(node("a"), 0)
    refusing.engine.set_pod(pod("p"), 0)
    assert isinstance(refusing.schedule(), Refused)
    assert refusing.point("Reserve", "Unschedulable") == 1.0
    assert refusing.plugin("No", "Unreserve") == 1


def test_what_preemption_tries_out_is_post_filters_time() -> None:
    class Tries:
        name = "Tries"

        def post_filter(self, pod: PodInfo, diagnosis: Any, cycle: Any) -> Any:
            fit = next(each for each in cycle.profile.filter if each.name == "Busy")
            fit.filter(None, pod, diagnosis.snapshot)
            raise PluginFailed("Tries", "PostFilter", "enough")

    seen = Seen(Busy("Busy"), Tries())
    seen.engine.set_node(node("a"), 0)
    seen.engine.set_pod(pod("big", "2"), 0)
    seen.schedule()
    calls = seen.plugin("Busy", "Filter")
    assert calls is not None
    assert calls >= 2
    filtering, trying = seen.point("Filter"), seen.point("PostFilter", "Error")
    assert (filtering, trying) == (calls - 1 + (seen.plugin("NodeResourcesFit", "Filter") or 0), 3.0)


@dataclass(frozen=True)
class Curious:
    """Wants a handle."""

    handle: Handle | None = None
    name = "Curious"
    reads = Reads.NODE

    def with_handle(self, handle: Handle) -> Curious:
        return replace(self, handle=handle)

    def filter(self, state: object, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        assert self.handle is not None
        return pass_all(snapshot.count)


def test_a_plugin_with_a_handle_is_timed_as_well() -> None:
    seen = Seen(Curious())
    seen.engine.set_node(node("a"), 0)
    seen.engine.set_pod(pod("p"), 0)
    assert isinstance(seen.schedule(), Placed)
    assert seen.plugin("Curious", "Filter") == 1


@pytest.mark.parametrize("protocol", [FilterPlugin, ScorePlugin, NormalizePlugin, PostFilterPlugin])
def test_a_stand_in_shows_what_its_plugin_shows_and_no_more(protocol: type) -> None:
    (profile,) = default_setup().profiles
    timed = Seen().times.with_timed_plugins(profile)

    def shown(of: Profile) -> list[tuple[str, bool, object]]:
        return [(each.name, isinstance(each, protocol), getattr(each, "reads", None)) for each in plugins_of(of)]

    assert shown(timed) == shown(profile)
    for each, stand_in in zip(plugins_of(profile), plugins_of(timed), strict=True):
        public = [name for name in dir(each) if not name.startswith("_")]
        assert public == [name for name in dir(stand_in) if not name.startswith("_")]
