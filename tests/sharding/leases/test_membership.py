"""Who is an executor, by leases and pods that are seen on the observer's clock."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.objects.kinds.leases import Lease
from situate.objects.kinds.pods import ContainerState, ContainerStateTerminated, ContainerStatus
from situate.sharding.leases.membership import (
    BadExecutorWatch,
    BadLeaseTimes,
    ExecutorWatch,
    LeaseTimes,
    Membership,
    lease_name,
)
from situate.sharding.model.executors import EndReason, ExecutorStatus, Members
from situate.sharding.model.names import CORDON, PARTITION, POOL
from tests.sharding.builders import NAMESPACE, changed, lease, node, pod

WATCH = ExecutorWatch("app=reports", NAMESPACE)
D = 15.0


def one(**said: Any) -> Membership:
    """One executor `a`, whose lease and pod were first seen at 0."""
    seen = Membership(WATCH)
    seen.record_lease(lease("a", "ua"), 0)
    seen.record_pod(pod("a", "ua", **said))
    seen.record_synced(0)
    return seen


def at(seen: Membership, now: float, **open_objects: int) -> Members:
    """With a look at each Lease that seems to have run out, which is as it was."""
    for suspect in seen.members(now, open_objects).suspects:
        seen.record_check(suspect, None, now, now)
    return seen.members(now, open_objects)


def status(members: Members, uid: str = "ua") -> str:
    if uid in members.living:
        return members.living[uid].status
    return members.removed[uid].ending if uid in members.removed else "unknown"


@pytest.mark.rule("sharding:K4", "sharding:K6")
def test_an_executor_is_known_by_its_lease_and_its_pod() -> None:
    (executor,) = at(one(revision="r1"), 1).living.values()
    assert (executor.id, executor.uid, executor.status, executor.revision) == ("a", "ua", "Healthy", "r1")
    assert executor.labels["app"] == "reports"
    assert executor.expires_at == D


@pytest.mark.rule("sharding:X17")
@pytest.mark.parametrize(("age", "expected"), [(0, "Healthy"), (14.999, "Healthy"), (15, "expired"), (1000, "expired")])
def test_a_lease_lasts_for_its_duration_and_no_longer(age: float, expected: str) -> None:
    seen = one()
    seen.record_pod(pod("a", "ua"))
    assert status(at(seen, age)) == expected


@pytest.mark.rule("sharding:X15")
@pytest.mark.parametrize("ahead", [-300.0, -40.0, 0.0, 300.0, 1e6])
def test_a_lease_is_judged_by_when_it_was_seen_to_change_whatever_it_says(ahead: float) -> None:
    """A live lease is not taken from a clock that is behind, nor a dead one believed because its clock is ahead."""
    seen = Membership(WATCH)
    seen.record_pod(pod("a", "ua"))
    for now in range(0, 100, 4):
        seen.record_lease(lease("a", "ua", renewed=now + ahead), now)
        assert status(at(seen, now + 3.9)) == "Healthy"
    assert status(at(seen, 96 + 14.9)) == "Healthy"
    assert status(at(seen, 96 + 15)) == "expired"


@pytest.mark.rule("sharding:X15")
def test_only_a_renewal_is_a_sign_of_life() -> None:
    seen = one()
    for now in range(1, 15):
        seen.record_lease(changed(lease("a", "ua"), note=str(now)), now)
    assert status(at(seen, 15)) == "expired", "a label that somebody changes keeps nobody alive"


def test_a_lease_first_seen_is_taken_for_just_changed() -> None:
    seen = Membership(WATCH)
    seen.record_lease(lease("a", "ua", renewed=-1e6), 100)
    seen.record_pod(pod("a", "ua"))
    assert status(at(seen, 114.9)) == "Healthy"
    assert status(at(seen, 115)) == "expired"


@pytest.mark.rule("sharding:S5")
def test_a_lease_object_a_pod_or_a_watch_that_is_gone_is_no_release() -> None:
    seen = one()
    seen.record_pod_deleted(NAMESPACE, "a", "ua")
    assert status(at(seen, 14.9)) == "Unhealthy"
    assert status(at(seen, 15)) == "expired"


@pytest.mark.rule("sharding:S1", "sharding:S5", "sharding:S4")
def test_a_watch_that_stands_still_kills_nobody() -> None:
    seen = one()
    members = seen.members(20, {})
    (suspect,) = members.suspects
    assert (suspect.uid, suspect.namespace, suspect.lease) == ("ua", NAMESPACE, "pool.a.ua")
    assert status(members) == "Unhealthy", "no new work, and it keeps what it has"
    assert members.next_expiry is None, "time alone changes nothing"
    seen.record_check(suspect, lease("a", "ua", 19), 20, 20.1)
    members = seen.members(20.1, {})
    assert (status(members), members.suspects, members.living["ua"].expires_at) == ("Healthy", (), 35.1)


@pytest.mark.rule("sharding:S4", "sharding:S5")
@pytest.mark.parametrize(
    ("read", "known", "expected"),
    [("41", "42", "released"), ("9", "10", "released"), ("43", "42", "Healthy"), ("x1", "x2", "Healthy")],
)
def test_a_reading_that_an_event_has_overtaken_brings_nobody_back(read: str, known: str, expected: str) -> None:
    """The answer was on its way when it gave its Lease back; where versions are no numbers, the answer counts."""
    seen = one()
    (suspect,) = seen.members(20, {}).suspects
    seen.record_lease(of_version(lease("a", "ua", 20, held=False), known), 20.2)
    seen.record_check(suspect, of_version(lease("a", "ua", 19), read), 20, 20.3)
    assert status(seen.members(20.3, {})) == expected


def test_another_lease_of_the_name_is_no_earlier_one() -> None:
    """It was deleted and made again, on a server that was put back from a copy."""
    seen = one()
    (suspect,) = seen.members(20, {}).suspects
    seen.record_lease(of_version(lease("a", "ua", 20, held=False), "42"), 20.2)
    seen.record_check(suspect, of_version(lease("a", "ua", 21), "7", uid="another"), 20.5, 20.6)
    assert status(seen.members(20.6, {})) == "Healthy"


def of_version(found: Lease, version: str, uid: str = "u") -> Lease:
    meta = msgspec.structs.replace(found.metadata, resource_version=version, uid=uid)
    return msgspec.structs.replace(found, metadata=meta)


@pytest.mark.rule("sharding:S5")
def test_only_a_reading_begun_when_the_lease_had_run_out_proves_that_it_has() -> None:
    seen = one()
    (suspect,) = seen.members(15, {}).suspects
    seen.record_check(suspect, lease("a", "ua"), 14.9, 15.2)
    assert seen.members(16, {}).suspects == (suspect,)
    seen.record_check(suspect, lease("a", "ua"), 16, 16.1)
    assert status(seen.members(16.1, {})) == "expired"


@pytest.mark.rule("sharding:B2")
def test_a_release_counts_at_once() -> None:
    seen = one()
    seen.record_lease(lease("a", "ua", 1, held=False), 1)
    assert status(at(seen, 1)) == EndReason.RELEASED


def test_who_comes_back_to_life_is_there_again() -> None:
    seen = one()
    assert status(at(seen, 20)) == "expired"
    seen.record_lease(lease("a", "ua", 20), 21)
    assert status(at(seen, 21)) == "Healthy"


@pytest.mark.rule("sharding:X4")
def test_the_next_incarnation_inherits_nothing() -> None:
    seen = one()
    seen.record_pod(pod("a", "ub", created=5))
    seen.record_lease(lease("a", "ub", 5), 5)
    members = at(seen, 6)
    assert (status(members, "ua"), status(members, "ub")) == ("Unhealthy", "Healthy")
    assert members.current["a"].uid == "ub"
    members = at(seen, 15)
    assert (status(members, "ua"), status(members, "ub")) == ("expired", "Healthy")


def test_a_lease_that_another_holds_renews_nothing() -> None:
    seen = one()
    stolen = lease("a", "ua", 5)
    stolen = msgspec.structs.replace(stolen, spec=msgspec.structs.replace(stolen.spec, holder_identity="thief"))
    (oddity,) = seen.record_lease(stolen, 5)
    assert "held by 'thief'" in oddity
    assert status(at(seen, 14)) == "Healthy", "it is no release"
    assert status(at(seen, 15)) == "expired"


def test_an_executor_that_allows_itself_longer_is_believed() -> None:
    seen = Membership(WATCH)
    seen.record_lease(lease("a", "ua", duration=30), 0)
    assert status(at(seen, 29)) == "Unhealthy"
    seen.record_lease(lease("b", "ub", duration=10**6), 0)
    assert at(seen, 1).living["ub"].lease_s == 3600, "and not for ever"


@pytest.mark.rule("sharding:B2")
@pytest.mark.parametrize("proof", ["container", "node"])
def test_proof_of_death_ends_the_wait(proof: str) -> None:
    seen = one()
    if proof == "container":
        seen.record_pod(pod("a", "ua", terminated=True))
    else:
        seen.record_node(node(out_of_service=True))
    assert status(at(seen, 1)) == EndReason.DEAD
    seen.record_pod_deleted(NAMESPACE, "a", "ua")
    assert status(at(seen, 2)) == EndReason.DEAD, "what was proven stays proven"


def test_a_container_that_is_started_again_has_to_renew_first() -> None:
    seen = one()
    seen.record_pod(pod("a", "ua", terminated=True))
    seen.record_pod(pod("a", "ua"))
    assert status(at(seen, 1)) == EndReason.DEAD
    seen.record_lease(lease("a", "ua", 2), 2)
    assert status(at(seen, 2)) == "Healthy"


@pytest.mark.rule("sharding:B2")
def test_a_renewal_that_is_seen_after_the_death_is_of_the_dead() -> None:
    seen = one()
    seen.record_pod(pod("a", "ua", terminated=True))
    seen.record_lease(lease("a", "ua", 2), 2)
    assert status(at(seen, 2)) == EndReason.DEAD
    anew = lease("a", "ua", 3)
    taken = msgspec.structs.replace(anew.spec, acquire_time=anew.spec.renew_time)
    seen.record_lease(msgspec.structs.replace(anew, spec=taken), 3)
    assert status(at(seen, 3)) == "Unhealthy", "its container has not been seen to run yet"
    seen.record_pod(pod("a", "ua"))
    assert status(at(seen, 3)) == "Healthy"


def test_one_container_of_two_that_ended_is_no_proof() -> None:
    seen = one()
    found = pod("a", "ua", terminated=True)
    running = ContainerStatus("other", ready=True)
    two = msgspec.structs.replace(found.status, container_statuses=(*found.status.container_statuses, running))
    seen.record_pod(msgspec.structs.replace(found, status=two))
    assert status(at(seen, 1)) == "Unhealthy"
    init = ContainerStatus("init", state=ContainerState(terminated=ContainerStateTerminated()))
    only_init = msgspec.structs.replace(found.status, container_statuses=(), init_container_statuses=(init,))
    seen.record_pod(msgspec.structs.replace(found, status=only_init))
    assert status(at(seen, 1)) == "Unhealthy", "what did not run has not ended"


@pytest.mark.rule("sharding:S4")
@pytest.mark.parametrize("phase", ["Failed", "Succeeded", "Unknown"])
def test_a_phase_is_no_proof(phase: str) -> None:
    seen = one()
    found = pod("a", "ua", ready=False)
    seen.record_pod(msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, phase=phase)))
    assert status(at(seen, 1)) == "Unhealthy"


@pytest.mark.rule("sharding:S4", "sharding:X7")
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param({}, "Healthy", id="ready"),
        pytest.param({"ready": False}, "Unhealthy", id="lost node: the condition is false, the containers stay ready"),
        pytest.param({"ready": None}, "Unhealthy", id="readiness unknown"),
        pytest.param({"container_ready": False}, "Unhealthy", id="a container is not ready"),
        pytest.param({"labels": {}}, "Unhealthy", id="out of the selector"),
        pytest.param({"deleting": True}, "Draining", id="terminating"),
        pytest.param({"cordoned": True}, "Draining", id="cordoned"),
        pytest.param({"cordoned": True, "ready": False}, "Draining", id="the first that matches"),
    ],
)
def test_the_status_by_the_pod(said: dict[str, Any], expected: str) -> None:
    seen = one()
    seen.record_pod(pod("a", "ua", **said))
    assert status(at(seen, 1)) == expected


@pytest.mark.parametrize(
    ("text", "open_objects", "expected"),
    [
        ('{"draining": true}', 0, "Draining"),
        ('{"capacity": 2}', 1, "Healthy"),
        ('{"capacity": 2}', 2, "Full"),
        ('{"capacity": 2, "open": 2}', 0, "Full"),
        ('{"full": true}', 0, "Full"),
        ('{"capacity": 0}', 0, "Full"),
        ("rubbish", 9, "Healthy"),
    ],
)
def test_the_status_by_what_it_says_of_itself(text: str, open_objects: int, expected: str) -> None:
    seen = one()
    oddities = seen.record_lease(lease("a", "ua", 1, report=text), 1)
    assert status(at(seen, 1, ua=open_objects)) == expected
    assert bool(oddities) is (text == "rubbish")


def test_a_lease_can_be_cordoned_too() -> None:
    seen = one()
    seen.record_lease(changed(lease("a", "ua"), **{CORDON: "true"}), 1)
    assert status(at(seen, 1)) == "Draining"
    seen.record_lease(lease("a", "ua"), 2)
    assert status(at(seen, 2)) == "Healthy"


@pytest.mark.rule("sharding:X6")
def test_only_changes_of_the_set_count_as_changes() -> None:
    seen = one()
    assert at(seen, 1).changed_at == 1
    for now in range(2, 13):
        seen.record_pod(pod("a", "ua"))
        seen.record_lease(lease("a", "ua", now, report=f'{{"open": {now}}}'), now)
        assert at(seen, now).changed_at == 1, "a report is no change"
    seen.record_pod(pod("a", "ua", ready=False))
    assert at(seen, 13).changed_at == 13
    seen.record_pod(pod("b", "ub"))
    seen.record_lease(lease("b", "ub"), 14)
    assert at(seen, 14).changed_at == 14
    assert Membership(WATCH).members(5, {}).changed_at is None, "nobody was ever there"


def test_a_sample_is_as_old_as_its_text() -> None:
    seen = one()
    seen.record_lease(lease("a", "ua", 1, report='{"metrics": {"cpu": 1}}'), 1)
    seen.record_lease(lease("a", "ua", 5, report='{"metrics": {"cpu": 1}}'), 5)
    assert at(seen, 5).living["ua"].sampled_at == 1
    seen.record_lease(lease("a", "ua", 9, report='{"metrics": {"cpu": 2}}'), 9)
    assert (at(seen, 9).living["ua"].sampled_at, at(seen, 9).living["ua"].metrics) == (9, {"cpu": 2.0})


def test_the_dead_are_forgotten_in_time() -> None:
    seen = one()
    seen.record_pod_deleted(NAMESPACE, "a", "ua")
    assert status(at(seen, 15)) == "expired"
    assert status(at(seen, 15 + 75)) == "expired"
    assert status(at(seen, 15 + 75.1)) == "unknown"


def test_what_is_forgotten_leaves_its_lease_until_that_is_gone_or_changes() -> None:
    seen = one()
    seen.record_pod_deleted(NAMESPACE, "a", "ua")
    assert not at(seen, 15).leftovers
    assert not at(seen, 15 + 75).leftovers
    (left,) = at(seen, 15 + 75.1).leftovers
    assert (left.executor_uid, left.lease, left.namespace) == ("ua", lease("a", "ua").metadata.name, NAMESPACE)
    seen.record_lease(lease("a", "ua", 100), 100)
    assert (status(at(seen, 100)), at(seen, 100).leftovers) == ("Unhealthy", ()), "it lives"
    assert at(seen, 115).removed
    assert at(seen, 200).leftovers
    seen.forget_leftover("ua")
    assert not at(seen, 200).leftovers


@pytest.mark.rule("sharding:S1")
def test_the_lease_of_a_pod_that_is_there_is_no_leftover() -> None:
    """A process that begins in it would take what it finds for given to itself."""
    seen = one()
    assert status(at(seen, 15)) == "expired"
    assert not at(seen, 1000).leftovers
    seen.record_pod_deleted(NAMESPACE, "a", "ua")
    assert at(seen, 1000).leftovers


def test_the_unhealthy_are_known_since_when() -> None:
    seen = one()
    assert at(seen, 1).living["ua"].unhealthy_since is None
    seen.record_pod(pod("a", "ua", ready=False))
    assert at(seen, 2).living["ua"].unhealthy_since == 2
    assert at(seen, 3).living["ua"].unhealthy_since == 2
    seen.record_pod(pod("a", "ua"))
    assert at(seen, 4).living["ua"].unhealthy_since is None


@pytest.mark.rule("sharding:K6")
def test_equal_names_in_two_namespaces_are_two_executors() -> None:
    assert ExecutorWatch("app=x").id_of("north", "a") != ExecutorWatch("app=x").id_of("south", "a")
    assert ExecutorWatch("app=x", "north").id_of("north", "a") == "a"


@pytest.mark.rule("sharding:K10")
def test_leases_of_others_are_nothing_to_us() -> None:
    seen = Membership(WATCH, pool="pool", partition="0")
    seen.record_lease(lease("a", "ua", labels={POOL: "another"}), 0)
    seen.record_lease(lease("b", "ub", labels={PARTITION: "1"}), 0)
    seen.record_lease(lease("c", "uc"), 0)
    assert set(at(seen, 1).living) == {"uc"}


def test_a_lease_that_names_nobody_is_told_of() -> None:
    nameless = msgspec.structs.replace(lease("a", "ua", held=False).metadata, annotations={})
    (oddity,) = Membership(WATCH).record_lease(
        msgspec.structs.replace(lease("a", "ua", held=False), metadata=nameless), 0
    )
    assert "executor-uid" in oddity
    seen = Membership(WATCH)
    seen.record_lease(msgspec.structs.replace(lease("a", "ua"), metadata=nameless), 0)
    assert at(seen, 0).living["ua"].id == "a", "while it is held, name and holder say it"


def test_the_newest_revision_is_the_youngest_pods() -> None:
    seen = one(revision="old", created=0)
    assert at(seen, 1).newest_revision == "old"
    seen.record_pod(pod("b", "ub", revision="new", created=9))
    assert at(seen, 1).newest_revision == "old", "who has no lease is no executor yet"
    seen.record_lease(lease("b", "ub"), 2)
    members = at(seen, 2)
    assert (members.newest_revision, members.one_revision) == ("new", False)


def test_of_two_revisions_with_a_pod_of_one_second_the_newer_has_no_older_ones() -> None:
    seen = one(revision="z", created=0)
    for name, revision in (("b", "z"), ("c", "a")):  # one of the old revision is replaced while the rollout begins
        seen.record_pod(pod(name, f"u{name}", revision=revision, created=9))
        seen.record_lease(lease(name, f"u{name}"), 1)
    assert at(seen, 1).newest_revision == "a"


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"renew_deadline_s": 12}, "more than lease_s * (1 - max_clock_drift) = 14.25"),
        ({"max_clock_drift": 0.1}, "= 13.5"),
        ({"lease_s": -1}, "lease_s is -1"),
        ({"lease_s": float("nan")}, "lease_s is nan"),
        ({"renew_s": True}, "renew_s is True"),
        ({"renew_s": 10}, "renew_s < renew_deadline_s"),
        ({"retry_s": 0}, "0 < retry_s"),
        ({"max_clock_drift": 1}, "shares below 1"),
    ],
)
def test_times_under_which_two_could_work_are_refused(said: dict[str, Any], named: str) -> None:
    with pytest.raises(BadLeaseTimes, match=re.escape(named)):
        LeaseTimes(**said)


@pytest.mark.parametrize("selector", ["", "  ", "app in ()", "=x"])
def test_a_selector_of_everybody_or_of_nothing_that_can_be_read_is_refused(selector: str) -> None:
    with pytest.raises(BadExecutorWatch, match="selector"):
        ExecutorWatch(selector)
    assert ExecutorWatch(match_all=True).selector == ""


@given(st.text("ab.-", min_size=1, max_size=300), st.text("abcdef0123456789-", min_size=8, max_size=36))
def test_a_leases_name_is_short_enough_and_tells_incarnations_apart(name: str, uid: str) -> None:
    assert len(lease_name("pool", name, uid)) <= 253
    assert lease_name("pool", name, uid).endswith(uid[:8])


@pytest.mark.rule("sharding:X15", "sharding:S4")
@given(
    st.lists(
        st.tuples(st.floats(0, 8), st.sampled_from(["renew", "other", "pod", "gone", "relist"]), st.floats(-1e6, 1e6)),
        max_size=25,
    )
)
def test_nobody_lives_longer_or_shorter_than_a_lease_after_the_last_renewal(
    events: list[tuple[float, str, float]],
) -> None:
    """Whatever else happens and whatever the executor's clock says."""
    seen, now, last, claim = one(), 0.0, 0.0, lease("a", "ua")
    for pause, event, clock in events:
        now += pause
        match event:
            case "renew":
                fresh = lease("a", "ua", clock)
                last = now if fresh.spec != claim.spec else last
                claim = fresh
                seen.record_lease(claim, now)
            case "other":
                seen.record_lease(changed(claim, note=str(now)), now)
            case "pod":
                seen.record_pod(pod("a", "ua", ready=clock > 0))
            case "gone":
                seen.record_pod_deleted(NAMESPACE, "a", "ua")
            case _:
                seen.record_lease(claim, now)
        members = at(seen, now)
        assert ("ua" in members.living) is (now - last < D)
        if "ua" in members.living:
            assert members.next_expiry == last + D
            assert members.living["ua"].status in tuple(ExecutorStatus)
