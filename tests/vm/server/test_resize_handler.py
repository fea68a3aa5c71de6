"""`POST /resize`: a part, a wish that is not attempted, and one that the API server does not carry out (B34, B36)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from situate.testing.vm.world.processes import NAMESPACE, PODS
from situate.vm.api.well_known import RESIZE_REQUESTED
from tests.vm.server.scene import stage


@pytest.mark.rule("vm:B34", "vm:B36", "vm:I5")
def test_a_part_is_told_as_such_and_what_is_not_attempted_with_its_reason() -> None:
    with stage() as ours:
        requests = {"requests": {"cpu": "1", "memory": "1Gi"}}
        restarts = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
        container = {"name": "c", "image": "i", "resources": requests, "resizePolicy": restarts}
        for name in ("web", "other"):
            spec = {"schedulerName": "situate-vm", "containers": [container], "nodeName": "n1"}
            ours.world.call("POST", PODS, {"metadata": {"name": name}, "spec": spec})
        ours.wait(lambda: ours.world.call("GET", f"{PODS}/web").get("status", {}).get("phase") == "Running")
        ours.world.let_pass(1.0)

        def ask(**wish: Any) -> Any:
            return ours.send("POST", "/resize", {"pod": {"namespace": NAMESPACE, "name": "web"}, **wish})

        part = ask(cpu="8", step={"cpu": "1500m"})
        assert part.status == 200, part.body
        told = json.loads(part.body)
        assert (told["permit"], told["reason"]) == ({"vCPUs": 7, "mem": "1Gi"}, "partial")
        written = ours.world.call("GET", f"{PODS}/web")["metadata"]["annotations"][RESIZE_REQUESTED]
        assert json.loads(written) == {"cpu": 8, "step": {"cpu": "1500m"}}
        restarted = ask(memory="2Gi")
        assert (restarted.status, b"RestartNeeded" in restarted.body) == (400, True)
