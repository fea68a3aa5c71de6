"""The phrases of archive.json's `failure_sequences` as values: calls with their outcomes, faults, facts, markers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from situate.sharding.assignment.archive_steps import ArchiveStep
from tests.conformance.outcome import UnknownPhraseError


class Result(Enum):
    """How a call ends."""

    OK = "ok"
    FAILED = "it is not carried out, and says that it may be tried again"
    LOST = "it is carried out, and the answer does not arrive"
    UNKNOWN = "it may have been carried out: both are to be tried"
    CONFLICT = "there is a newer version"
    MISSING = "what it is about is not there"
    DIFFERS = "what is read back is not what was written"
    REFUSED = "it will never be carried out"
    TORN = "the process is killed in the middle of it"
    FULL = "the disk has no room"


@dataclass(frozen=True, slots=True)
class Call:
    step: ArchiveStep
    result: Result = Result.OK
    uid: str = ""
    """Empty: of the object that the case is about."""
    by: str = ""
    """Empty: the supervisor that leads."""
    times: int = 1
    over_s: float = 0.0
    version: int | None = None
    """The resourceVersion that the phrase names."""


@dataclass(frozen=True, slots=True)
class Crash:
    """The supervisor is killed between two calls."""


@dataclass(frozen=True, slots=True)
class NewSupervisor:
    """Another one leads."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A supervisor that slept goes on where it was."""

    name: str


@dataclass(frozen=True, slots=True)
class Marker:
    """Something that happens by itself, or a word for readers."""

    waiting: bool = False
    """Whether the next attempt is still to come."""


@dataclass(frozen=True, slots=True)
class Cached:
    """The cache is behind the API. Without `stored` the API is as old, until a change is told."""

    cached: int
    stored: int | None = None


@dataclass(frozen=True, slots=True)
class Archived:
    """An object goes all the way, undisturbed."""

    uid: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """A user deletes the object, and makes another one of the same name."""

    uid: str
    successor: str


@dataclass(frozen=True, slots=True)
class Created:
    """A user makes an object of the name, which nobody has."""

    uid: str


@dataclass(frozen=True, slots=True)
class Edited:
    """A user changes the object."""

    version: int | None = None
    """The resourceVersion that it has from then on, if the phrase names it."""


@dataclass(frozen=True, slots=True)
class Unheld:
    """A user takes our finalizer off."""


@dataclass(frozen=True, slots=True)
class RecordEdited:
    """Somebody edits what is archived."""


@dataclass(frozen=True, slots=True)
class RecordDeleted:
    """Somebody deletes what is archived."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """Somebody else's finalizer."""

    present: bool


@dataclass(frozen=True, slots=True)
class UserDeletes:
    """A user asks for the object's deletion; finalizers hold it."""


@dataclass(frozen=True, slots=True)
class Outage:
    """From here on the archive fails, or works again."""

    down: bool


@dataclass(frozen=True, slots=True)
class Restore:
    """The newest record of the name becomes an object again."""


@dataclass(frozen=True, slots=True)
class Compare:
    """The restored object with the archived one."""


Event: TypeAlias = (
    Call
    | Crash
    | NewSupervisor
    | Resumed
    | Marker
    | Cached
    | Archived
    | Replaced
    | Created
    | Edited
    | Unheld
    | RecordEdited
    | RecordDeleted
    | Foreign
    | UserDeletes
    | Outage
    | Restore
    | Compare
)

_STEPS: Final = {
    "archive": ArchiveStep.PUT,
    "upsert": ArchiveStep.PUT,
    "put": ArchiveStep.PUT,
    "write": ArchiveStep.PUT,
    "insert": ArchiveStep.PUT,
    "replace": ArchiveStep.PUT,
    "verify": ArchiveStep.VERIFY,
    "read back": ArchiveStep.VERIFY,
    "remove finalizer": ArchiveStep.RELEASE,
    "delete": ArchiveStep.DELETE,
    "archives": ArchiveStep.PUT,
    "puts": ArchiveStep.PUT,
    "verifies": ArchiveStep.VERIFY,
    "reads back": ArchiveStep.VERIFY,
    "remove the finalizer": ArchiveStep.RELEASE,
    "remove our finalizer": ArchiveStep.RELEASE,
    "removes the finalizer": ArchiveStep.RELEASE,
    "removes finalizer": ArchiveStep.RELEASE,
    "finalizer removal": ArchiveStep.RELEASE,
    "deletes the object": ArchiveStep.DELETE,
    "delete the object": ArchiveStep.DELETE,
    "deletes": ArchiveStep.DELETE,
}
_CALL: Final = re.compile(
    r"(?:(?P<by>s\d)[: ] ?)?(?:(?:uid=)?(?P<uid>u\d+)[: ] ?)?(?P<name>"
    + "|".join(sorted(_STEPS, key=len, reverse=True))
    + r")\b:? ?(?P<result>.*)"
)
_VERSION: Final = re.compile(r"(?:,? ?(?:the )?(?:copy )?(?:of|at|for|from|to|with) )?\brv ?= ?(\d+)\b", re.IGNORECASE)
_PRECONDITION: Final = re.compile(
    r"(?:with |on )?(?:a |the )?(?:(?:uid|rv|resourceversion)(?: and (?:uid|rv|resourceversion))? )?precondition"
    r"(?: (?:on )?(?:uid|rv|resourceversion))?\b(?! failed)"
)
_LASTS: Final = re.compile(
    r"(?P<how>hangs|blocks|takes|is slow|slow)(?: for)? ?[(]?(?P<over>\d+) ?(?P<unit>h|min|m|s)[)]?"
)
_REPEATED: Final = re.compile(
    r"(?P<result>.*?) ?x ?(?P<times>n|\d+)(?: (?:over|for|within) (?P<over>\d+) ?(?P<unit>h|min|m|s))?"
)
_TORN: Final = Call(ArchiveStep.PUT, Result.TORN)
_UNITS: Final = {"h": 3600.0, "min": 60.0, "m": 60.0, "s": 1.0}
_N: Final = 12
"""How often `x N` is: the back-off grows, so that an hour has some dozens of attempts at most."""

_RESULTS: Final[tuple[tuple[str, Result], ...]] = (
    (r"(ok|found|accepted)?(,? (again|twice|idempotent))?", Result.OK),
    (r"(ok|stored|committed|accepted|timeout|timed out)\b.*(response|answer|stored).*", Result.LOST),
    (r"(ok|stored),? but (timed out|timeout|response lost)", Result.LOST),
    (r"commit unknown|outcome unknown|timeout|timed out|hangs|no answer|write concern timeout", Result.UNKNOWN),
    (r"(conflict|409|409 conflict|precondition failed|412)(,? ?[(].*)?|with .*: (conflict|409|412)", Result.CONFLICT),
    (r"not found|404|missing|404 not found|no record", Result.MISSING),
    (
        r"(digest|rv|resourceversion|checksum|content) (differs|mismatch|is wrong)|corrupt.*|garbage|torn|garbled"
        r"|truncated|wrong uid|mismatch",
        Result.DIFFERS,
    ),
    (
        r".*\btoo large\b.*|.*[(]permanent(ly)?[)]"
        r"|refused|forbidden|403|401|permission denied|access denied|413|rejected.*|permanent(ly)?( error)?"
        r"|(fails|failed) permanently",
        Result.REFUSED,
    ),
    (
        r"error|5\d\d.*|429.*|unavailable|connection (refused|reset|lost)|failed|fails|eio.*|fsync error|deadlock"
        r"|serialization failure",
        Result.FAILED,
    ),
    (r"(enospc|disk (is )?full|no space left)\b.*", Result.FULL),
)


def events_of(phrase: str) -> list[Event]:
    """Usually one. `UnknownPhraseError` for what the language does not have.

    What is known only without a remark in parentheses at its end, or as several phrases, is that.
    """
    try:
        return _events_of(phrase)
    except UnknownPhraseError:
        pass  # there are other ways to read it
    remark = re.compile(r"\s*\([^)]*\)$")
    for shorter in (remark.sub("", phrase), _VERSION.sub("", phrase), remark.sub("", _VERSION.sub("", phrase))):
        if shorter.strip() and shorter != phrase:
            try:
                return _events_of(shorter)
            except UnknownPhraseError:
                continue
    first, *rest = [part for part in re.split(r"[,;]\s+|\s+and\s+", phrase) if part]
    if not rest:
        raise UnknownPhraseError(phrase)
    by = re.match(r"(s\d)\b:?\s*", first)
    told = [first, *(part if by is None or re.match(r"s\d\b", part) else f"{by[1]} {part}" for part in rest)]
    return [event for part in told for event in _events_of(part)]


def _events_of(phrase: str) -> list[Event]:
    text = phrase.strip().lower()
    for pattern, meaning in _PHRASES:
        match = re.fullmatch(pattern, text)
        if match:
            found = meaning({name: value or "" for name, value in match.groupdict().items()}, _uids(phrase))
            version = _VERSION.search(text)
            if found == [Edited()] and version is not None:
                return [Edited(int(version[1]))]
            return found
    return [_call(text, phrase)]


def _call(text: str, phrase: str) -> Call:
    match = _CALL.fullmatch(text)
    if match is None:
        raise UnknownPhraseError(phrase)
    result, times, over_s = _PRECONDITION.sub("", _VERSION.sub("", match["result"])), 1, 0.0
    result = result.replace("()", "").strip(" :,;")
    version = _VERSION.search(match["result"])
    if lasts := _LASTS.fullmatch(result):
        result = "hangs" if lasts["how"] in ("hangs", "blocks") else "ok"
        over_s = float(lasts["over"]) * _UNITS[lasts["unit"]]
    elif repeated := _REPEATED.fullmatch(result):
        result = repeated["result"]
        times = _N if repeated["times"] == "n" else int(repeated["times"])
        over_s = float(repeated["over"] or 0) * _UNITS[repeated["unit"] or "s"]
    uid = next(iter(_uids(phrase)), "") if match["uid"] else ""
    if match["by"] and re.match(r"(is |was |must be )?rejected", result):
        result = "ok"  # whether it is rejected is for the server to say
    for pattern, found in _RESULTS:
        if re.fullmatch(pattern, result):
            step = _STEPS[match["name"]]
            return Call(step, found, uid, match["by"] or "", times, over_s, int(version[1]) if version else None)
    raise UnknownPhraseError(phrase)


def _uids(phrase: str) -> list[str]:
    """As the phrase spells them."""
    return re.findall(r"\b(?:uid=(?=\w))?([Uu]\d+)\b", phrase)


def _calls_of(name: str, rest: str) -> list[Event]:
    """The calls of a supervisor that wakes up, which may be several."""
    parts = re.split(r"[,;]\s+|\s+and\s+", rest)
    return [_call(text := f"{name} {part}", text) for part in parts]


Groups = Mapping[str, str]
_PHRASES: Final[tuple[tuple[str, Callable[[Groups, list[str]], list[Event]]], ...]] = (
    (
        r"crash before (rename|fsync)"
        r"|(crash|sigkill) (during|in|in mid-?|while) ?(the )?(archiv(e|ing)|writ(e|ing)|put|upload|rename)",
        lambda *_: [_TORN],
    ),
    (r"(temp|temporary|partial) file written, (crash|sigkill|process killed)", lambda *_: [_TORN]),
    (r"(temp|temporary|partial) file (written|renamed)|(rename|fsync) ok", lambda *_: [Marker()]),
    (r"(multipart )?upload (started|begun|abandoned)(,.*)?|multipart (started|upload abandoned)", lambda *_: [_TORN]),
    (
        r"((process|s\d|supervisor) (is )?)?(killed|crashes|dies|sigkill|crash)( [(]s\d[)])?"
        r"( (before|after|between) .*)?",
        lambda *_: [Crash()],
    ),
    (r"\(?(a )?new supervisor\)?|\(?(supervisor )?restart(ed|s)?\)?", lambda *_: [NewSupervisor()]),
    (r"\(?(?P<name>s\d) is (the )?(new )?(supervisor|leader)\)?", lambda g, _: [NewSupervisor(g["name"])]),
    (
        r"\(?(?P<name>s\d) (is )?(elected|leads|leader|takes over|becomes (the )?leader)\)?",
        lambda g, _: [NewSupervisor(g["name"])],
    ),
    (r"\(?new supervisor (?P<name>s\d)\)?", lambda g, _: [NewSupervisor(g["name"])]),
    (r"\((?!.*\b(then|later|until)\b).*\b(back-?off|repeat(ed|s|edly)?)\b.*\)", lambda *_: [Marker(waiting=True)]),
    (r"(retry|wait)", lambda *_: [Marker()]),
    (r"\(?s\d (is )?(paused|pauses?|sleeps|sigstop|stopped|loses its lease|lease lost)\b.*", lambda *_: [Marker()]),
    (r"\(.*\)", lambda *_: [Marker()]),
    (r"(?P<name>s\d) (resumes|resumed|wakes( up)?|continues|sigcont)", lambda g, _: [Resumed(g["name"])]),
    (
        r"(?P<name>s\d) (resumes|resumed|wakes( up)?|continues|sigcont)(:|,| and| with)? (?P<rest>.+)",
        lambda g, _: _calls_of(g["name"], g["rest"]),
    ),
    (r"(object has (a )?)?foreign finalizer( (is )?(present|added))?", lambda *_: [Foreign(True)]),
    (r"foreign finalizer (is )?(removed|gone)", lambda *_: [Foreign(False)]),
    (r"enospc.*|disk (is )?full.*|no space left.*", lambda *_: [Call(ArchiveStep.PUT, Result.FULL)]),
    (
        r"connection lost( during commit)?|commit unknown|write concern timeout|primary (steps down|fails over)",
        lambda *_: [Call(ArchiveStep.PUT, Result.UNKNOWN)],
    ),
    (r"connection lost after commit", lambda *_: [Call(ArchiveStep.PUT, Result.LOST)]),
    (
        r"connection lost before commit|deadlock|serialization failure|not primary|fsync error|eio.*",
        lambda *_: [Call(ArchiveStep.PUT, Result.FAILED)],
    ),
    (
        r"(backend|archive) (is )?(down|away|unreachable) (for )?(?P<over>\d+) ?(?P<unit>h|min|m|s)",
        lambda g, _: [Call(ArchiveStep.PUT, Result.FAILED, times=_N, over_s=float(g["over"]) * _UNITS[g["unit"]])],
    ),
    (r"(backend|archive|disk) (is )?back|(disk )?space (is )?freed|backend up", lambda *_: [Outage(False)]),
    (r"(backend|archive) (is )?(down|away|unreachable)", lambda *_: [Outage(True)]),
    (
        r"cache holds rv=(?P<cached>\d+), api holds rv=(?P<stored>\d+)",
        lambda g, _: [Cached(int(g["cached"]), int(g["stored"]))],
    ),
    (r"cache holds rv=(?P<cached>\d+)", lambda g, _: [Cached(int(g["cached"]))]),
    (r"(the )?api (holds|has|is at) rv=(?P<stored>\d+)", lambda g, _: [Edited(int(g["stored"]))]),
    (r"uid=\w+( of the same name)? archived and deleted", lambda _, uids: [Archived(uids[0])]),
    (
        r"u\d+ (is )?deleted( by (a |the )?user)?[;,]? (and )?u\d+ (is )?(re-?)?created with (the )?same name",
        lambda _, uids: [Replaced(uids[0], uids[1])],
    ),
    (
        r"(uid=)?u\d+ (is )?(re-?)?created( with (the )?same name| by (a |the )?user)?",
        lambda _, uids: [Created(uids[0])],
    ),
    (r"u\d+ (is )?deleted( by (a |the )?user)?", lambda *_: [UserDeletes()]),
    (
        r"(the )?(user|somebody) removes (the|our) finalizer|(our )?finalizer (is )?removed by (a |the )?user",
        lambda *_: [Unheld()],
    ),
    (
        r"(the )?((archived?|stored) )?(record|copy|file|row|object|document)( in the archive| of u\d+)? (is )?"
        r"(edited|corrupted|tampered with|torn|truncated|damaged|garbled|overwritten|bit-?flipped)"
        r"( by hand| on disk| in the archive)?|bit ?(flip|rot) in the (archive|archived (file|record|copy))",
        lambda *_: [RecordEdited()],
    ),
    (
        r"(the )?(archived? )?(record|copy)( in the archive)? (is )?(deleted|lost|gone)( by hand)?",
        lambda *_: [RecordDeleted()],
    ),
    (
        r"(status )?(is )?(written|updated)( by (an |the )?executor)?\b.*|(the |an )?executor writes\b.*"
        r"|(a )?status (write|update)\b.*",
        lambda *_: [Edited()],
    ),
    (r"(?P<uid>u\d+) (is )?(re-?)?created as u\d+", lambda _, uids: [Replaced(uids[0], uids[1])]),
    (r"delete issued for u\d+\b.*", lambda _, uids: [Call(ArchiveStep.DELETE, uid=uids[0])]),
    (
        r"(the |a )?(user|somebody|controller|other client) "
        r"(edits|changes|updates|labels|annotates|patches|adds|sets|writes)\b.*"
        r"|(the |api )?object (is )?(changed|edited|updated|changes)\b.*",
        lambda *_: [Edited()],
    ),
    (r"(the )?user deletes (the )?(object|u\d+).*|object deleted by (a |the )?user", lambda *_: [UserDeletes()]),
    (r"(get|search)( by (name|uid)| u\d+)?|re-?read|read (the )?object|read ok|cache is stale", lambda *_: [Marker()]),
    (r"restore", lambda *_: [Restore()]),
    (r"compare", lambda *_: [Compare()]),
)  # fmt: skip
