"""The class of the next pod (3.4, P15, P16, P20)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from situate.spot.admission.classify import Classification, ClassReason, Demand, ReplicaSetView, StaleView, classify
from situate.spot.admission.ledger import ARRIVAL_S, Ledger, Reservation, Slot
from tests.spot.builders import NODES, NOW, OD, SET, SPOT, UID, owner, pod, pods

SLOT = Slot(UID, "r1")


def asked(target: int, spec: str, ledger: Ledger | None = None, **more: Any) -> Classification:
    given = pods(spec)
    demand = Demand(owner(len(given) + 1), target, "r1", given)
    found = classify(replace(demand, **more), NODES, ledger or Ledger.empty(), NOW)
    assert isinstance(found, Classification)
    return found


@pytest.mark.rule("spot:P13", "spot:P14", "spot:P15", "spot:D5", "spot:D7")
def test_a_pod_is_on_demand_while_its_revision_lacks_them() -> None:
    assert asked(2, "od:1 spot:3") == Classification(OD, ClassReason.BELOW_TARGET, 1)
    assert asked(2, "od:2 spot:3") == Classification(SPOT, ClassReason.TARGET_MET, 2)
    assert asked(1, "bare:1").pod_class is OD, "unknown nodes hold no floor"
    assert asked(1, "doomed-od:1").pod_class is OD, "nor do nodes that end"
    assert asked(1, "", pods=[pod("a", "", OD)]).pod_class is SPOT, "a waiting pod counts as what it is meant for"
    assert asked(1, "", pods=[pod("a", "od", OD, terminating=True)]).pod_class is OD
    assert asked(1, "", pods=[pod("a", "od", OD, phase="Failed")]).pod_class is OD
    assert asked(1, "", pods=[pod("a", "od", OD, released=True)]).pod_class is OD
    assert asked(1, "", pods=[pod("a", "od", SPOT)]).pod_class is SPOT, "where it stands is what counts"
    assert asked(1, "", pods=[pod("a", "od", OD, revision="r0")]).pod_class is OD, "each revision for itself"


@pytest.mark.rule("spot:B15", "spot:D13")
def test_each_revision_gets_its_own_floor() -> None:
    old = [pod(f"old-{n}", "od", OD, revision="r0") for n in range(3)]
    assert asked(3, "", pods=old).pod_class is OD


@pytest.mark.rule("spot:B17")
def test_a_surge_without_room_goes_to_spot_while_the_old_pods_hold_the_floor() -> None:
    old = [pod(f"old-{n}", "od", OD, revision="r0") for n in range(2)]
    assert asked(2, "", pods=old, surge_as_spot=True) == Classification(SPOT, ClassReason.SURGE_AS_SPOT, 0)
    assert asked(2, "", pods=old[:1], surge_as_spot=True).pod_class is OD, "one has left: on demand again"


@pytest.mark.rule("spot:P16", "spot:B40", "spot:S29")
@pytest.mark.parametrize(
    ("name", "start", "want"),
    [("db-0", 0, OD), ("db-1", 0, OD), ("db-2", 0, SPOT), ("db-5", 5, OD), ("db-7", 5, SPOT), ("db-x", 0, OD)],
)
def test_a_statefulset_goes_by_ordinals(name: str, start: int, want: object) -> None:
    of = owner(3, "StatefulSet", name="db", ordinals_start=start)
    for there in ([], [pod("db-0", "od", OD), pod("db-1", "od", OD), pod("db-2", "od", OD)]):
        found = classify(Demand(of, 2, "r1", there, name=name), NODES, Ledger.empty(), NOW)
        assert isinstance(found, Classification)
        assert found.pod_class is want


def view(replicas: int, *, live: bool = False) -> ReplicaSetView:
    return ReplicaSetView(SET, replicas, live)


@pytest.mark.rule("spot:P20", "spot:B1", "spot:F1")
def test_a_view_that_cannot_be_right_is_read_anew() -> None:
    full = Demand(owner(3), 1, "r1", pods("spot:3"), view(3))
    assert isinstance(classify(full, NODES, Ledger.empty(), NOW), StaleView), "no slot is left for another pod"
    ledger = Ledger.empty()
    for number in range(2):
        ledger = ledger.with_reservation(SLOT, Reservation(f"t{number}", OD, NOW, replica_set=SET))
    crowded = Demand(owner(3), 2, "r1", pods("spot:1"), view(3))
    assert isinstance(classify(crowded, NODES, ledger, NOW), StaleView), "more answers than pods can come"
    ending = [replace(each, terminating=True) for each in pods("spot:3")]
    assert isinstance(classify(replace(full, pods=ending), NODES, Ledger.empty(), NOW), Classification), (
        "they are replaced"
    )


@pytest.mark.rule("spot:P20", "spot:D2", "spot:B2")
def test_after_a_live_read_fewer_answers_count_than_slots_are_left() -> None:
    ledger = Ledger.empty()
    for number in range(2):
        ledger = ledger.with_reservation(SLOT, Reservation(f"t{number}", OD, NOW, replica_set=SET))
    live = Demand(owner(3), 2, "r1", pods("spot:1"), view(3, live=True))
    assert classify(live, NODES, ledger, NOW) == Classification(OD, ClassReason.BELOW_TARGET, 1), (
        "one of them never came"
    )


@pytest.mark.rule("spot:B2", "spot:P20", "spot:K1")
def test_only_a_class_that_rests_on_promises_is_doubted() -> None:
    ledger = Ledger.empty()
    for number, pod_class in enumerate((OD, SPOT, OD)):
        ledger = ledger.with_reservation(SLOT, Reservation(f"t{number}", pod_class, NOW + number, replica_set=SET))

    def asked_of(target: int, spec: str, entries: Ledger = ledger) -> object:
        return classify(Demand(owner(9), target, "r1", pods(spec), view(9)), NODES, entries, NOW + 2)

    assert asked_of(3, "od:1") == StaleView(NOW + 2 + ARRIVAL_S), "one is there, two are promised"
    assert asked_of(4, "od:1") == Classification(OD, ClassReason.BELOW_TARGET, 3), "on demand with all of them"
    assert asked_of(1, "od:1") == Classification(SPOT, ClassReason.TARGET_MET, 1), "spot without any"
    others = Ledger.empty().with_reservation(SLOT, Reservation("t", OD, NOW, replica_set="another"))
    assert asked_of(1, "", others) == Classification(SPOT, ClassReason.TARGET_MET, 1), (
        "nothing is known of another ReplicaSet"
    )


@pytest.mark.rule("spot:P5", "spot:P20")
def test_in_doubt_on_demand() -> None:
    demand = Demand(owner(3), 0, "r1", pods("spot:3"), view(3), unreadable=True)
    assert classify(demand, NODES, Ledger.empty(), NOW) == Classification(OD, ClassReason.IN_DOUBT, 0)
