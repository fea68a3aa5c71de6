"""The plugin on the framework's page does what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from situate.framework.engine.decisions import Placed, Refused
from situate.framework.engine.engine import Engine
from situate.framework.engine.messages import refusal
from situate.framework.profile.profile import profile_of
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node
from situate.plugins.priority_sort import PrioritySort
from tests.framework.pods import SCHEDULER, pod_info

PAGE = Path(__file__).resolve().parents[2] / "docs" / "contributing" / "framework.md"


def test_the_plugin_on_the_page_keeps_pods_off_nodes_in_maintenance() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    found: dict[str, Any] = {}
    exec(code, found)  # the page is ours
    engine = Engine([profile_of(SCHEDULER, [(PrioritySort(), 0), (found["NoMaintenance"](), 0)])])
    engine.set_node(Node(ObjectMeta(name="a", labels={"maintenance": ""})), 0)
    engine.queue.add(pod_info("first"), 0)
    refused = engine.schedule(0)
    assert isinstance(refused, Refused)
    assert refusal(refused) == "0/1 nodes are available: 1 node(s) were in maintenance."
    engine.set_node(Node(ObjectMeta(name="b")), 100)
    placed = engine.schedule(100)
    assert isinstance(placed, Placed)
    assert placed.node == "b"
