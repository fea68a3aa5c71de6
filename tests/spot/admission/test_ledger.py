"""Reservations and releases (P17 to P22)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.spot.admission.ledger import ARRIVAL_S, Ledger, Reservation, Slot, missing_on_demand
from tests.spot.builders import NODES, NOW, OD, SPOT, UID, pod, pods

SLOT = Slot(UID, "r1")


def reserved(*tokens: str, at: float = NOW, name: str = "") -> Ledger:
    ledger = Ledger.empty()
    for token in tokens:
        ledger = ledger.with_reservation(SLOT, Reservation(token, OD, at, name, "rs"))
    return ledger


@pytest.mark.rule("spot:P17", "spot:D1", "spot:D7")
def test_what_is_missing() -> None:
    seen = pods("od:2 spot:3 bare:1")
    assert missing_on_demand(Ledger.empty(), SLOT, 5, seen, NODES, NOW) == 3
    assert missing_on_demand(reserved("a", "b"), SLOT, 5, seen, NODES, NOW) == 1
    assert missing_on_demand(reserved("a", "b", "c", "d"), SLOT, 5, seen, NODES, NOW) == 0
    assert missing_on_demand(reserved("a"), Slot(UID, "r2"), 5, [], NODES, NOW) == 5, "another revision"
    assert missing_on_demand(Ledger.empty(), SLOT, 1, seen, NODES, NOW) == 0, "never negative"
    assert missing_on_demand(reserved("a", "b", "c"), SLOT, 5, seen, NODES, NOW, most=1) == 2, "the slot rule's limit"


@pytest.mark.rule("spot:P17", "spot:D2")
def test_a_reservation_ends_when_its_pod_is_seen_active_or_not_or_after_its_time() -> None:
    held = reserved("t1")
    assert missing_on_demand(held, SLOT, 1, [], NODES, NOW + 29) == 0
    assert missing_on_demand(held, SLOT, 1, [], NODES, NOW + 30) == 1
    assert held.unmatched_reservations(SLOT, [pod("x", token="t1")], NOW) == []
    assert held.unmatched_reservations(SLOT, [pod("x", token="t1", terminating=True)], NOW) == []
    assert reserved("t1", name="web-0").unmatched_reservations(SLOT, [pod("web-0")], NOW) == []
    assert [entry.token for entry in held.unmatched_reservations(SLOT, [pod("x"), pod("y", token="t2")], NOW)] == ["t1"]


@pytest.mark.rule("spot:P18", "spot:B3")
def test_the_same_name_is_one_entry_and_a_new_uid_another() -> None:
    once = reserved("t1", name="web-0")
    again = once.with_reservation(SLOT, Reservation("t2", OD, NOW + 1, "web-0"))
    assert [entry.token for entry in again.reservations[SLOT]] == ["t2"]
    assert len(reserved("t1", "t2").reservations[SLOT]) == 2
    assert once.find_reservation(SLOT, "web-0", "", NOW) is not None
    assert once.find_reservation(SLOT, "", "t1", NOW) is not None
    assert once.find_reservation(SLOT, "web-1", "", NOW) is None
    assert once.find_reservation(SLOT, "web-0", "", NOW + 30) is None, "over"


@pytest.mark.rule("spot:P17")
def test_a_release_counts_at_once_and_ends_when_it_is_seen() -> None:
    seen = pods("od:3")
    gone = Ledger.empty().with_release(SLOT, seen[0], NODES, NOW)
    assert missing_on_demand(gone, SLOT, 3, seen, NODES, NOW) == 1
    assert missing_on_demand(gone, SLOT, 3, seen, NODES, NOW + 14) == 1
    assert missing_on_demand(gone, SLOT, 3, seen, NODES, NOW + 15) == 0, "it never happened"
    after = [replace(seen[0], terminating=True), *seen[1:]]
    assert missing_on_demand(gone, SLOT, 3, after, NODES, NOW) == 1, "counted once"
    assert gone.without_settled_entries(SLOT, after, NOW).releases == {}
    assert gone.without_release(SLOT, seen[0].key.name) == Ledger.empty(), "it was refused"
    assert gone.without_release(SLOT, "another") == gone


@pytest.mark.rule("spot:P17")
def test_what_leaves_no_release() -> None:
    ledger = reserved("t1")
    for other in (
        pod("s", "spot", SPOT),
        pod("new", "od", OD, token="t1"),
        pod("going", "od", OD, terminating=True),
        pod("doomed", "doomed-od", OD),
    ):
        assert ledger.with_release(SLOT, other, NODES, NOW) == ledger, other
    once = ledger.with_release(SLOT, pod("a", "od"), NODES, NOW)
    assert once.with_release(SLOT, pod("a", "od"), NODES, NOW + 1) == once, "known already"


@pytest.mark.rule("spot:P21", "spot:D2", "spot:B2")
def test_a_refused_create_ends_as_many_entries_as_pods_are_missing() -> None:
    held = reserved("t1", "t2", "t3")
    live = [pod("a", token="t1")]
    after = held.without_refused_creates(SLOT, "rs", live, missing=1)
    assert [entry.token for entry in after.reservations[SLOT]] == ["t1", "t3"], "the oldest whose pod did not come"
    assert held.without_refused_creates(SLOT, "rs", live, missing=0) == held
    assert held.without_refused_creates(SLOT, "another", live, missing=3) == held
    assert held.without_refused_creates(SLOT, "rs", live, missing=9).reservations[SLOT][0].token == "t1"


@pytest.mark.rule("spot:P20", "spot:D2", "spot:B2")
def test_a_live_read_ends_what_had_time_to_come_and_did_not() -> None:
    held = reserved("t1", "t2").with_reservation(SLOT, Reservation("t3", OD, NOW + 1, "", "rs"))
    live = [pod("a", token="t1")]
    began = NOW + ARRIVAL_S
    assert [entry.token for entry in held.without_absent_pods(SLOT, "rs", live, began).reservations[SLOT]] == [
        "t1",
        "t3",
    ]
    assert held.without_absent_pods(SLOT, "rs", live, began - 0.01) == held
    assert held.without_absent_pods(SLOT, "another", live, began) == held


@pytest.mark.rule("spot:P22")
def test_an_empty_ledger_counts_by_what_is_there() -> None:
    waiting = [pod("new", "", OD, token="t1"), *pods("od:1")]
    assert missing_on_demand(Ledger.empty(), SLOT, 3, waiting, NODES, NOW) == 1


@pytest.mark.rule("spot:P17", "spot:B1", "spot:D1")
@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 40), st.data())
def test_a_burst_grants_exactly_what_is_missing_however_late_its_pods_are_seen(
    target: int, there: int, burst: int, data: st.DataObject
) -> None:
    ledger, seen, granted = Ledger.empty(), [pod(f"old-{n}", "od") for n in range(there)], 0
    for number in range(burst):
        if missing_on_demand(ledger, SLOT, target, seen, NODES, NOW + number / 10):
            granted += 1
            ledger = ledger.with_reservation(SLOT, Reservation(f"t{number}", OD, NOW + number / 10))
        unseen = [entry.token for entry in ledger.unmatched_reservations(SLOT, seen, NOW)]
        late = [token for token in unseen if data.draw(st.booleans(), label=f"{token} is seen")]
        seen += [pod(f"new-{token}", "", OD, token=token) for token in late]
        ledger = ledger.without_settled_entries(SLOT, seen, NOW + number / 10)
    assert granted == min(burst, max(0, target - there))
