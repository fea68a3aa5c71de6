"""What guests, annotations and files say of a load (C36)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from situate.vm.agent.decide.goal import CacheMetrics, SystemMetrics
from situate.vm.agent.protocol.samples import (
    UNREPORTED_MEMORY,
    WINDOWS,
    LoadMetrics,
    NoMetrics,
    Sample,
    cache_metrics,
    parse_load_text,
    samples_of_machine,
    system_metrics,
)
from situate.vm.api.parse_errors import Place
from situate.vm.model.pods_and_nodes import Ref

pytestmark = pytest.mark.rule("vm:C36")

HOST = {
    "host_load1": 1.5,
    "host_load5": 1.0,
    "host_memory_total_bytes": 4e9,
    "host_memory_available_bytes": 3e9,
    "host_memory_cached_bytes": 5e8,
}


def samples(**changed: float) -> list[Sample]:
    return [Sample(name, {}, value) for name, value in {**HOST, **changed}.items()]


def windows(values: dict[Any, float]) -> list[Sample]:
    return [Sample(WINDOWS, {"duration_seconds": str(key)}, value) for key, value in values.items()]


def test_memory_in_use_is_what_is_not_available_and_what_a_guest_does_not_tell_of() -> None:
    assert system_metrics(samples()) == SystemMetrics(1.5, 1.0, 1e9 + UNREPORTED_MEMORY, 5e8)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_what_is_no_measurement_is_named(value: float) -> None:
    found = system_metrics(samples(host_load5=value))
    assert isinstance(found, NoMetrics)
    assert "host_load5" in found.why


def test_what_is_missing_is_named() -> None:
    assert system_metrics(samples()[:4]) == NoMetrics("metric host_memory_cached_bytes is missing")


def test_windows_are_a_minute_apart() -> None:
    assert cache_metrics(windows({"120": 20.0, "60": 10.0, "180.0": 30.0})) == CacheMetrics((10.0, 20.0, 30.0))


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({}, "is missing"),
        ({60: 1.0, 180: 2.0}, "has duration_seconds 180, expected 120"),
        ({"x": 1.0}, "is not a number"),
        ({60: math.nan}, "of 60 s is nan"),
    ],
)
def test_other_windows_are_none(found: dict[Any, float], why: str) -> None:
    said = cache_metrics(windows(found))
    assert isinstance(said, NoMetrics)
    assert why in said.why


def test_an_endpoint_may_speak_of_many_machines() -> None:
    several = [
        Sample("host_load1", {"namespace": "a", "name": "x"}, 1.0),
        Sample("host_load1", {"namespace": "a", "name": "y"}, 2.0),
        Sample("host_load5", {}, 3.0),
    ]
    assert [each.value for each in samples_of_machine(several, Ref("a", "y"))] == [2.0, 3.0]


def test_a_load_in_words() -> None:
    text = '{"load1": 2, "memoryUsed": "1Gi", "memoryCached": "1Mi", "workingSetPages": [1, 2.5]}'
    want = LoadMetrics(SystemMetrics(2.0, 2.0, 2.0**30, 2.0**20), CacheMetrics((1.0, 2.5)))
    assert parse_load_text(text, Place("x", "y")) == want


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "JSON"),
        ("[]", "a mapping"),
        ("{}", "load1"),
        ('{"load1": "high"}', "a number"),
        ('{"load1": 1, "memoryUsed": "much"}', "memoryUsed"),
        ('{"load1": -1}', "from 0"),
        pytest.param('{"load1": 1%s}' % ("0" * 400), "from 0 to 2^60", id="more than a float holds"),
        pytest.param('{"load1": 1, "workingSetPages": [1%s]}' % ("0" * 400), "from 0 to 2^60", id="pages as well"),
        ('{"load1": 1, "workingSetPages": 7}', "a list"),
    ],
)
def test_a_load_that_makes_no_sense_is_named(text: str, why: str) -> None:
    found = parse_load_text(text, Place("VirtualMachine a/b", "load"))
    assert isinstance(found, NoMetrics)
    assert why in found.why
