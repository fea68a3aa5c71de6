"""The shipped vm process with a target that is refused: its migration is rewritten, and its pod is placed elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from situate.testing.vm.world.processes import MIGRATIONS
from situate.vm.api.quantities import GIB
from situate.vm.api.well_known import CLAIM, TARGET_NODE, TARGET_RECHOSEN
from situate.vm.model.migrations import Move
from situate.vm.model.resource_amounts import Amounts
from tests.vm.controller.test_controller import UNAVAILABLE, Stage, crowd, stage

TAINTED = {"spec": {"taints": [{"key": "example.com/gpu", "value": "yes", "effect": "NoSchedule"}]}}


def _moves(ours: Stage) -> list[Move]:
    return list(ours.controller.ledger.state.moves.values())


@pytest.mark.rule("vm:B14", "vm:F6", "vm:B44")
@pytest.mark.parametrize("change", [TAINTED, {"spec": {"unschedulable": True}}, None], ids=["taint", "cordon", "gone"])
def test_a_target_that_its_node_does_not_take_is_offered_another_and_the_claim_stays(change: Any) -> None:
    """By a cycle of the scheduler, which alone knows of taints; by the node's object; by its end."""
    with stage(n1="8", n2="8", n3="8") as ours:
        ours.world.call("PATCH", "/api/v1/nodes/n3", {"spec": {"unschedulable": True}}, patch=True)
        crowd(ours)
        ours.world.call("PATCH", "/api/v1/nodes/n3", {"spec": {"unschedulable": False}}, patch=True)
        ours.requests.clear()
        refusing = ours.meddle("POST", "/binding", lambda _: UNAVAILABLE, times=1)  # its pod waits a second then
        ours.world.write_request("a", Amounts.from_values(6000, 24 * GIB))
        ours.wait(lambda: bool(refusing.left == 0 and [each for each in _moves(ours) if each.waits_for_its_target]))
        if change is None:
            ours.world.call("DELETE", "/api/v1/nodes/n2")
        else:
            ours.world.call("PATCH", "/api/v1/nodes/n2", change, patch=True)
        (made,) = ours.writes("POST", MIGRATIONS)
        assert made["metadata"]["annotations"][TARGET_NODE] == "n2"
        began = ours.world.now

        ours.wait(lambda: bool(ours.writes("PATCH", f"{MIGRATIONS}/{made['metadata']['name']}")))
        assert ours.world.now - began < 5.0, "long before its pod has waited too long"
        (patch, *_) = ours.writes("PATCH", f"{MIGRATIONS}/{made['metadata']['name']}")
        assert patch[0]["path"] == "/metadata/uid"
        written = {each["path"].rpartition("/")[2]: each["value"] for each in patch if each["op"] == "add"}
        assert written[TARGET_NODE.replace("/", "~1")] == "n3"
        assert TARGET_RECHOSEN.replace("/", "~1") in written

        ours.wait(lambda: ours.approved("a") == {"vCPUs": 6, "mem": "24Gi"}, within_s=60.0)
        assert ours.world.node_of("b") == "n3"
        assert len(ours.writes("POST", MIGRATIONS)) == 1
        assert json.loads(made["metadata"]["annotations"][CLAIM])["node"] == "n1"
