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
from situate.sharding.model.names import EXECUTOR, EXECUTOR_UID, POOL, STATUS, Cause
from situate.sharding.model.object_view import (
    DrainRequest,
    Holder,
    Placement,
    asked_to_drain,
    placed,
    revoked,
    view_of,
)
from situate.sharding.model.patches import Operations, guarded_patch
from situate.testing.sharding.contract import contract_environment as places
from situate.testing.sharding.contract.contract_environment import PATHS, POD, UNITS, Place
from situate.testing.sharding.contract.rules import Finding

PATIENCE_S: Final = 60.0
"""Time limit for steps without a deadline of their own: a process on a busy machine starts slowly."""
BEAT_S: Final = 1.0
"""Maximum seconds between two writes of the work."""
HELD_S: Final = 1.0
"""Delay of a write on its way."""


class NotTried(Exception):
    """The executor did not reach a state in which the remaining rules can be tested."""


async def played(place: Place) -> AsyncIterator[Finding]:
    """Play all scenes and yield their findings. Raises `NotTried`."""
    for part in (_lease, _work, _drain, _revocation, _late, _completion, _loss, _end):
        async for finding in part(place):
            yield finding
    refused = [each for each in place.landed if each.refusal is not None]
    said = ""
    if refused:
        first = refused[0]
        epochs = f"epoch {first.before.epoch} of {first.before.executor or 'no executor'}"
        said = f"the policy refuses {len(refused)} writes, first on {first.name} under {epochs}: {first.refusal}"
    yield Finding("fenced", not refused, said)


async def _lease(place: Place) -> AsyncIterator[Finding]:
    """Check that the Lease appears, has the right content, and is renewed."""
    if not await place.until(lambda: place.leases() or place.ended, PATIENCE_S) or place.ended:
        how = "has ended" if place.ended else f"created no Lease within {PATIENCE_S:g} s"
        raise NotTried(f"the executor {how}")
    lease = place.lease()
    if lease is None:
        yield Finding("lease", False, f"found Leases {place.leases()}, expected: {place.lease_name}")
        raise NotTried("supervisors find an executor only by its Lease")
    await place.until(lambda: (place.lease() or {})["spec"].get("holderIdentity") == place.uid, PATIENCE_S)
    lease = place.lease() or lease
    yield Finding("lease", not (wrong := _wrong_with(place, lease)), wrong)
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


async def _work(place: Place) -> AsyncIterator[Finding]:
    """Check that the executor begins its own object and leaves those of others alone."""
    strangers = {
        "other-uid": Holder(POD, "00000000-0000-0000-0000-000000000000"),
        "other-executor": Holder("executor-1", place.uid),
    }
    for name, holder in strangers.items():
        _create(place, name)
        _write(place, name, _assigning(place, name, holder))
    _create(place, "done")
    _write(place, "done", guarded_patch(place.get("done"), _done(place, "done")), "/status")
    _write(place, "done", _assigning(place, "done", Holder(POD, place.uid)))
    begun = await _begins(place, "own")
    yield Finding("claim", begun, "" if begun else f"the executor did not start the object within {PATIENCE_S:g} s")
    if not begun:
        raise NotTried("the other rules need an executor that starts its objects")
    await asyncio.sleep(2 * BEAT_S)
    touched = sorted({each.name for each in place.landed if each.name in (*strangers, "done")})
    yield Finding("others", not touched, f"the executor wrote to {', '.join(touched)}" if touched else "")


async def _drain(place: Place) -> AsyncIterator[Finding]:
    epoch = place.view("own").epoch
    deadline = place.wall() + timedelta(seconds=PATIENCE_S)
    content = place.get("own")
    request = DrainRequest(epoch, deadline, Cause.DRAIN)
    _write(place, "own", guarded_patch(content, asked_to_drain(view_of(content, PATHS), request)))
    await place.until(lambda: place.view("own").holder is None, PATIENCE_S)
    view, said = place.view("own"), ""
    if view.holder is not None:
        said = f"the object was not released within {PATIENCE_S:g} s"
    elif view.epoch != epoch or view.drain is not None:
        said = f"after the release the epoch is {view.epoch}, expected: {epoch}; drain request: {view.drain}"
    yield Finding("ack", not said, said)


async def _revocation(place: Place) -> AsyncIterator[Finding]:
    if not await _begins(place, "taken"):
        raise NotTried("the executor did not start a second object")
    _take(place, "taken")
    at, grace_s = place.now(), place.timing.cancel_grace_s + BEAT_S
    await asyncio.sleep(grace_s + 2 * BEAT_S)
    late = place.writes_of("taken", at)
    said = f"{len(late)} writes landed later, the last after {late[-1].at - at:.1f} s" if late else ""
    yield Finding("revoke", not late, said)


async def _late(place: Place) -> AsyncIterator[Finding]:
    """Check a write that is on its way while its object goes to another executor."""
    if not await _begins(place, "late"):
        raise NotTried("the executor did not start a third object")
    place.delay("late", HELD_S)
    await place.until(place.under_way, PATIENCE_S)
    _take(place, "late")
    _write(place, "late", _assigning(place, "late", Holder("executor-1", "another")))
    at = place.now()
    await asyncio.sleep(HELD_S + place.timing.cancel_grace_s)
    place.undisturbed()
    late = place.writes_of("late", at)
    yield Finding("late", not late, f"{len(late)} writes landed on an object of another executor" if late else "")


async def _completion(place: Place) -> AsyncIterator[Finding]:
    await _begins(place, "short", steps=2)
    await place.until(lambda: place.view("short").completed, PATIENCE_S)
    at, view = place.now(), place.view("short")
    await asyncio.sleep(2 * BEAT_S)
    after = place.writes_of("short", at)
    said = ""
    if view.completed_at is None:
        said = f"no status.completedAt within {PATIENCE_S:g} s"
    elif view.successful is not True:
        said = f"status.successful is {view.successful!r}, expected: true"
    elif after:
        said = f"{len(after)} writes landed after the completion"
    yield Finding("complete", not said, said)


async def _loss(place: Place) -> AsyncIterator[Finding]:
    """Refuse all renewals for a while, then accept them again."""
    if not await _begins(place, "lost"):
        raise NotTried("the executor did not start a fourth object")
    epoch = place.view("lost").epoch
    place.refuse_renewals()
    await asyncio.sleep(0.1)  # writes on their way have landed
    last = place.renewals[-1]
    await place.until(lambda: place.ended or place.now() > last + place.timing.lease_s, PATIENCE_S)
    await asyncio.sleep(2 * BEAT_S)
    late = place.writes_of("lost", last + place.timing.lease_s)
    said = f"the executor wrote {late[-1].at - last:.1f} s after the last renewal" if late else ""
    yield Finding("loss", not late, said)
    back = place.now()
    place.undisturbed()
    if place.ended:  # one way to stop; in a Pod the kubelet restarts the container
        await place.execute()
    renewed = await place.until(lambda: place.renewals[-1] > back, PATIENCE_S)
    if not renewed:
        raise NotTried("the executor did not renew its Lease when renewals were accepted again")
    await place.until(lambda: place.view("lost").holder is None, 2 * place.timing.renew_s + 2 * BEAT_S)
    again = [
        each for each in place.writes_of("lost", back) if each.after.holder is not None and each.after.epoch == epoch
    ]
    said = (
        f"{len(again)} writes under epoch {epoch} landed after the Lease was lost and acquired again" if again else ""
    )
    yield Finding("forgone", not again, said)


async def _end(place: Place) -> AsyncIterator[Finding]:
    if not await _begins(place, "last"):
        raise NotTried("the executor did not start a fifth object")
    assert place.process is not None, "it was started"
    place.process.send_signal(signal.SIGTERM)
    gone = await place.until(lambda: place.ended, PATIENCE_S)
    holder = ((place.lease() or {}).get("spec") or {}).get("holderIdentity")
    said = ""
    if not gone:
        said = f"the executor did not end within {PATIENCE_S:g} s"
    elif place.view("last").holder is not None:
        said = "the executor has ended, but its object is still assigned to it"
    elif holder:
        said = f"the executor has ended, but {holder} still holds its Lease"
    yield Finding("sigterm", not said, said)


async def _begins(place: Place, name: str, **spec: Any) -> bool:
    """Create an object and return whether the executor works on it.

    The object is assigned again if the executor released it, because a busy machine loses Leases.
    """
    _create(place, name, **spec)

    def look() -> bool:
        view = place.view(name)
        if view.holder is None and not view.completed:
            _write(place, name, _assigning(place, name, Holder(POD, place.uid)))
        return place.ended or place.by(name) == place.uid

    return await place.until(look, PATIENCE_S) and not place.ended


def _create(place: Place, name: str, **spec: Any) -> None:
    unit = {"apiVersion": f"{places.GROUP}/v1", "kind": "Unit", "metadata": {"name": name}, "spec": {"work": 1, **spec}}
    place.call("POST", UNITS, unit)


def _assigning(place: Place, name: str, holder: Holder) -> Operations:
    content = place.get(name)
    placement = Placement(holder, 1, place.wall(), Cause.NEW, None)
    return guarded_patch(content, placed(view_of(content, PATHS), PATHS, placement))


def _take(place: Place, name: str) -> None:
    """Revoke an object.

    Reading and writing happen at once on the server's own loop, so no other write comes between.
    """
    content = place.get(name)
    _write(place, name, guarded_patch(content, revoked(view_of(content, PATHS), PATHS, 1, Cause.DRAIN)))


def _done(place: Place, name: str) -> Any:
    return PATHS.complete(place.get(name), place.wall(), successful=True)


def _write(place: Place, name: str, operations: Operations, subresource: str = "") -> None:
    place.call("PATCH", f"{UNITS}/{name}{subresource}", [*operations])


def _wrong_with(place: Place, lease: dict[str, Any]) -> str:
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
