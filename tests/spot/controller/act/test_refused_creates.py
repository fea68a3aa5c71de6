"""Refused pods give their places back; pods that are on their way keep theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from situate.objects.kinds.events import CoreEvent, ObjectReference
from situate.spot.admission.admit import UNREADABLE, LiveRead, NeedsRead
from situate.spot.admission.ledger import ARRIVAL_S, Ledger, Reservation, Slot
from situate.spot.controller.act.refused_creates import RefusedCreates, remove_refused_creates
from situate.spot.model.pods_nodes_workloads import Capacity, PodFacts, PodKey
from situate.spot.workloads.owners import Controller, ReplicaSetFacts

SLOT = Slot("d", "h1")
REPLICA_SET = ReplicaSetFacts("r", Controller("apps/v1", "Deployment", "web", "d"), "shop", "web-1", 5, "h1")


def ledger(*decided_at: float) -> Ledger:
    """An on-demand answer at each of these times, token `t` and its number."""
    found = Ledger.empty()
    for number, at in enumerate(decided_at):
        found = found.with_reservation(SLOT, Reservation(f"t{number}", Capacity.ON_DEMAND, at, replica_set="r"))
    return found


def live(*tokens: str) -> LiveRead:
    """A pod for each of these answers."""
    pods = [
        PodFacts(PodKey("shop", f"web-{token}"), token, controller="r", revision="h1", token=token) for token in tokens
    ]
    return LiveRead(None, REPLICA_SET, tuple(pods))


def tokens(of: Ledger) -> list[str]:
    return [entry.token for entry in of.reservations.get(SLOT, ())]


@pytest.mark.rule("spot:P21")
@pytest.mark.parametrize(
    ("decided_at", "seen", "before", "left", "younger"),
    [
        pytest.param((1, 2), (), 3, [], False, id="both were refused"),
        pytest.param((1, 2), ("t0",), 3, ["t0"], False, id="one came: it speaks for itself"),
        pytest.param((1, 4), (), 3, ["t1"], True, id="the second may be on its way"),
        pytest.param((4, 5), (), 3, ["t0", "t1"], True, id="both are younger than the news"),
        pytest.param((1, 2), ("a", "b", "c", "d", "e"), 3, ["t0", "t1"], False, id="no pod is missing"),
        pytest.param((1, 2), ("a", "b", "c", "d"), 3, ["t1"], False, id="as many as are missing, the oldest first"),
    ],
)
def test_which_entries_end(
    decided_at: tuple[float, ...], seen: tuple[str, ...], before: float, left: list[str], younger: bool
) -> None:
    after, again = remove_refused_creates(ledger(*decided_at), live(*seen), before)
    assert (tokens(after), again) == (left, younger)


def test_a_replicaset_of_nobody_ends_nothing() -> None:
    assert remove_refused_creates(ledger(1), LiveRead(), 3) == (ledger(1), False)


def event(count: int, uid: str = "r") -> CoreEvent:
    about = ObjectReference("apps/v1", "ReplicaSet", "shop", "web-1", uid)
    return CoreEvent(involved_object=about, reason="FailedCreate", count=count)


class Rig:
    def __init__(self) -> None:
        self.ledger = ledger()
        self.live: LiveRead = live()
        self.reads: list[float] = []
        self.loop = asyncio.get_running_loop()
        self.refusals = RefusedCreates(self.read, self.loop.time)
        self.running = asyncio.create_task(self.refusals.run(self.change))

    async def read(self, _: NeedsRead) -> LiveRead:
        self.reads.append(self.loop.time())
        return self.live

    def change(self, step: Callable[[Ledger], Ledger]) -> None:
        self.ledger = step(self.ledger)

    async def stop(self) -> None:
        self.running.cancel()
        await asyncio.wait([self.running])


@pytest.mark.rule("spot:P21", "spot:D2")
@pytest.mark.looptime
async def test_news_is_looked_into_when_pods_have_had_time_to_arrive(looptime: Any) -> None:
    rig = Rig()
    await asyncio.sleep(1)
    rig.ledger = ledger(0.9, 1.2)
    rig.refusals.observe_event(None, event(1))
    rig.refusals.observe_event(event(1), event(4))
    rig.refusals.observe_event(event(4), event(4))
    await asyncio.sleep(ARRIVAL_S + 0.1)
    assert rig.reads == [pytest.approx(1 + ARRIVAL_S)], "one look for news that come together"
    assert tokens(rig.ledger) == ["t1"]
    await asyncio.sleep(ARRIVAL_S)
    assert not tokens(rig.ledger), "the younger one is looked after without further news"
    await asyncio.sleep(60)
    assert len(rig.reads) == 2
    await rig.stop()


@pytest.mark.looptime
async def test_what_cannot_be_read_stays_as_it_is() -> None:
    rig = Rig()
    await asyncio.sleep(1)
    rig.ledger, rig.live = ledger(0.5), UNREADABLE
    rig.refusals.observe_event(None, event(1))
    await asyncio.sleep(2)
    assert tokens(rig.ledger) == ["t0"]
    await rig.stop()


@pytest.mark.looptime
async def test_an_event_that_goes_or_was_there_before_the_term_is_no_news() -> None:
    rig = Rig()
    await rig.stop()
    before = str(vars(rig.refusals))
    for number in range(1000):
        rig.refusals.observe_event(None, event(1, f"r{number}"))
    assert str(vars(rig.refusals)) == before, "a standby remembers nothing"
    rig.running = asyncio.create_task(rig.refusals.run(rig.change))
    await asyncio.sleep(1)
    rig.refusals.observe_event(event(1), None)
    await asyncio.sleep(2)
    assert not rig.reads
    await rig.stop()
