"""The supervisor's part, scene by scene. Each scene checks some rules, without assumptions on the executor's speed.

The executor's work writes `status.by` (its pod's UID) and a `status.count` that rises at least once a second, until it
is stopped. Where `spec.steps` is a number, the work completes the object after this many writes.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final

from situate.sharding.leases.executor_report import report_of
from situate.sharding.model.names import EXECUTOR, EXECUTOR_UID, POOL, STATUS
from situate.sharding.model.object_view import Holder
from situate.sharding.model.patches import Operations, guarded_patch
from situate.testing.sharding.contract import contract_environment as places
from situate.testing.sharding.contract.contract_environment import POD, UNITS, ContractEnvironment
from situate.testing.sharding.contract.rules import Finding
from situate.testing.sharding.world.reports import PATHS, assignment_patch, drain_patch, revocation_patch

TIME_LIMIT_S: Final = 60.0
"""Time limit for steps without a deadline of their own: a process on a busy machine starts slowly."""
WRITE_INTERVAL_S: Final = 1.0
"""Maximum seconds between two writes of the work."""
WRITE_DELAY_S: Final = 1.0
"""Delay of a write on its way."""


class RuleNotTested(Exception):
    """The executor did not reach a state in which the remaining rules can be tested."""


async def play_contract(place: ContractEnvironment) -> AsyncIterator[Finding]:
    """Play all scenes and yield their findings. Raises `RuleNotTested`."""
    for part in (
        _check_lease,
        _check_work,
        _check_drain,
        _check_revocation,
        _check_late_write,
        _check_completion,
        _check_lease_loss,
        _check_end,
    ):
        async for finding in part(place):
            yield finding
    refused = [each for each in place.landed_writes if each.refusal is not None]
    said = ""
    if refused:
        first = refused[0]
        epochs = f"epoch {first.before.epoch} of {first.before.executor or 'no executor'}"
        said = f"the policy refuses {len(refused)} writes, first on {first.name} under {epochs}: {first.refusal}"
    yield Finding("fenced", not refused, said)


async def _check_lease(place: ContractEnvironment) -> AsyncIterator[Finding]:
    """Check that the Lease appears, has the right content, and is renewed."""
    if not await place.wait_until(lambda: place.leases() or place.has_ended, TIME_LIMIT_S) or place.has_ended:
        how = "has ended" if place.has_ended else f"created no Lease within {TIME_LIMIT_S:g} s"
        raise RuleNotTested(f"the executor {how}")
    lease = place.lease()
    if lease is None:
        yield Finding("lease", False, f"found Leases {place.leases()}, expected: {place.lease_name}")
        raise RuleNotTested("supervisors find an executor only by its Lease")
    await place.wait_until(lambda: (place.lease() or {})["spec"].get("holderIdentity") == place.uid, TIME_LIMIT_S)
    lease = place.lease() or lease
    yield Finding("lease", not (wrong := _lease_mistake(place, lease)), wrong)
    text = lease["metadata"].get("annotations", {}).get(STATUS)
    _, oddities = report_of(text)
    yield Finding(
        "status",
        text is not None and not oddities,
        oddities[0] if oddities else "" if text else "the annotation is absent",
    )
    since, times = place.now(), place.timing
    await asyncio.sleep(times.lease_s)
    seen = [since, *(at for at in place.renewals if at >= since), place.now()]
    longest_s = max(later - earlier for earlier, later in pairwise(seen))
    said = f"{longest_s:.1f} s passed without a renewal, allowed: {times.renew_deadline_s:g} s"
    yield Finding("renewal", longest_s <= times.renew_deadline_s, "" if longest_s <= times.renew_deadline_s else said)


async def _check_work(place: ContractEnvironment) -> AsyncIterator[Finding]:
    """Check that the executor begins its own object and leaves those of others alone."""
    strangers = {
        "other-uid": Holder(POD, "00000000-0000-0000-0000-000000000000"),
        "other-executor": Holder("executor-1", place.uid),
    }
    for name, holder in strangers.items():
        _create_object(place, name)
        _assign_object(place, name, holder)
    _create_object(place, "done")
    _patch_object(place, "done", guarded_patch(place.get("done"), _completion_patch(place, "done")), "/status")
    _assign_object(place, "done", Holder(POD, place.uid))
    begun = await _begins_work(place, "own")
    yield Finding("claim", begun, "" if begun else f"the executor did not start the object within {TIME_LIMIT_S:g} s")
    if not begun:
        raise RuleNotTested("the other rules need an executor that starts its objects")
    await asyncio.sleep(2 * WRITE_INTERVAL_S)
    touched = sorted({each.name for each in place.landed_writes if each.name in (*strangers, "done")})
    yield Finding("others", not touched, f"the executor wrote to {', '.join(touched)}" if touched else "")


async def _check_drain(place: ContractEnvironment) -> AsyncIterator[Finding]:
    epoch = place.view("own").epoch
    deadline = place.wall() + timedelta(seconds=TIME_LIMIT_S)
    _patch_object(place, "own", drain_patch(place.get("own"), deadline))
    await place.wait_until(lambda: place.view("own").holder is None, TIME_LIMIT_S)
    view, said = place.view("own"), ""
    if view.holder is not None:
        said = f"the object was not released within {TIME_LIMIT_S:g} s"
    elif view.epoch != epoch or view.drain is not None:
        said = f"after the release the epoch is {view.epoch}, expected: {epoch}; drain request: {view.drain}"
    yield Finding("ack", not said, said)


async def _check_revocation(place: ContractEnvironment) -> AsyncIterator[Finding]:
    if not await _begins_work(place, "taken"):
        raise RuleNotTested("the executor did not start a second object")
    _revoke_object(place, "taken")
    at, grace_s = place.now(), place.timing.cancel_grace_s + WRITE_INTERVAL_S
    await asyncio.sleep(grace_s + 2 * WRITE_INTERVAL_S)
    late = place.writes_of("taken", at)
    said = f"{len(late)} writes landed later, the last after {late[-1].at - at:.1f} s" if late else ""
    yield Finding("revoke", not late, said)


async def _check_late_write(place: ContractEnvironment) -> AsyncIterator[Finding]:
    """Check a write that is on its way while its object goes to another executor."""
    if not await _begins_work(place, "late"):
        raise RuleNotTested("the executor did not start a third object")
    place.delay("late", WRITE_DELAY_S)
    await place.wait_until(place.delayed_write_arrived, TIME_LIMIT_S)
    _revoke_object(place, "late")
    _assign_object(place, "late", Holder("executor-1", "another"))
    at = place.now()
    await asyncio.sleep(WRITE_DELAY_S + place.timing.cancel_grace_s)
    place.clear_faults()
    late = place.writes_of("late", at)
    yield Finding("late", not late, f"{len(late)} writes landed on an object of another executor" if late else "")


async def _check_completion(place: ContractEnvironment) -> AsyncIterator[Finding]:
    await _begins_work(place, "short", steps=2)
    await place.wait_until(lambda: place.view("short").completed, TIME_LIMIT_S)
    at, view = place.now(), place.view("short")
    await asyncio.sleep(2 * WRITE_INTERVAL_S)
    after = place.writes_of("short", at)
    said = ""
    if view.completed_at is None:
        said = f"no status.completedAt within {TIME_LIMIT_S:g} s"
    elif view.successful is not True:
        said = f"status.successful is {view.successful!r}, expected: true"
    elif after:
        said = f"{len(after)} writes landed after the completion"
    yield Finding("complete", not said, said)


async def _check_lease_loss(place: ContractEnvironment) -> AsyncIterator[Finding]:
    """Refuse all renewals for a while, then accept them again."""
    if not await _begins_work(place, "lost"):
        raise RuleNotTested("the executor did not start a fourth object")
    epoch = place.view("lost").epoch
    place.refuse_renewals()
    await asyncio.sleep(0.1)  # writes on their way have landed
    last = place.renewals[-1]
    await place.wait_until(lambda: place.has_ended or place.now() > last + place.timing.lease_s, TIME_LIMIT_S)
    await asyncio.sleep(2 * WRITE_INTERVAL_S)
    late = place.writes_of("lost", last + place.timing.lease_s)
    said = f"the executor wrote {late[-1].at - last:.1f} s after the last renewal" if late else ""
    yield Finding("loss", not late, said)
    back = place.now()
    place.clear_faults()
    if place.has_ended:  # one way to stop; in a Pod the kubelet restarts the container
        await place.start_executor()
    renewed = await place.wait_until(lambda: place.renewals[-1] > back, TIME_LIMIT_S)
    if not renewed:
        raise RuleNotTested("the executor did not renew its Lease when renewals were accepted again")
    await place.wait_until(lambda: place.view("lost").holder is None, 2 * place.timing.renew_s + 2 * WRITE_INTERVAL_S)
    again = [
        each for each in place.writes_of("lost", back) if each.after.holder is not None and each.after.epoch == epoch
    ]
    said = (
        f"{len(again)} writes under epoch {epoch} landed after the Lease was lost and acquired again" if again else ""
    )
    yield Finding("forgone", not again, said)


async def _check_end(place: ContractEnvironment) -> AsyncIterator[Finding]:
    if not await _begins_work(place, "last"):
        raise RuleNotTested("the executor did not start a fifth object")
    assert place.process is not None, "it was started"
    place.process.send_signal(signal.SIGTERM)
    gone = await place.wait_until(lambda: place.has_ended, TIME_LIMIT_S)
    holder = ((place.lease() or {}).get("spec") or {}).get("holderIdentity")
    said = ""
    if not gone:
        said = f"the executor did not end within {TIME_LIMIT_S:g} s"
    elif place.view("last").holder is not None:
        said = "the executor has ended, but its object is still assigned to it"
    elif holder:
        said = f"the executor has ended, but {holder} still holds its Lease"
    yield Finding("sigterm", not said, said)


async def _begins_work(place: ContractEnvironment, name: str, **spec: Any) -> bool:
    """Create an object and return whether the executor works on it.

    The object is assigned again if the executor released it, because a busy machine loses Leases.
    """
    _create_object(place, name, **spec)

    def look() -> bool:
        view = place.view(name)
        if view.holder is None and not view.completed:
            _assign_object(place, name, Holder(POD, place.uid))
        return place.has_ended or place.worker_of(name) == place.uid

    return await place.wait_until(look, TIME_LIMIT_S) and not place.has_ended


def _create_object(place: ContractEnvironment, name: str, **spec: Any) -> None:
    unit = {"apiVersion": f"{places.GROUP}/v1", "kind": "Unit", "metadata": {"name": name}, "spec": {"work": 1, **spec}}
    place.call("POST", UNITS, unit)


def _assign_object(place: ContractEnvironment, name: str, holder: Holder) -> None:
    _patch_object(place, name, assignment_patch(place.get(name), holder, place.wall()))


def _revoke_object(place: ContractEnvironment, name: str) -> None:
    """Revoke an object.

    Reading and writing happen at once on the server's own loop, so no other write comes between.
    """
    _patch_object(place, name, revocation_patch(place.get(name)))


def _completion_patch(place: ContractEnvironment, name: str) -> Any:
    return PATHS.complete(place.get(name), place.wall(), successful=True)


def _patch_object(place: ContractEnvironment, name: str, operations: Operations, subresource: str = "") -> None:
    place.call("PATCH", f"{UNITS}/{name}{subresource}", [*operations])


def _lease_mistake(place: ContractEnvironment, lease: dict[str, Any]) -> str:
    """Return the first mistake in a Lease. Empty: none."""
    metadata, spec = lease["metadata"], lease["spec"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    wanted = {
        f"label {POOL}": (labels.get(POOL), places.POOL),
        f"annotation {EXECUTOR}": (annotations.get(EXECUTOR), POD),
        f"annotation {EXECUTOR_UID}": (annotations.get(EXECUTOR_UID), place.uid),
        "spec.holderIdentity": (spec.get("holderIdentity"), place.uid),
    }
    for what, (found, value) in wanted.items():
        if found != value:
            return f"{what} is {json.dumps(found)}, expected: {json.dumps(value)}"
    if (spec.get("leaseDurationSeconds") or 0) < place.timing.lease_s:
        return f"spec.leaseDurationSeconds is {spec.get('leaseDurationSeconds')}, expected: {place.timing.lease_s:g}"
    return "" if spec.get("renewTime") else "spec.renewTime is absent"
