"""What the demo's chapters ask of what they see, and what they are told of a node: values, without a cluster."""

from __future__ import annotations

import pytest

from situate.cli.demo.spot.demo_client import node_state
from situate.cli.demo.spot.objects import NOTICE_TAINT, SHUTDOWN_TAINT
from situate.cli.demo.vpod.scene import DemoPod, DemoSource, VpodScene
from situate.objects.kinds.meta import Condition
from situate.objects.kinds.nodes import Node, NodeSpec, NodeStatus, Taint


def scene(wanted: int, pods: int, replicas: int, *, capacity: int = 8) -> VpodScene:
    listed = tuple(DemoPod(f"d-{number}", number, "demo-a", "Running") for number in range(pods))
    return VpodScene(replicas, listed, (DemoSource("orders", wanted, {}),), (), ("demo-a",), "", capacity)


@pytest.mark.parametrize(
    ("wanted", "pods", "replicas", "compact"),
    [
        pytest.param(16, 2, 2, True, id="full"),
        pytest.param(17, 3, 3, True, id="one more"),
        pytest.param(16, 3, 3, False, id="one could be spared"),
        pytest.param(16, 3, 2, False, id="one is still on its way out"),
        pytest.param(17, 2, 2, False, id="one is missing"),
    ],
)
def test_a_compact_set_has_the_pods_it_needs(wanted: int, pods: int, replicas: int, compact: bool) -> None:
    assert scene(wanted, pods, replicas).is_compact is compact


NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("ready", "taints", "state"),
    [
        pytest.param(True, [], "runs", id="it runs"),
        pytest.param(False, [NOT_READY], "starts", id="it starts"),
        pytest.param(True, [NOT_READY], "starts", id="Ready, but nothing may come yet"),
        pytest.param(False, [], "starts", id="without a taint, but not Ready"),
        pytest.param(True, [NOTICE_TAINT], "ends", id="it ends"),
        pytest.param(False, [NOTICE_TAINT, SHUTDOWN_TAINT, NOT_READY], "off", id="it is off"),
    ],
)
def test_a_node_runs_once_it_can_be_used(ready: bool, taints: list[dict[str, str]], state: str) -> None:
    conditions = (Condition(type="Ready", status="True" if ready else "False"),)
    spec = NodeSpec(taints=tuple(Taint(key=each["key"], effect=each["effect"]) for each in taints))
    assert node_state(Node(spec=spec, status=NodeStatus(conditions=conditions))) == state
