"""What `final` of a failure sequence says, compared with how the sequence has ended."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, Final

from situate.archive.protocol import ArchiveCorrupt, NotArchived
from situate.archive.records.equality import Marks
from situate.archive.records.query import Query
from situate.archive.records.record import ByName, ByUid
from situate.sharding.assignment.archive_steps import Retry
from situate.sharding.model.names import EPOCH, FINALIZER
from tests.conformance.ksched_archive_play import KIND, MARKS, NAME, Play
from tests.conformance.ksched_world import ADAPTER
from tests.conformance.outcome import UnknownOperationError, UnknownPhraseError
from tests.sharding import builders
from tests.sharding.archive_outage import play_outage

_outage: Final = cache(play_outage)
_ABSENT: Final = frozenset({"not found", "notexist", "notexist error", "none", "absent"})
_WAYS: Final = {
    "condition": r"condition|status",
    "event": r"event",
    "alert": r"alert",
    "metric": r"metric",
    "verify": r"verify|verification|check|scrub|search|list|read",
}
_HELD: Final = {
    "kept": True,
    "present": True,
    "held": True,
    "yes": True,
    "stays": True,
    "still there": True,
    "in place": True,
    "not removed": True,
    "gone": False,
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


def _is_none(wanted: Any) -> bool:
    """Whether an expectation says that there is nothing."""
    return not wanted or wanted == "none"


def _as_told(wanted: Any, happened: bool) -> Any:
    """The expectation itself if it agrees: a name or true for something that happened, false or none for nothing."""
    agrees = isinstance(wanted, bool | str | None) and _is_none(wanted) is not happened
    return wanted if agrees else happened


async def _object_in_api(play: Play, wanted: Any) -> Any:
    present = next(iter(play.objects), None)
    return present if isinstance(wanted, str) else present is not None


async def _records(play: Play, wanted: Any) -> Any:
    if isinstance(wanted, Mapping):
        return {uid: await _count(play, uid) for uid in wanted}
    return await _count(play, play.first)


async def _count(play: Play, uid: str) -> int:
    """Records that cannot be read are there too."""
    readable = len((await play.backend.archiver.search(Query(uid=uid))).records)
    return readable + await _is_damaged(play, uid)


async def _is_damaged(play: Play, uid: str) -> bool:
    try:
        await play.backend.archiver.get(ByUid(KIND, uid, (builders.NAMESPACE, NAME)))
    except ArchiveCorrupt:
        return True
    except NotArchived:
        pass  # what is not there is not damaged
    return False


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
        return wanted if str(wanted).lower().split(" (")[0] in _ABSENT else None
    except ArchiveCorrupt:
        return wanted if re.match(r"(an )?error|corrupt|damaged|unreadable", str(wanted).lower()) else "an error"
    words = str(wanted).split(" ")
    return " ".join((record.subject.uid, *words[1:]))


async def _by_uid(play: Play, wanted: Any) -> Any:
    listed = [wanted] if isinstance(wanted, str) else list(wanted)
    found = []
    for uid in listed:
        try:
            found.append((await play.backend.archiver.get(ByUid(KIND, uid))).subject.uid)
        except NotArchived:
            continue
    if isinstance(wanted, Mapping):
        return {uid: said if _means_found(said) is (uid in found) else uid in found for uid, said in wanted.items()}
    return wanted if found == listed else found


def _means_found(said: Any) -> bool:
    return said if isinstance(said, bool) else said is not None and str(said).lower() not in _ABSENT


async def _condition(play: Play, wanted: Any) -> Any:
    """`ArchiveFailed` as the last attempt left it; also as the name of the Event."""
    said = isinstance(play.last, Retry) and play.last.condition
    if _is_none(wanted) or not isinstance(wanted, str):
        return _as_told(wanted, said)
    return wanted if said and re.search(r"archiv|too ?large|fail", wanted, re.IGNORECASE) else None


async def _event(play: Play, wanted: Any) -> Any:
    """One was written at some time."""
    return _as_told(wanted, play.conditions > 0)


async def _alert(play: Play, wanted: Any) -> Any:
    return _as_told(wanted, play.alerts > 0)


async def _requeue(play: Play, wanted: Any) -> Any:
    if not isinstance(play.last, Retry):
        return wanted if _is_none(wanted) else "none"
    long = any(word in str(wanted) for word in ("1h", "1 h", "3600"))
    back_off = re.search(r"\bback-?off\b", str(wanted)) is not None  # each has a cap
    return wanted if back_off and (not long or play.last.cap_s == 3600) else "backoff"


async def _reported_by(play: Play, wanted: Any) -> Any:
    """Every way that is named tells of the failure, or of the record that cannot be read."""
    said = {
        "condition": isinstance(play.last, Retry) and play.last.condition,
        "event": play.conditions > 0,
        "alert": play.alerts > 0,
        "metric": play.conditions > 0 or play.alerts > 0,
        "verify": play.alerts > 0 or await _is_damaged(play, play.first),
    }
    ways = wanted if isinstance(wanted, list) else re.split(r"\s*(?:,|;|\band\b|\+)\s*", str(wanted))
    for way in ways:
        meant = [name for name, pattern in _WAYS.items() if re.search(pattern, str(way), re.IGNORECASE)]
        if not meant:
            raise UnknownPhraseError(f"reported_by {way}")
        if not any(said[name] for name in meant):
            return f"not by {way}"
    return wanted


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
    "reported_by": _reported_by,
    "scheduling_of_other_objects_blocked_s_max": _blocked,
    "s1_writes_rejected": _rejected,
    "equal_except": _equal_except,
    "not_restored": _not_restored,
}
