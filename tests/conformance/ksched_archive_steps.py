"""The phrases of archive.json's `failure_sequences` as values: calls with their outcomes, faults, facts, markers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from situate.sharding.archiving import Step
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
    step: Step
    result: Result = Result.OK
    uid: str = ""
    """Empty: of the object that the case is about."""
    by: str = ""
    """Empty: the supervisor that leads."""
    times: int = 1
    over_s: float = 0.0


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
    """The cache is behind the API."""

    cached: int
    stored: int


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
    "archive": Step.PUT,
    "upsert": Step.PUT,
    "put": Step.PUT,
    "write": Step.PUT,
    "insert": Step.PUT,
    "replace": Step.PUT,
    "verify": Step.VERIFY,
    "read back": Step.VERIFY,
    "remove finalizer": Step.RELEASE,
    "delete": Step.DELETE,
}
_CALL: Final = re.compile(
    r"(?:(?P<by>s\d)[: ] ?)?(?:(?:uid=)?(?P<uid>u\d+)[: ] ?)?(?P<name>" + "|".join(_STEPS) + r")\b:? ?(?P<result>.*)"
)
_REPEATED: Final = re.compile(
    r"(?P<result>.*?) ?x ?(?P<times>n|\d+)(?: (?:over|for|within) (?P<over>\d+) ?(?P<unit>h|min|m|s))?"
)
_TORN: Final = Call(Step.PUT, Result.TORN)
_UNITS: Final = {"h": 3600.0, "min": 60.0, "m": 60.0, "s": 1.0}
_N: Final = 12
"""How often `x N` is: the back-off grows, so that an hour has some dozens of attempts at most."""

_RESULTS: Final[tuple[tuple[str, Result], ...]] = (
    (r"(ok)?(,? (again|twice|idempotent))?", Result.OK),
    (r"with (precondition|uid precondition).*|with (rv|uid|resourceversion) precondition", Result.OK),
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
        r"(error|fails?|failed|rejected)?[:,]? ?[(]?(permanent(ly)?( error)?[:,]? ?)?"
        r"(the )?(record |object )?(is )?too large[)]?"
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
    for shorter in (re.sub(r"\s*\([^)]*\)$", "", phrase), re.sub(r"\brv=\d+\b\s*", "", phrase)):
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
            return meaning({name: value or "" for name, value in match.groupdict().items()}, _uids(phrase))
    return [_call(text, phrase)]


def _call(text: str, phrase: str) -> Call:
    match = _CALL.fullmatch(text)
    if match is None:
        raise UnknownPhraseError(phrase)
    result, times, over_s = match["result"], 1, 0.0
    if repeated := _REPEATED.fullmatch(result):
        result = repeated["result"]
        times = _N if repeated["times"] == "n" else int(repeated["times"])
        over_s = float(repeated["over"] or 0) * _UNITS[repeated["unit"] or "s"]
    uid = next(iter(_uids(phrase)), "") if match["uid"] else ""
    if match["by"] and result.startswith("rejected"):
        result = "ok"  # whether it is rejected is for the server to say
    for pattern, found in _RESULTS:
        if re.fullmatch(pattern, result):
            return Call(_STEPS[match["name"]], found, uid, match["by"] or "", times, over_s)
    raise UnknownPhraseError(phrase)


def _uids(phrase: str) -> list[str]:
    """As the phrase spells them."""
    return re.findall(r"\b(?:uid=(?=\w))?([Uu]\d+)\b", phrase)


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
    (r"\(new supervisor\)|\(restart(ed)?\)|\(supervisor restart(ed|s)?\)", lambda *_: [NewSupervisor()]),
    (
        r"\(?(?P<name>s\d) (is )?(elected|leads|leader|takes over|becomes (the )?leader)\)?",
        lambda g, _: [NewSupervisor(g["name"])],
    ),
    (r"\(?new supervisor (?P<name>s\d)\)?", lambda g, _: [NewSupervisor(g["name"])]),
    (r"\(back-?off[^,]*\)", lambda *_: [Marker(waiting=True)]),
    (r"\(?s\d (is )?(paused|pauses?|sleeps|sigstop|stopped|loses its lease|lease lost)\b.*", lambda *_: [Marker()]),
    (r"\(.*\)", lambda *_: [Marker()]),
    (r"(?P<name>s\d) (resumes|resumed|wakes( up)?|continues|sigcont)", lambda g, _: [Resumed(g["name"])]),
    (
        r"(?P<name>s\d) (resumes|resumed|wakes( up)?|continues|sigcont)(:|,| and| with)? (?P<rest>.+)",
        lambda g, _: [_call(text := f"{g['name']} {g['rest']}", text)],
    ),
    (r"(object has (a )?)?foreign finalizer( (is )?(present|added))?", lambda *_: [Foreign(True)]),
    (r"foreign finalizer (is )?(removed|gone)", lambda *_: [Foreign(False)]),
    (r"enospc.*|disk (is )?full.*|no space left.*", lambda *_: [Call(Step.PUT, Result.FULL)]),
    (
        r"connection lost( during commit)?|commit unknown|write concern timeout|primary steps down",
        lambda *_: [Call(Step.PUT, Result.UNKNOWN)],
    ),
    (r"connection lost after commit", lambda *_: [Call(Step.PUT, Result.LOST)]),
    (
        r"connection lost before commit|deadlock|serialization failure|not primary|fsync error|eio.*",
        lambda *_: [Call(Step.PUT, Result.FAILED)],
    ),
    (
        r"(backend|archive) (is )?(down|away|unreachable) (for )?(?P<over>\d+) ?(?P<unit>h|min|m|s)",
        lambda g, _: [Call(Step.PUT, Result.FAILED, times=_N, over_s=float(g["over"]) * _UNITS[g["unit"]])],
    ),
    (r"(backend|archive|disk) (is )?back|(disk )?space (is )?freed|backend up", lambda *_: [Outage(False)]),
    (r"(backend|archive) (is )?(down|away|unreachable)", lambda *_: [Outage(True)]),
    (
        r"cache holds rv=(?P<cached>\d+), api holds rv=(?P<stored>\d+)",
        lambda g, _: [Cached(int(g["cached"]), int(g["stored"]))],
    ),
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
        r"(the )?(archived? )?(record|copy)( in the archive)? (is )?"
        r"(edited|corrupted|tampered with|changed|torn|truncated)( by hand)?",
        lambda *_: [RecordEdited()],
    ),
    (
        r"(the )?(archived? )?(record|copy)( in the archive)? (is )?(deleted|lost|gone)( by hand)?",
        lambda *_: [RecordDeleted()],
    ),
    (r"(status )?(is )?written by (an |the )?executor|(the |an )?executor writes\b.*", lambda *_: [Edited()]),
    (r"delete issued for u\d+\b.*", lambda _, uids: [Call(Step.DELETE, uid=uids[0])]),
    (
        r"(the |a )?(user|somebody|controller|other client) "
        r"(edits|changes|updates|labels|annotates|patches|adds|sets|writes)\b.*"
        r"|(the |api )?object (is )?(changed|edited|updated|changes)\b.*",
        lambda *_: [Edited()],
    ),
    (r"(the )?user deletes (the )?object.*|object deleted by (a |the )?user", lambda *_: [UserDeletes()]),
    (r"(get|search)( by (name|uid))?|re-?read|read (the )?object|read ok|cache is stale", lambda *_: [Marker()]),
    (r"restore", lambda *_: [Restore()]),
    (r"compare", lambda *_: [Compare()]),
)  # fmt: skip
