"""What people are told of objects that cannot be read, by the shipped process."""

from __future__ import annotations

import pytest

from situate.testing.vm.world.processes import MACHINES
from situate.vm.api.quantities import GIB
from situate.vm.api.well_known import REQUESTED, SCALING_UNIT
from situate.vm.model.resource_amounts import Amounts
from tests.vm.controller.test_controller import Stage, stage


def told(ours: Stage) -> list[tuple[str, str]]:
    return [(about, message) for about, reason, message in ours.world.notes if reason == "NotUnderstood"]


@pytest.mark.rule("vm:B41", "vm:D18")
@pytest.mark.parametrize(
    ("annotation", "text", "words"),
    [
        pytest.param(SCALING_UNIT, "a lot", 'found "a lot", allowed: JSON', id="no JSON"),
        pytest.param(SCALING_UNIT, '{"vCPUs":0,"mem":"1Gi"}', "found 0, allowed: a quantity from 1m", id="no unit"),
        pytest.param(REQUESTED, '{"vCPUs":-1,"mem":"1Gi"}', "found -1, allowed: a quantity from 0", id="negative"),
        pytest.param(REQUESTED, '{"vCPUs":1,"mem":"1e60"}', 'found "1e60", allowed: a quantity from 0', id="huge"),
    ],
)
def test_a_broken_annotation_is_named_on_the_machine_that_has_it_and_the_machine_keeps_what_it_has(
    annotation: str, text: str, words: str
) -> None:
    """Whoever wrote it looks at the machine; its pod has a copy."""
    with stage() as ours:
        ours.run("a", cpus=2, slots=8)
        ours.world.write_request("a", Amounts.from_values(3000, 12 * GIB))
        ours.wait(lambda: ours.approved("a") == {"vCPUs": 3, "mem": "12Gi"})
        assert told(ours) == []

        ours.world.annotate(f"{MACHINES}/a", {annotation: text})
        ours.wait(lambda: bool(told(ours)))
        ours.world.let_pass(10.0)
        runner = ours.world.runner_pod("a")["metadata"]["name"]
        assert [about for about, _ in told(ours)] == ["VirtualMachine a", f"Pod {runner}"], "once each"
        for _, message in told(ours):
            assert f'metadata.annotations["{annotation}"]' in message
            assert words in message
        assert ours.approved("a") == {"vCPUs": 3, "mem": "12Gi"}
        assert ours.controller.ledger.state.nodes["n1"].reserved == Amounts.from_values(3000, 12 * GIB)
        assert ours.world.all_running("a")
