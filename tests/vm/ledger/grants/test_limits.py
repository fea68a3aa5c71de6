"""Whoever asks for more than its machine may have gets that, and nobody moves for the rest (C5, F5)."""

from __future__ import annotations

import pytest

from situate.objects.kinds import pods
from situate.vm.api.pods import read_pod
from situate.vm.api.well_known import APPROVED, AUTO_MIGRATION_LABEL, BOUNDS, ENABLED_LABEL, REQUESTED, SCALING_UNIT
from situate.vm.model.actions import Approve, StartMove
from situate.vm.model.events import ResourcesRequested, TimerFired
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.protocol.permit import PermitReason, decide_permit
from tests.vm.objects import container, node, pod, runner
from tests.vm.yard import Yard

GIB = 2**30
UNIT = Amounts.from_values(250, GIB // 2)
ASKED = Amounts.from_values(8000, 16 * GIB)
MOST = Amounts.from_values(1500, 3 * GIB)
"""Of the machine: it uses 1 CPU and 2 GiB."""


def machine(approved: str = "", **annotations: str) -> pods.Pod:
    """Asks for 8 CPUs and 16 GiB."""
    notes = {SCALING_UNIT: '{"vCPUs":"250m","mem":"512Mi"}', REQUESTED: '{"vCPUs":8,"mem":"16Gi"}', **annotations}
    if approved:
        notes[APPROVED] = approved
    return runner("a", notes, labels={ENABLED_LABEL: "true"}, nodeName="n1")


def neighbour() -> pods.Pod:
    labels = {ENABLED_LABEL: "true", AUTO_MIGRATION_LABEL: "true"}
    return runner("b", {APPROVED: '{"vCPUs":1,"mem":"2Gi"}'}, labels=labels, nodeName="n1")


@pytest.mark.rule("vm:C5", "vm:C13", "vm:F5", "vm:I5")
def test_it_is_granted_up_to_its_own_maximum_and_nobody_moves_for_the_rest() -> None:
    yard = Yard(node("n1", "3", "12Gi"), node("n2", "10", "40Gi"), neighbour(), machine())
    (made,) = yard.only(Approve)
    assert made.amount == MOST
    assert made.requested == ASKED, "the write tests what its annotation says"
    yard.answer(made)
    yard.see(machine('{"vCPUs":"1500m","mem":"3Gi"}'))
    assert not yard.state.waiters
    assert not yard.state.need("uid-a")
    yard.now += 30.0
    yard.tell(TimerFired())
    assert yard.only(StartMove) == []

    asked = ResourcesRequested("uid-a", UNIT, ASKED, MOST)
    yard.tell(asked)
    told = decide_permit(yard.state, asked, yard.rules)
    assert told is not None
    assert (told.permit, told.reason, told.retry_after_s, told.plan) == (MOST, PermitReason.PARTIAL, None, "")


@pytest.mark.rule("vm:C5", "vm:I2")
def test_bounds_that_fall_below_what_it_has_take_nothing_away() -> None:
    bounds = '{"min":{"cpu":"500m","mem":"1Gi"},"max":{"cpu":"500m","mem":"1Gi"}}'
    yard = Yard(node("n1"), machine('{"vCPUs":"1250m","mem":"2560Mi"}', **{BOUNDS: bounds}))
    assert yard.only(Approve) == []
    assert yard.pod("a").reserved == Amounts.from_values(1250, 5 * GIB // 2)
    assert yard.pod("a").limited_request == yard.pod("a").reserved


@pytest.mark.rule("vm:C11")
def test_the_reference_grants_whatever_the_node_has() -> None:
    read = read_pod(machine(), Rules(compat=True)).value
    assert read is not None
    assert read.limited_request == ASKED


def test_a_plain_pod_has_no_such_limit() -> None:
    read = read_pod(pod("web", container(), nodeName="n1"), Rules()).value
    assert read is not None
    assert read.limit_request(ASKED) == ASKED
