from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from situate.kube.client import Client
from situate.kube.election.election import ElectionChange, ElectionEvent
from situate.kube.election.lease_record import LeaseName
from situate.kube.events import NORMAL, EventRecorder
from situate.kube.watch.reflector import Reflector, WatchOutcome
from situate.kube.watch.store import Store
from situate.objects.kinds.events import ObjectReference
from situate.objects.kinds.pods import Pod
from situate.objects.resources import PODS
from situate.runtime.metrics import Metrics
from situate.runtime.reconcile.reconciler import Attempt, Verdict
from situate.runtime.reconcile.workqueue import WorkQueue
from situate.testing.virtual_time.processes import World
from tests.kube.hostile_server import HostileServer


def virtually(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with World() as world:
        world.run(main)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_observers_count_under_closed_labels() -> None:
    metrics = Metrics()
    observe = metrics.observe_attempts("vpod")
    observe(Attempt("a", Verdict.SUCCESS, 0.2, None, None))
    observe(Attempt("b", Verdict.TERMINAL, 0.2, None, ValueError()))
    assert value(metrics, "situate_reconciliations_total", controller="vpod", verdict="success") == 1
    assert value(metrics, "situate_reconciliation_duration_seconds_count", controller="vpod") == 2
    metrics.observe_watch("pods")(WatchOutcome.EXPIRED)
    assert value(metrics, "situate_watch_connections_total", resource="pods", outcome="expired") == 1
    metrics.observe_reload(accepted=False)
    assert value(metrics, "situate_configuration_rejected") == 1


def test_leading_follows_the_news() -> None:
    metrics, lease = Metrics(), LeaseName("situate", "spot")
    seen = []
    for change in (
        ElectionChange.ACQUIRED,
        ElectionChange.FAILED,
        ElectionChange.RENEWED,
        ElectionChange.LOST,
        ElectionChange.FAILED,
    ):
        metrics.observe_election(ElectionEvent(change, lease))
        seen.append(value(metrics, "situate_leading", lease="situate/spot"))
    assert seen == [1, 1, 1, 0, 0]


def test_totals_are_read_when_somebody_scrapes() -> None:
    async def main() -> None:
        server = HostileServer()
        server.put("/api/v1/namespaces/default/pods/a")
        server.put("/api/v1/namespaces/default/pods/bad", {"spec": {"priority": "high"}})
        client, rng = Client(server), random.Random(1)
        metrics, queue = Metrics(), WorkQueue[str](rng=rng)
        reflector = Reflector(client, PODS, Store[Pod]("pods"), rng=rng)
        recorder = EventRecorder(client, "x", "y", wall_clock=lambda: datetime.now(UTC), rng=rng)
        metrics.add_queue("vpod", queue)
        metrics.add_reflector(reflector)
        metrics.add_events(recorder)
        tasks = [asyncio.create_task(reflector.run())]
        await reflector.store.wait_synced()
        queue.add("a")
        recorder.record(ObjectReference(kind="Pod", name="a"), NORMAL, "X", "x")
        assert value(metrics, "situate_workqueue_keys", queue="vpod", state="queued") == 1
        assert value(metrics, "situate_watch_objects", resource="pods") == 1
        assert value(metrics, "situate_watch_unreadable", resource="pods") == 1
        assert value(metrics, "situate_watch_listings_total", resource="pods") == 1
        assert value(metrics, "situate_events_total", fate="recorded") == 1
        assert b"# HELP situate_watch_objects Objects in the local store of the watch." in metrics.render()
        for task in tasks:
            task.cancel()

    virtually(main)
