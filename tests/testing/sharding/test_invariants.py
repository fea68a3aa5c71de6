"""The checker finds each breach, and nothing in what is right."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from situate.testing.sharding.events import read_events
from situate.testing.sharding.invariants import Limits, breaches, broken_invariants

Log = list[dict[str, Any]]
LIMITS = Limits(first_assignment_s=5, reassignment_s=17, lease_duration_s=15)


def eligible(t: float, ex: str, inc: int = 1) -> dict[str, Any]:
    return {"t": t, "ev": "eligible", "ex": ex, "inc": inc}


def of(ev: str, t: float, ex: str, inc: int = 1, **more: Any) -> dict[str, Any]:
    return {"t": t, "ev": ev, "ex": ex, "inc": inc, **more}


def assign(t: float, to: str, epoch: int, inc: int = 1, **more: Any) -> dict[str, Any]:
    return {"t": t, "ev": "assign", "obj": "o", "to": to, "inc": inc, "epoch": epoch, **more}


def on(ev: str, t: float, ex: str, inc: int = 1, **more: Any) -> dict[str, Any]:
    return of(ev, t, ex, inc, obj="o", **more)


CREATED = {"t": 0, "ev": "create", "obj": "o", "uid": "U"}
AB: Log = [eligible(0, "a"), eligible(0, "b"), CREATED]
HELD: Log = [*AB, assign(1, "a", 1), on("start", 2, "a", epoch=1)]
DONE = {"t": 3, "ev": "complete", "obj": "o"}


def archive(ev: str, t: float, rv: int = 9, **more: Any) -> dict[str, Any]:
    return {"t": t, "ev": ev, "uid": "U", "rv": rv, **more}


DELETED = {"t": 9, "ev": "deleted", "uid": "U"}
ARCHIVED: Log = [archive("archive_put", 5), archive("archive_verified", 6), archive("finalizer_removed", 7)]


@pytest.mark.rule("sharding:B12")
@pytest.mark.parametrize(
    ("log", "want"),
    [
        pytest.param(HELD, set(), id="work under an assignment"),
        pytest.param([*HELD, on("stop", 3, "a"), on("start", 4, "a", epoch=1)], set(), id="begun again"),
        pytest.param([*HELD, on("start", 4, "a", epoch=1)], set(), id="the same incarnation twice is not two"),
        pytest.param(
            [*HELD, of("lease_lost", 16, "a"), assign(17, "b", 2), on("start", 18, "b", epoch=2)],
            {"S1"},
            id="who lost its lease works until it stops",
        ),
        pytest.param(
            [*HELD, of("crash", 16, "a"), assign(17, "b", 2), on("start", 18, "b", epoch=2)],
            set(),
            id="who crashed does not",
        ),
        pytest.param([*HELD, on("ack", 3, "a"), on("write", 4, "a", epoch=1, accepted=True)], {"S2"}, id="after ack"),
        pytest.param([*HELD, on("write", 4, "a", epoch=0, accepted=True)], {"S2"}, id="the holder under an old epoch"),
        pytest.param([*HELD, on("write", 4, "a", 2, epoch=1, accepted=True)], {"S2"}, id="its next incarnation"),
        pytest.param([*HELD, on("write", 4, "b", epoch=1, accepted=False)], set(), id="a refused write"),
        pytest.param(
            [*HELD, on("stop", 3, "a"), on("ack", 3, "a"), assign(4, "b", 1), on("start", 5, "b", epoch=1)],
            {"S3"},
            id="an epoch given twice",
        ),
        pytest.param(
            [*AB, assign(1, "a", 3), on("ack", 2, "a"), assign(4, "b", 2), on("start", 5, "b", epoch=2)],
            {"S3"},
            id="an epoch set back is the stored one all the same",
        ),
        pytest.param(
            [*HELD, {"t": 3, "ev": "create", "obj": "o", "uid": "V"}, assign(4, "b", 1)],
            set(),
            id="another uid counts anew",
        ),
        pytest.param([*AB, of("ineligible", 1, "a"), assign(2, "a", 1)], {"S4"}, id="assigned to whom nothing may be"),
        pytest.param([*AB, of("lease_lost", 1, "a"), assign(2, "a", 1)], {"S4"}, id="assigned to the lost"),
        pytest.param([*AB, assign(2, "a", 1, inc=2)], {"S4"}, id="assigned to an incarnation never seen"),
        pytest.param([*HELD, assign(4, "b", 2)], {"S5"}, id="taken away"),
        pytest.param([*HELD, eligible(3, "a", 2), assign(4, "a", 2, inc=2)], {"S5"}, id="taken by its next life"),
        pytest.param([*HELD, assign(4, "a", 2)], set(), id="the same holder again"),
        pytest.param([*HELD, on("ack", 3, "a"), assign(4, "b", 2)], set(), id="given up"),
        pytest.param(
            [*HELD, of("lease_lost", 3, "a"), eligible(4, "a"), assign(5, "a", 2), assign(6, "b", 3)],
            {"S5"},
            id="a loss counts for the assignment of its time",
        ),
        pytest.param(
            [*HELD, {"t": 30, "ev": "revoke", "obj": "o", "epoch": 2}, assign(45, "b", 3)], set(), id="revoked, d ago"
        ),
        pytest.param(
            [*HELD, {"t": 30, "ev": "revoke", "obj": "o", "epoch": 2}, assign(44, "b", 3)], {"S5"}, id="just now"
        ),
        pytest.param([*HELD, DONE, assign(4, "a", 2)], {"S6"}, id="completed and assigned"),
        pytest.param([*HELD, DONE, *ARCHIVED, DELETED], set(), id="archived"),
        pytest.param([*HELD, DONE, *ARCHIVED[1:], DELETED], set(), id="verified by somebody before us"),
        pytest.param([*HELD, DONE, ARCHIVED[0], ARCHIVED[2], DELETED], {"S7"}, id="not read back"),
        pytest.param(
            [*HELD, DONE, *ARCHIVED[:2], archive("finalizer_removed", 7, 10)], {"S7"}, id="another version read back"
        ),
        pytest.param(
            [archive("archive_put", 5, key="x"), archive("archive_put", 6, key="y")], {"S8"}, id="two records"
        ),
        pytest.param(
            [archive("archive_put", 5, 9, key="x"), archive("archive_put", 6, 10, key="y")], set(), id="two versions"
        ),
        pytest.param([archive("archive_put", 5), archive("archive_put", 6)], set(), id="one record put twice"),
        pytest.param([*HELD, DONE, *ARCHIVED[:2], DELETED], {"S9"}, id="deleted under its finalizer"),
        pytest.param(
            [*AB, {"t": 0, "ev": "create", "obj": "p", "uid": "P"}, assign(1, "a", 1, term=4),
             assign(2, "a", 1, term=3) | {"obj": "p"}],
            {"S10"},
            id="an older term after a newer",
        ),
        pytest.param([*AB, on("start", 2, "a", epoch=1)], {"S11"}, id="work without assignment"),
        pytest.param([*AB, assign(1, "a", 1), on("start", 2, "b", epoch=1)], {"S11"}, id="work of another"),
        pytest.param([*AB, assign(1, "a", 1), on("start", 2, "a", 2, epoch=1)], {"S11"}, id="of another incarnation"),
        pytest.param([*AB, assign(1, "a", 2), on("start", 2, "a", epoch=1)], {"S11"}, id="under another epoch"),
    ],
)  # fmt: skip
def test_safety(log: Log, want: set[str]) -> None:
    assert broken_invariants(read_events(log)) == want


TICK = eligible(100, "z")


@pytest.mark.rule("sharding:B12")
@pytest.mark.parametrize(
    ("log", "want"),
    [
        pytest.param([*AB, assign(5, "a", 1), TICK], set(), id="assigned at the limit"),
        pytest.param([*AB, assign(5.1, "a", 1), TICK], {"L1"}, id="assigned after it"),
        pytest.param([*AB, TICK], {"L1"}, id="never assigned"),
        pytest.param([*AB, eligible(4, "z")], set(), id="the log ends before the limit"),
        pytest.param([CREATED, eligible(50, "a"), assign(54, "a", 1)], set(), id="nobody was there"),
        pytest.param([CREATED, eligible(50, "a"), assign(56, "a", 1)], {"L1"}, id="and then somebody for too long"),
        pytest.param(
            [*AB, of("ineligible", 1, "a"), of("ineligible", 6, "b"), TICK, assign(101, "z", 1)],
            {"L1"},
            id="one of two is enough",
        ),
        pytest.param([*HELD, of("crash", 5, "a"), assign(22, "b", 2), TICK], set(), id="reassigned at the limit"),
        pytest.param([*HELD, of("crash", 5, "a"), assign(22.1, "b", 2), TICK], {"L2"}, id="reassigned after it"),
        pytest.param([*HELD, of("lease_lost", 5, "a"), TICK], {"L2"}, id="never reassigned"),
        pytest.param(
            [*HELD, of("crash", 5, "a"), of("lease_lost", 20, "a"), assign(23, "b", 2)], {"L2"}, id="the first counts"
        ),
        pytest.param([*HELD, on("ack", 3, "a"), of("lease_lost", 5, "a"), TICK], set(), id="given up before"),
        pytest.param([*HELD, DONE, of("lease_lost", 5, "a"), TICK], set(), id="completed before"),
        pytest.param([*HELD, of("crash", 5, "a"), DONE | {"t": 20}, TICK], set(), id="failed instead"),
    ],
)  # fmt: skip
def test_liveness(log: Log, want: set[str]) -> None:
    assert broken_invariants(read_events(log), LIMITS) == want


def test_liveness_is_not_judged_without_limits() -> None:
    assert broken_invariants(read_events([*AB, TICK])) == set()


def test_a_breach_tells_when_and_what() -> None:
    (breach,) = breaches(read_events([*HELD, assign(4, "b", 2)]))
    assert str(breach) == "S5 at 4 s: o is assigned to b/1 although a/1 never released it"


@pytest.mark.parametrize(
    "log",
    [
        pytest.param([{"t": 0, "ev": "explode"}], id="an unknown event"),
        pytest.param([{"t": 0, "ev": "create", "obj": "o"}], id="a missing field"),
        pytest.param([{**CREATED, "t": "now"}], id="a field of another type"),
    ],
)
def test_what_is_no_log_is_refused(log: Log) -> None:
    with pytest.raises(msgspec.ValidationError):
        read_events(log)
