"""What `final` of a failure sequence says, compared with how the sequence has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, Final

from situate.archive.equality import Marks
from situate.archive.protocol import NotArchived
from situate.archive.query import Query
from situate.archive.record import ByName, ByUid
from situate.sharding.archiving import Retry
from situate.sharding.names import EPOCH, FINALIZER
from situate.testing.sharding.shipped.outage import outage
from tests.conformance.ksched_archive_play import KIND, MARKS, NAME, Play
from tests.conformance.ksched_world import ADAPTER
from tests.conformance.outcome import UnknownOperationError, UnknownPhraseError
from tests.sharding import builders

_outage: Final = cache(outage)
_HELD: Final = {
    "kept": True,
    "present": True,
    "held": True,
    "yes": True,
    "removed": False,
    "absent": False,
    "no": False,
}


async def differences(play: Play, final: Mapping[str, Any]) -> list[str]:
    """One line a difference; none: it ended as it should."""
    found = []
    for name, wanted in final.items():
        check = _CHECKS.get(name)
        if check is None:
            raise UnknownOperationError(f"final {name!r}; known: {', '.join(_CHECKS)}")
        actual = await check(play, wanted)
        if actual != wanted:
            found.append(f"{name}: expected {wanted!r}, got {actual!r}")
    return found


async def _object_in_api(play: Play, wanted: Any) -> Any:
    present = next(iter(play.objects), None)
    return present if isinstance(wanted, str) else present is not None


async def _records(play: Play, wanted: Any) -> Any:
    if isinstance(wanted, Mapping):
        return {uid: await _count(play, uid) for uid in wanted}
    return await _count(play, play.first)


async def _count(play: Play, uid: str) -> int:
    return len((await play.backend.archiver.search(Query(uid=uid))).records)


async def _archived_version(play: Play, wanted: Any) -> Any:
    version = (await play.backend.archiver.get(ByUid(KIND, play.first))).subject.resource_version
    return version if isinstance(wanted, str) else int(version)


async def _finalizer(play: Play, wanted: Any) -> Any:
    content = next(iter(play.objects.values()), None)
    held = content is not None and FINALIZER in content["metadata"].get("finalizers", ())
    if isinstance(wanted, bool):
        return held
    if wanted not in _HELD:
        raise UnknownPhraseError(f"finalizer {wanted}")
    return wanted if _HELD[wanted] is held else f"{'present' if held else 'removed'}"


async def _partials(play: Play, _: Any) -> Any:
    return await play.backend.visible_partials()


async def _by_name(play: Play, wanted: Any) -> Any:
    """The words behind the UID are for readers."""
    try:
        record = await play.backend.archiver.get(ByName(KIND, builders.NAMESPACE, NAME))
    except NotArchived:
        return wanted if str(wanted).lower() in ("not found", "notexist") else None
    words = str(wanted).split(" ")
    return " ".join((record.subject.uid, *words[1:]))


async def _by_uid(play: Play, wanted: Any) -> Any:
    found = []
    for uid in wanted:
        try:
            found.append((await play.backend.archiver.get(ByUid(KIND, uid))).subject.uid)
        except NotArchived:
            continue
    return found


async def _condition(play: Play, wanted: Any) -> Any:
    """`ArchiveFailed` as the last attempt left it; also as the name of the Event."""
    said = isinstance(play.last, Retry) and play.last.condition
    if isinstance(wanted, str) and wanted != "none":
        return wanted if said and "ArchiveFailed" in wanted else None
    return wanted if bool(wanted and wanted != "none") is said else said


async def _event(play: Play, wanted: Any) -> Any:
    """One was written at some time."""
    return wanted if bool(wanted) is (play.conditions > 0) else play.conditions


async def _alert(play: Play, wanted: Any) -> Any:
    return wanted if bool(wanted) is (play.alerts > 0) else play.alerts


async def _requeue(play: Play, wanted: Any) -> Any:
    if not isinstance(play.last, Retry):
        return "none"
    long = any(word in str(wanted) for word in ("1h", "1 h", "3600"))
    return wanted if str(wanted).startswith("backoff") and (not long or play.last.cap_s == 3600) else "backoff"


async def _blocked(play: Play, wanted: Any) -> Any:
    """The shipped supervisor is asked, before an archive that is away for as long."""
    blocked_s = (await asyncio.to_thread(_outage, play.away_s)).assigned_s  # with event loops of its own
    return wanted if blocked_s <= wanted else blocked_s


async def _rejected(play: Play, wanted: Any) -> Any:
    return play.rejected > 0 if isinstance(wanted, bool) else play.rejected


async def _equal_except(play: Play, wanted: Any) -> Any:
    """Of the restored object everything else is as it was, what is not restored apart."""
    before, after = _restored(play)
    for path in wanted:
        *parents, name = path.split(".")
        before, after = _dropped(before, parents, name), _dropped(after, parents, name)
    before = _unmarked(dict(ADAPTER.assign_to(before, None)), MARKS)
    after = _unmarked(after, MARKS)
    return wanted if before == after else {"archived": before, "restored": after}


async def _not_restored(play: Play, wanted: Any) -> Any:
    _, after = _restored(play)
    metadata = after["metadata"]
    absent = {
        "our finalizer": FINALIZER not in metadata.get("finalizers", ()),
        "assignment": ADAPTER.assigned_to(after) is None,
        "epoch": EPOCH not in metadata.get("annotations", {}),
    }
    if unknown := set(wanted) - absent.keys():
        raise UnknownPhraseError(f"not_restored {', '.join(sorted(unknown))}")
    return [name for name in wanted if absent[name]]


def _restored(play: Play) -> tuple[dict[str, Any], dict[str, Any]]:
    if play.record is None:
        raise UnknownPhraseError("nothing was restored")
    return play.record.object, play.objects["restored"]


def _dropped(content: Mapping[str, Any], parents: list[str], name: str) -> dict[str, Any]:
    if not parents:
        return {key: value for key, value in content.items() if key != name}
    below = content.get(parents[0])
    return {**content, parents[0]: _dropped(below, parents[1:], name)} if isinstance(below, Mapping) else dict(content)


def _unmarked(content: dict[str, Any], marks: Marks) -> dict[str, Any]:
    """Without our finalizer and annotations; what they leave empty is as if it was absent."""
    metadata = dict(content["metadata"])
    finalizers = [each for each in metadata.pop("finalizers", ()) if each != marks.finalizer]
    metadata |= {"finalizers": finalizers} if finalizers else {}
    for field, ours in (("annotations", marks.annotations), ("labels", marks.labels)):
        left = {key: value for key, value in metadata.pop(field, {}).items() if key not in ours}
        metadata |= {field: left} if left else {}
    return {**content, "metadata": metadata}


_CHECKS: Final[Mapping[str, Callable[[Play, Any], Awaitable[Any]]]] = {
    "object_in_api": _object_in_api,
    "archive_records_for_uid": _records,
    "archived_resource_version": _archived_version,
    "finalizer": _finalizer,
    "partial_files_visible": _partials,
    "visible_partial_objects": _partials,
    "get_by_name": _by_name,
    "get_by_uid": _by_uid,
    "condition": _condition,
    "event": _event,
    "alert": _alert,
    "requeue": _requeue,
    "scheduling_of_other_objects_blocked_s_max": _blocked,
    "s1_writes_rejected": _rejected,
    "equal_except": _equal_except,
    "not_restored": _not_restored,
}
