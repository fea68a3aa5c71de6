"""The page on metrics lists exactly what the parts of situate register, with types and labels."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from situate.kube.events import EventCounts
from situate.runtime.metrics import Metrics
from situate.scheduler.metrics.metrics import SchedulerMetrics
from situate.scheduler.shadow.service import ShadowNotifier
from situate.sharding.model.executors import Members
from situate.sharding.supervisor.controller.act.metrics import Counts, Figures, ShardMetrics
from situate.spot.capacity.headroom import WaveCapacity
from situate.spot.controller.metrics import MoveMetrics
from situate.spot.rebalance.decide import ClusterView, State, decide
from situate.spot.server.metrics import AdmissionMetrics
from situate.vm.agent.controller.metrics import AgentMetrics
from situate.vm.controller.metrics import VmMetrics
from situate.vm.server.metrics import PermitMetrics
from situate.vpod.controller.notify import VPodMetrics
from tests.spot.builders import NOW, cluster, owner, pods
from tests.spot.report.test_plan import Always

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
OURS = re.compile(r"situate_\w+|scheduler_\w+|kn_eventing_\w+|autoscaling_plugin_\w+")


class Shown:
    """A supervisor that has everything to show."""

    counts = Counts()

    def figures(self) -> Figures:
        return Figures(Members(15.0), 0.0, {}, 0, 0.0, desired_executors=1, table_version=1)


def process(registry: CollectorRegistry) -> None:
    metrics = Metrics()
    recorder: Any = SimpleNamespace(counts=EventCounts())
    metrics.add_events(recorder)

    class Same(Collector):
        def collect(self) -> Any:
            return metrics.registry.collect()

    registry.register(Same())


def scheduler(registry: CollectorRegistry) -> None:
    SchedulerMetrics(registry)
    ShadowNotifier(registry, None)


def spot(registry: CollectorRegistry) -> None:
    AdmissionMetrics(registry)
    moves = MoveMetrics(registry)
    situation = ClusterView(cluster(owner(2), pods("od:1 spot:1")), Always())
    deque(moves.observe_decision(decide(State(), situation, NOW), situation, NOW), maxlen=0)
    moves.set_wave_capacity(WaveCapacity(0, (), {}))


def vm(registry: CollectorRegistry, *, compat: bool = False) -> None:
    VmMetrics(registry, compat=compat)
    PermitMetrics(registry, compat=compat)


def sharding(registry: CollectorRegistry) -> None:
    registry.register(ShardMetrics(Shown(), "situate/reports"))


PARTS: dict[str, Callable[[CollectorRegistry], object]] = {
    "Process": process,
    "scheduler": scheduler,
    "vpod": VPodMetrics,
    "spot": spot,
    "vm": vm,
    "vm agent": AgentMetrics,
    "sharding": sharding,
}


def families(part: str) -> dict[str, Metric]:
    """By the name that is scraped."""
    registry = CollectorRegistry()
    PARTS[part](registry)
    return {
        f"{family.name}_total" if family.type == "counter" else family.name: family
        for family in registry.collect()
        if OURS.fullmatch(family.name)
    }


def section(part: str) -> str:
    return PAGE[PAGE.index(f"\n## {part}\n") :].split("\n## ", 2)[1]


def rows(part: str) -> dict[str, list[str]]:
    """By the metric the other cells of its row."""
    lines = [line for line in section(part).splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name.strip("`"): others for name, *others in cells}


@pytest.mark.parametrize("part", PARTS)
def test_the_metrics_are_those_that_are_registered(part: str) -> None:
    assert {name: others[0] for name, others in rows(part).items()} == {
        name: family.type for name, family in families(part).items()
    }


@pytest.mark.parametrize("part", PARTS)
def test_labels_that_are_shown_are_on_the_page(part: str) -> None:
    told = {name: re.findall(r"`(\w+)`", others[1]) for name, others in rows(part).items()}
    for name, family in families(part).items():
        for sample in family.samples:
            shown = set(sample.labels) - {"le"}
            assert shown == set(told[name]), name


def test_labels_are_those_that_the_code_gives() -> None:
    """Also of families that show nothing before something has happened: the label stands in the code."""
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "situate").rglob("*metrics*.py"))
    code += "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "situate").rglob("notify.py"))
    code += (ROOT / "src/situate/scheduler/shadow/service.py").read_text(encoding="utf-8")
    code += "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/situate/scheduler/metrics").rglob("*.py"))
    labels = {label for part in PARTS for others in rows(part).values() for label in re.findall(r"`(\w+)`", others[1])}
    assert not [label for label in sorted(labels) if f'"{label}"' not in code]


def test_names_of_the_reference_are_those_that_compat_adds() -> None:
    registry = CollectorRegistry()
    vm(registry, compat=True)
    added = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in registry.collect()
        if family.name.startswith("autoscaling_plugin_")
    }
    assert set(re.findall(r"`(autoscaling_plugin_\w+[a-z])`", PAGE)) == added


@pytest.mark.parametrize("page", ["monitor", "troubleshoot", "high-availability", "sizing", "upgrade"])
def test_metrics_that_guides_name_exist(page: str) -> None:
    text = (ROOT / "docs" / "guides" / "operate" / f"{page}.md").read_text(encoding="utf-8")
    known = {name for part in PARTS for name in rows(part)}
    assert not set(re.findall(r"\b(?:situate|scheduler)_[a-z_]+", text)) - known
