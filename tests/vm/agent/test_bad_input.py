"""Whatever schedulers, guests, files and objects say, the answer is a value (F5, and the issue's bad input)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.unstructured import Unstructured
from situate.vm.agent.decide.goal import SystemMetrics, goal
from situate.vm.agent.decide.scaling import Scaling, scaling_with_overrides
from situate.vm.agent.protocol.machines import parse_machine
from situate.vm.agent.protocol.monitor_protocol import InvalidMessage, MonitorMessage, handshake_error, parse_message
from situate.vm.agent.protocol.permits import BadAnswer, PermitResponse, parse_answer
from situate.vm.agent.protocol.samples import NoMetrics, parse_load
from situate.vm.api.parse_errors import Place
from tests.vm.agent.builders import UNIT, vm_content

NUMBERS = st.one_of(st.integers(), st.floats(), st.integers(10**18, 10**40), st.booleans(), st.none())
TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(["1Gi", "250m", "-1", "1e99", "NaN", "0"]))
JSON = st.recursive(
    st.one_of(NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)


def in_an_object(value: Any) -> bool:
    """Whether an API server can store the value: JSON has neither infinity nor NaN."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def mappings(*keys: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(keys), JSON, max_size=len(keys))


@pytest.mark.rule("vm:F5")
@given(
    st.integers(100, 599), st.one_of(st.binary(max_size=80), st.builds(lambda body: json.dumps(body).encode(), JSON))
)
def test_any_answer_of_a_scheduler(status: int, body: bytes) -> None:
    assert isinstance(parse_answer(status, body), PermitResponse | BadAnswer)


@pytest.mark.rule("vm:F5")
@given(mappings("vCPUs", "mem"), mappings("migrate", "reason", "retryAfterMs", "plan", "expires"))
def test_any_permit_of_a_scheduler(permit: dict[str, Any], more: dict[str, Any]) -> None:
    found = parse_answer(200, json.dumps({"permit": permit, **more}).encode())
    assert isinstance(found, BadAnswer) or found.retry_after_ms is None or 0 <= found.retry_after_ms <= 60_000


@pytest.mark.rule("vm:C35")
@given(st.one_of(st.text(max_size=60), st.builds(json.dumps, mappings("type", "id", "content", "version", "error"))))
def test_any_message_of_a_monitor(text: str) -> None:
    assert isinstance(parse_message(text), MonitorMessage | InvalidMessage)
    assert isinstance(handshake_error(text), str)


@pytest.mark.rule("vm:C36")
@given(mappings("load1", "load5", "memoryUsed", "memoryCached", "workingSetPages"))
def test_any_load_can_be_reckoned_with_or_is_named(value: dict[str, Any]) -> None:
    found = parse_load(value, Place("VirtualMachine a/b", "load"))
    assert isinstance(found, NoMetrics) or goal(Scaling(), UNIT, found.system, found.cache).units >= 0


@pytest.mark.rule("vm:C37")
@given(st.floats(0, 2**60), st.floats(0, 2**60), st.floats(0, 2**60))
def test_any_load_has_a_goal(load1: float, load5: float, used: float) -> None:
    assert goal(Scaling(), UNIT, SystemMetrics(load1, load5, used), None).units >= 0


@given(st.one_of(JSON, mappings("loadAverageFractionTarget", "enableLFCMetrics", "lfcWindowSizeMinutes")))
def test_any_overrides_of_a_machine(overrides: Any) -> None:
    scaling, mistakes = scaling_with_overrides(Scaling(), overrides, "here")
    assert (scaling is None) == bool(mistakes)


@given(
    st.sampled_from(
        [("spec",), ("status",), ("spec", "guest"), ("spec", "guest", "cpus"), ("spec", "guest", "memorySlots")]
    ),
    JSON.filter(in_an_object),
    st.one_of(TEXTS, st.builds(json.dumps, JSON)),
)
def test_any_machine_is_read_or_named(path: tuple[str, ...], value: Any, annotation: str) -> None:
    content = vm_content()
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    annotations = {f"autoscaling.neon.tech/{name}": annotation for name in ("bounds", "config")}
    meta = ObjectMeta(name="a", namespace="default", annotations=annotations)
    found = parse_machine(Unstructured(meta, json.dumps(content).encode()), Scaling())
    assert found.value is not None or found.errors
