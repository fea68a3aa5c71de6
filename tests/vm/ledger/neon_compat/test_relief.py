"""Whom the reference moves off a node over its watermark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from situate.vm.ledger.neon_compat.relief import select_relief
from situate.vm.model.pods_and_nodes import Machine, Ref, Role
from situate.vm.model.resource_amounts import Amounts
from tests.vm.entries import amounts, node, pod

IDLE = Role.IDLE


@pytest.mark.rule("vm:C29")
def test_the_oldest_go_until_there_is_no_excess() -> None:
    pods = [pod(uid, 3, role=IDLE, created_at=float(at)) for uid, at in (("new", 3), ("old", 1), ("mid", 2))]
    chosen = select_relief(node(10, pods, watermark=0.5))
    assert (chosen.selected_pods, chosen.enough) == (("old", "mid"), True)


@pytest.mark.rule("vm:C29")
def test_of_equally_old_ones_the_first_uid_goes_in_whatever_order_they_came() -> None:
    pods = [pod(uid, 3, role=IDLE) for uid in "bca"]
    assert select_relief(node(10, pods)).selected_pods == select_relief(node(10, pods[::-1])).selected_pods == ("a",)


@pytest.mark.rule("vm:C29")
def test_who_leaves_already_counts_as_gone() -> None:
    leaving = pod("leaving", 3, role=Role.SOURCE, created_at=1.0)
    pods = [leaving, pod("a", 3, role=IDLE, created_at=2.0), pod("b", 3, role=IDLE, created_at=3.0)]
    assert select_relief(node(10, pods, watermark=0.6)).selected_pods == ()
    assert select_relief(node(10, pods, watermark=0.5)).selected_pods == ("a",)
    assert select_relief(node(10, pods, watermark=0.5), {"a"}).selected_pods == ()
    assert select_relief(node(10, pods, watermark=0.5), {"leaving", "unknown"}).selected_pods == ("a",)


@pytest.mark.rule("vm:C29")
def test_one_that_is_larger_than_the_watermark_stays() -> None:
    """Before overcommit, as the reference has it."""
    big = pod("big", 7, role=IDLE, created_at=1.0, overcommit=Amounts.from_values(2000, 2000))
    chosen = select_relief(node(10, [big, pod("a", 3.5, role=IDLE, created_at=2.0)], watermark=0.6))
    assert (chosen.selected_pods, chosen.skipped_pods, chosen.enough) == (("a",), ("big",), True)


@pytest.mark.rule("vm:C29", "vm:D6")
def test_only_machines_of_ours_that_may_move_are_asked_to() -> None:
    foreign = replace(pod("foreign", 3), machine=Machine(Ref("default", "f"), own=False, migratable=True))
    pods = [foreign, pod("plain", 3), pod("target", 3, role=Role.TARGET)]
    chosen = select_relief(node(10, pods, watermark=0.5))
    assert (chosen.selected_pods, chosen.enough) == ((), False)


@pytest.mark.rule("vm:C29")
def test_excess_in_one_resource_is_enough() -> None:
    lopsided = replace(pod("a", role=IDLE), reserved=Amounts.from_values(0, amounts(9).memory))
    assert select_relief(node(10, [lopsided], watermark=0.9)).selected_pods == ()
    assert select_relief(node(10, [lopsided, pod("b", 1)], watermark=0.95)).selected_pods == ("a",)
