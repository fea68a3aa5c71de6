"""Metrics of a process with more than one scheduler."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from situate.framework.engine.engine import Engine
from situate.scheduler.metrics.metrics import SchedulerMetrics
from tests.framework.clusters import a_node, a_pod, default_profile


def test_pods_of_all_schedulers_of_a_process_are_added_up_and_its_cluster_is_counted_once() -> None:
    registry = CollectorRegistry()
    metrics = SchedulerMetrics(registry)
    engines = [Engine([default_profile()]) for _ in range(2)]
    for number, engine in enumerate(engines):
        engine.set_node(a_node("n1"), 0.0)
        for each in range(number + 1):
            engine.set_pod(a_pod(f"waits-{number}-{each}", "1"), 0.0)
        metrics.add_engine(lambda engine=engine: engine)  # type: ignore[misc]  # the default binds it here
    metrics.add_engine(lambda: None)

    assert registry.get_sample_value("scheduler_pending_pods", {"queue": "active"}) == 3.0
    assert registry.get_sample_value("scheduler_cache_size", {"type": "nodes"}) == 1.0
