"""What becomes of the pod that was left: the contract with those who make room by moves (B10)."""

from __future__ import annotations

import pytest

from situate.vm.api.well_known import CLAIM, HANDOVER
from situate.vm.emulator import Kind, Settings
from tests.vm.emulator.town import Town

MIGRATION, POD = Kind.MIGRATION, Kind.POD


def succeeded(*, claim: bool) -> Town:
    """The machine has just arrived; its source is there."""
    town = Town(Settings(handover_s=10.0))
    town.running()
    town.migration(metadata={"annotations": {CLAIM: "{}"}} if claim else {})
    town.settle(MIGRATION, "m")
    town.comes_up(town.move()["status"]["targetPodName"], "node-2")
    town.settle(MIGRATION, "m")
    town.now += 60
    while town.move()["status"]["phase"] != "Succeeded":
        town.step(MIGRATION, "m")
    return town


def source_is_there(town: Town) -> bool:
    return (POD, "vm-source") in town.objects


@pytest.mark.rule("vm:C34")
def test_without_a_claim_the_source_goes_at_once() -> None:
    town = succeeded(claim=False)
    town.settle(MIGRATION, "m")
    assert not source_is_there(town)


@pytest.mark.rule("vm:B10")
def test_with_a_claim_it_waits_for_the_hand_over_to_be_written() -> None:
    town = succeeded(claim=True)
    looked = town.settle(MIGRATION, "m")
    assert source_is_there(town)
    assert looked.requeue_at == town.now + 10
    assert town.move()["status"]["sourcePodName"] == "vm-source"
    town.now += 9
    town.settle(MIGRATION, "m")
    assert source_is_there(town)
    town.change(MIGRATION, "m", {"metadata": {"annotations": {HANDOVER: "{}"}}})
    town.settle(MIGRATION, "m")
    assert not source_is_there(town)
    assert "sourcePodName" not in town.move()["status"]


@pytest.mark.rule("vm:B10")
def test_whoever_wrote_the_hand_over_may_have_deleted_the_source_too() -> None:
    town = succeeded(claim=True)
    town.change(MIGRATION, "m", {"metadata": {"annotations": {HANDOVER: "{}"}}})
    town.delete(POD, "vm-source")
    town.settle(MIGRATION, "m")
    assert "sourcePodName" not in town.move()["status"]


@pytest.mark.rule("vm:B10")
def test_nobody_wrote_it_for_long() -> None:
    town = succeeded(claim=True)
    town.now += 10
    town.settle(MIGRATION, "m")
    assert not source_is_there(town)


@pytest.mark.rule("vm:B10")
def test_a_migration_that_is_deleted_takes_the_source_with_it() -> None:
    town = succeeded(claim=True)
    town.delete(MIGRATION, "m")
    town.settle(MIGRATION, "m")
    assert not source_is_there(town)
    assert (MIGRATION, "m") not in town.objects
    assert town.vm()["status"]["phase"] == "Running"


@pytest.mark.rule("vm:B10")
def test_it_is_let_go_only_once_the_source_was_asked_to_go() -> None:
    town = succeeded(claim=False)
    town.change(POD, "vm-source", {"metadata": {"finalizers": ["hold"]}})
    town.delete(MIGRATION, "m")
    town.step(MIGRATION, "m")
    assert town.pod("vm-source")["metadata"]["deletionTimestamp"]
    assert (MIGRATION, "m") in town.objects
    town.step(MIGRATION, "m")
    assert (MIGRATION, "m") not in town.objects


def test_another_pod_of_the_sources_name_is_left_alone() -> None:
    town = succeeded(claim=False)
    town.delete(POD, "vm-source")
    town.put(POD, "vm-source", spec={}, status={"phase": "Running"})
    town.settle(MIGRATION, "m")
    assert source_is_there(town)
    assert "sourcePodName" not in town.move()["status"]
