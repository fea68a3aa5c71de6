"""Two schedulers and a Lease, on a real API server: one is killed, one is paused past its lease."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import pytest

from tests.e2e.vpod_cluster import Arena, Cluster, Request, Scheduler, rfc3339_now
from tests.waiting import eventually, steadily

ELECTION = {"leaseDuration": "12s", "renewDeadline": "9s", "retryPeriod": "500ms"}
"""Short enough to see its end; long enough for a leader not to miss it where a machine stalls for seconds."""


@pytest.mark.rule("vpod:B2", "vpod:D1", "vpod:S6", "vpod:S7", "vpod:V1")
def test_leadership_passes_on_and_nothing_moves(cluster: Cluster, arena: Callable[..., Arena]) -> None:
    with arena("leadership") as ours:
        ours.shared["leaderElection"] = ELECTION
        ours.configure()
        ours.add_statefulset()
        ours.want(orders=6, payments=3)
        first = ours.start("first")
        eventually("the first leads", first.leads)
        second = ours.start("second")
        before = ours.wait_placed()
        second.wait_synced()
        ours.wait_quiet()

        # the leader is killed: no good-bye, the Lease stays as it is
        first.process.kill()
        eventually("the second leads", second.leads)
        eventually("it has rebuilt what is placed", lambda: second.said("state rebuilt"))
        steadily("nothing moves", ours.placements, lambda held: held == before, seconds=1)
        assert not writes_of(second, cluster.requests(ours.name))
        ours.want(clicks=2)
        before = ours.wait_placed()

        # the leader is paused for longer than its Lease lasts, while there is work to do
        third = ours.start("third")
        third.wait_synced()
        second.process.pause()
        ours.want(orders=8)
        eventually("the third leads", third.leads)
        now = ours.wait_placed()
        assert all(now[name] == before[name] for name in ("payments", "clicks"))
        taken_over = rfc3339_now()
        second.process.resume()
        eventually("the second knows that it lost", lambda: second.said("leadership lost"))
        steadily("nothing moves", ours.placements, lambda held: held == now, seconds=1)
        late = [each for each in writes_of(second, cluster.requests(ours.name)) if each.at > taken_over]
        assert not late

        # and it stands by
        third.process.kill()
        eventually("the second leads again", second.leads)
        ours.want(orders=9)
        ours.wait_placed()

        names = {each.credential: each.name for each in ours.schedulers}
        writers = [names[each.credential] for each in cluster.requests(ours.name) if each.decided]
        assert [name for name, _ in groupby(writers)] == ["first", "second", "third", "second"]


@pytest.mark.rule("vpod:S7")
def test_a_leader_that_is_stopped_hands_over_at_once(arena: Callable[..., Arena]) -> None:
    """With a Lease of ten minutes, waiting for its end would be noticed."""
    with arena("handover") as ours:
        ours.shared["leaderElection"] = {"leaseDuration": "10m", "renewDeadline": "8m", "retryPeriod": "400ms"}
        ours.configure()
        ours.add_statefulset()
        ours.want(orders=3)
        first = ours.start("first")
        eventually("the first leads", first.leads)
        second = ours.start("second")
        second.wait_synced()
        ours.wait_placed()
        first.process.stop(timeout_s=60)
        eventually("the second leads", second.leads)
        ours.want(orders=5)
        ours.wait_placed()


def writes_of(scheduler: Scheduler, requests: list[Request]) -> list[Request]:
    return [each for each in requests if each.decided and each.credential == scheduler.credential]
