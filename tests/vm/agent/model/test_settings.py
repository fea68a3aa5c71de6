"""The configuration of an agent: what the reference ships, and every mistake by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from situate.objects.settings.schema import to_plain_data
from situate.objects.settings.section import parse_section
from situate.vm.agent.decide.scaling import Scaling, scaling_with_overrides
from situate.vm.agent.model.settings import AgentSettings
from tests.vm.agent.builders import UNIT

SHIPPED = json.loads(
    (Path(__file__).parents[3] / "conformance" / "vectors" / "neon" / "config_defaults.json").read_text()
)["agent"]


def mistakes(data: Any) -> list[str]:
    settings, found = parse_section(data, AgentSettings)
    assert (settings is None) == bool(found)
    return [each.path for each in found]


@pytest.mark.rule("vm:C35", "vm:C37", "vm:C39")
def test_defaults_are_those_that_the_reference_ships() -> None:
    def within(shipped: Any, ours: Any) -> bool:
        if isinstance(shipped, dict):
            return all(within(value, ours[key]) for key, value in shipped.items())
        return bool(shipped == ours)

    assert within(SHIPPED, to_plain_data(AgentSettings()))
    assert AgentSettings().compute_unit.amounts == UNIT


def test_the_shipped_file_is_read() -> None:
    assert parse_section(SHIPPED, AgentSettings) == (AgentSettings(), ())


def test_the_tick_is_shorter_by_the_jitter() -> None:
    assert AgentSettings().config(jitter_ms=37).plugin_tick_ms == 15_000 - 37


def test_every_mistake_is_named() -> None:
    wrong = {
        "computeUnit": {"vCPUs": 0, "mem": "much"},
        "loadAverageFractionTarget": 0,
        "lfcWindowSizeMinutes": "5",
        "notAField": 1,
        "scheduler": {"requestTimeoutSeconds": 0, "url": "ftp://x"},
        "monitor": {"kind": "telepathy"},
        "metrics": {"source": "file", "endpoint": "http://x:1/"},
    }
    assert mistakes(wrong) == [
        "computeUnit.vCPUs",
        "computeUnit.mem",
        "loadAverageFractionTarget",
        "lfcWindowSizeMinutes",
        "notAField",
        "scheduler.requestTimeoutSeconds",
        "scheduler.url",
        "monitor.kind",
        "metrics.file",
        "metrics.endpoint",
    ]


@pytest.mark.rule("vm:C37")
@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"lfcWindowSizeMinutes": 1}, "lfcWindowSizeMinutes"),
        ({"lfcMinWaitBeforeDownscaleMinutes": 4}, "lfcMinWaitBeforeDownscaleMinutes"),
    ],
)
def test_windows_without_a_slope_are_refused(data: dict[str, Any], path: str) -> None:
    assert mistakes(data) == [path]


def test_a_machine_overrides_what_it_names() -> None:
    defaults = Scaling(memory_usage_fraction_target=0.5)
    scaling, found = scaling_with_overrides(
        defaults, {"loadAverageFractionTarget": 0.4, "enableLFCMetrics": True}, "here"
    )
    assert found == ()
    assert scaling == Scaling(
        memory_usage_fraction_target=0.5, load_average_fraction_target=0.4, enable_lfc_metrics=True
    )


@pytest.mark.parametrize("overrides", [{"loadAverage": 1}, {"loadAverageFractionTarget": "x"}, [], "text", None])
def test_what_a_machine_says_wrongly_is_named(overrides: Any) -> None:
    scaling, found = scaling_with_overrides(Scaling(), overrides, "here")
    assert scaling is None
    assert found[0].path.startswith("here")
