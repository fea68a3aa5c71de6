"""`POST /resize` without its wire: which requests are none, which are refused at once, and what is noted (B34, B36)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from situate.vm.api.nodes import read_node
from situate.vm.api.quantities import ContainerResizeRequest
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.policy import Rules
from situate.vm.protocol.permit_request import HttpAnswer
from situate.vm.protocol.resize_request import ResizeRequest, annotation_text, read_request, resize_refusal
from tests.vm.objects import container, node, pod

SIDECAR = {**container("side"), "restartPolicy": "Always"}
WEB = pod("web", container("app"), nodeName="n1", initContainers=[container("first"), SIDECAR])


def asked(**wish: Any) -> ResizeRequest:
    read = read_request(json.dumps({"pod": {"namespace": "default", "name": "web"}, **wish}).encode())
    assert isinstance(read, ResizeRequest), read
    return read


def answer(request: ResizeRequest) -> HttpAnswer | None:
    return resize_refusal(request, WEB, read_node(node("n1", "4", "16Gi"), Rules()).value)


@pytest.mark.rule("vm:B34", "vm:B33", "vm:B36")
@pytest.mark.parametrize(
    ("wish", "words"),
    [
        pytest.param({"cpu": 2}, "", id="the only container"),
        pytest.param({"cpu": 2, "container": "side"}, "", id="a sidecar"),
        pytest.param({"cpu": 2, "container": "first"}, "InitContainer", id="an init container"),
        pytest.param({"cpu": 2, "container": "x"}, "allowed: one of app, side", id="no such one"),
        pytest.param({"cpu": 5}, "at most 4", id="above the node"),
        pytest.param({"cpu": 2, "example.com/gpu": 1}, "OtherResource", id="something else as well"),
        pytest.param({"ephemeral-storage": "1Gi"}, "OtherResource", id="something else alone"),
    ],
)
def test_what_goes_on_and_what_is_refused_at_once(wish: dict[str, Any], words: str) -> None:
    found = answer(asked(**wish))
    if not words:
        assert found is None
        return
    assert found is not None
    assert found.status == 400
    assert words in found.text


@pytest.mark.rule("vm:B34")
def test_a_wish_is_noted_in_one_way() -> None:
    wish = asked(cpu="1500m", memory="2048Mi", container="side", step={"memory": "512Mi"}).container_request
    assert wish == ContainerResizeRequest("side", 1500, 2 * 2**30, 0, 2**29)
    assert annotation_text(wish) == '{"container":"side","cpu":"1500m","memory":"2Gi","step":{"memory":"512Mi"}}'
    assert asked(cpu=2).pod == Ref("default", "web")


HUGE = "9" * 190
BAD: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "JSON"),
    "broken": (b'{"pod":', "JSON"),
    "deep": (b"[" * 1000, "JSON"),
    "a list": (b"[]", "mapping"),
    "no pod": (b'{"cpu":1}', "pod.namespace"),
    "too long": (json.dumps({"pod": {"namespace": "x" * 2000}}).encode(), "1024"),
    **{
        f"cpu {text[:20]}": (
            f'{{"pod":{{"namespace":"default","name":"web"}},"cpu":{text}}}'.encode(),
            "cpu",
        )
        for text in (
            "0",
            "-1",
            "true",
            "[]",
            "1E999999999",
            '"1E999999999"',
            '"1e-999999999"',
            '"NaN"',
            HUGE,
            f'"{HUGE}"',
            f'"0.{HUGE}E200"',
            f'"{HUGE}Ei"',
        )
    },
}


@pytest.mark.rule("vm:B34", "vm:F5")
@pytest.mark.parametrize(("body", "words"), BAD.values(), ids=BAD)
def test_a_request_that_is_none_is_answered_with_what_is_wrong(body: bytes, words: str) -> None:
    read = read_request(body)
    assert isinstance(read, HttpAnswer)
    assert read.status == 400
    assert words in read.text
    assert len(read.text) < 600


@pytest.mark.rule("vm:B34")
def test_half_a_character_is_noted_with_a_sign_for_it() -> None:
    wish = asked(cpu=2, container="\ud800").container_request
    assert annotation_text(wish) == '{"container":"\ufffd","cpu":2}'
