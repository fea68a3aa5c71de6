"""archive.json: policies, failure sequences, searches and reading through, each in a real archive of every kind that
runs in this process: in memory, in files, and in SQLite. The suite in tests/archive holds the other stores to the same.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from situate.archive.operations.object_reader import LivePage, ReadThrough, Selection
from situate.archive.protocol import Archiver, ArchiveUnavailable, NotArchived
from situate.archive.records.query import Query
from situate.archive.records.record import record_of
from situate.objects.kinds.selectors import LabelSelectorRequirement
from tests.conformance.ksched_archive_backends import BACKENDS, Backend
from tests.conformance.ksched_archive_final import differences
from tests.conformance.ksched_archive_play import KIND, Play
from tests.conformance.ksched_archive_steps import Call, Result, events_of
from tests.conformance.ksched_basis import listed
from tests.conformance.ksched_ttl import ttl_policy
from tests.conformance.outcome import PASSED, Case, CaseRunner, Outcome, UnknownOperationError, failed
from tests.sharding import builders

Run = Callable[[Case, Backend], Coroutine[Any, Any, Outcome]]

_QUERY: Final = {
    "namespaces": "namespaces",
    "names": "names",
    "prefix": "prefix",
    "suffix": "suffix",
    "substring": "substring",
    "matchLabels": "match_labels",
    "matchExpressions": "match_expressions",
}


def archive_cases(document: Any) -> list[Case]:
    """Every group's cases; each search with the content that is searched."""
    searches = document.get("query", {})
    content = {"objects": searches.get("objects", [])}
    return [
        *listed(document, ("ttl_policies", "failure_sequences")),
        *({**content, **case} for case in listed(document, ("get",))),
        *({**content, **case} for case in listed({**document, "query": searches.get("cases", ())}, ("query",))),
    ]


def archive(case: Case) -> Outcome:
    """One case."""
    runner = _GROUPS.get(case["group"])
    if runner is None:
        raise UnknownOperationError(f"group {case['group']!r}; known: {', '.join(_GROUPS)}")
    return runner(case)


def _everywhere(run: Run) -> CaseRunner:
    """Passed if every backend passes."""

    async def on(case: Case, name: str) -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            backend = BACKENDS[name](Path(folder))
            try:
                return await run(case, backend)
            finally:
                await backend.archiver.close()

    def everywhere(case: Case) -> Outcome:
        for name in BACKENDS:
            outcome = asyncio.run(on(case, name))
            if outcome.verdict != "passed":
                return failed(f"{name}: {outcome.detail}")
        return PASSED

    return everywhere


async def _sequence(case: Case, backend: Backend) -> Outcome:
    phrases = case["steps"]
    play = Play(backend, stored_when_unknown=case["stored_when_unknown"])
    await play.run(phrases)
    found = await differences(play, case["final"])
    return failed("; ".join(found)) if found else PASSED


def _failure_sequence(case: Case) -> Outcome:
    """Where it is not known whether a call was carried out, once as if it was and once as if not."""
    events = [event for phrase in case["steps"] for event in events_of(phrase)]
    unknown = any(isinstance(event, Call) and event.result is Result.UNKNOWN for event in events)
    for stored in (False, True) if unknown else (True,):
        outcome = _everywhere(_sequence)({**case, "stored_when_unknown": stored})
        if outcome.verdict != "passed":
            return outcome
    return PASSED


async def _search(case: Case, backend: Backend) -> Outcome:
    for number, wire in enumerate(case["objects"]):
        await _put(backend.archiver, wire["namespace"], wire["name"], f"uid-{number}", wire.get("labels") or {})
    unknown = case["query"].keys() - _QUERY.keys()
    if unknown:
        raise UnknownOperationError(f"query with {', '.join(sorted(unknown))}; known: {', '.join(_QUERY)}")
    conditions = {_QUERY[name]: _condition(name, value) for name, value in case["query"].items() if value is not None}
    page = await backend.archiver.search(Query(**conditions))
    found = sorted(f"{record.subject.namespace}/{record.subject.name}" for record in page.records)
    return PASSED if found == sorted(case["expect"]) else failed(f"expected {sorted(case['expect'])}, got {found}")


def _condition(name: str, value: Any) -> Any:
    if name == "matchExpressions":
        return tuple(
            LabelSelectorRequirement(each["key"], each["operator"], tuple(each.get("values") or ())) for each in value
        )
    return tuple(value) if isinstance(value, list) else value


async def _get(case: Case, backend: Backend) -> Outcome:
    live, archived = (_objects(case.get(where)) for where in ("live", "archived"))
    if "archived" not in case and "live" not in case:  # a key of the content that all searches have
        archived = [(each["namespace"], each["name"], f"uid-{n}") for n, each in enumerate(case.get("objects") or ())]
    for number, (namespace, name, uid) in enumerate(archived):
        await _put(backend.archiver, namespace, name, uid, {}, number)
    archiver = _archiver(case.get("archiver", "ok"), backend)
    reading = ReadThrough(KIND, _Live(live), archiver, lambda: builders.wall(3600))
    if isinstance(case["expect"], list):
        listed_ = [
            (f"uid={item.content['metadata']['uid']}", "archived" if item.record else "live")
            for item in (await reading.list(Selection())).items
        ]
        wanted = [re.fullmatch(r"(uid=\S+)(?: \((live|archived)\))?", each) for each in case["expect"]]
        fits = len(listed_) == len(wanted) and all(
            each is not None and any(each[1] == uid and each[2] in (None, where) for uid, where in listed_)
            for each in wanted
        )
        return PASSED if fits else failed(f"expected {case['expect']}, got {listed_}")
    keys = [case["key"].split("/")] if "key" in case else [each[:2] for each in (*live, *archived)]
    namespace, name = keys[0] if keys else ("ns1", "a")
    return _told(case["expect"], await _got(reading, namespace, name))


def _archiver(name: str | None, backend: Backend) -> Archiver | None:
    """The one that the case names: none, one that fails, or any that works."""
    if name in (None, "none", "disabled", "noop", "no-op"):
        return None
    if re.search(r"error|away|unavailable|down|timeout|fail", name):
        return _Away()
    if re.fullmatch(r"ok|in-?memory|memory|file(system|s)?|s3|sql(ite)?|postgres(ql)?|mongodb", name, re.IGNORECASE):
        return backend.archiver
    raise UnknownOperationError(f"archiver {name!r}; known: none, ok, error, or the name of a backend")


async def _got(reading: ReadThrough, namespace: str, name: str) -> set[str]:
    """Everything that may be said of what was found."""
    try:
        found = await reading.get(namespace, name)
    except NotArchived:
        return {"notexist error", "not found", "notexist", "404", "notexist (404)", "absent", "none"}
    except ArchiveUnavailable:
        return {
            "error",
            "backend error",
            "backend failure",
            "unavailable",
            "unavailable error",
            "an error",
            *(f"{name}, not notexist" for name in ("error", "an error", "backend error", "backend failure")),
            *(f"{name} other than notexist" for name in ("error", "an error")),
            "error distinguishable from notexist",
        }
    where, uid = "archived" if found.record else "live", f"uid={found.content['metadata']['uid']}"
    one = {where, f"{where} object", f"{where} version", f"{where} copy", f"{where} one"}
    return {
        *one,
        *(f"the {each}" for each in one),
        "found",
        f"found ({where})",
        uid,
        f"{uid} ({where})",
        f"{where} {uid}",
    }


def _told(expected: str, words: set[str]) -> Outcome:
    plain = re.sub(r"\s*\((?!live|archived)[^)]*\)$", "", expected.lower())  # a remark in parentheses
    return PASSED if {expected.lower(), plain} & words else failed(f"expected {expected!r}, got one of {sorted(words)}")


def _objects(wire: Any) -> list[tuple[str, str, str]]:
    """Namespace, name and UID of each: `ns1/a uid=1`, or a version (`rv=5`, `v2`, true) of the object asked about."""
    found = []
    for each in [] if wire in (None, False) else wire if isinstance(wire, list) else [wire]:
        if isinstance(each, Mapping):
            found.append((each.get("namespace", "ns1"), each.get("name", "a"), str(each.get("uid", "1"))))
            continue
        text = str(each)
        match = re.fullmatch(r"(?:(\S+)/(\S+?))?(?:(?:^|,? +)uid=(\S+?))?(?:(?:^|,? +)rv=\d+)?(?: \(.*\))?", text)
        if match is None and not re.fullmatch(r"v?\d+|True|present|exists|object|yes|found", text):
            raise UnknownOperationError(f"object {text!r}; known: NAMESPACE/NAME uid=UID, rv=N")
        namespace, name, uid = match.groups() if match is not None else (None, None, None)
        found.append((namespace or "ns1", name or "a", uid or "1"))
    return found


async def _put(
    archiver: Archiver, namespace: str, name: str, uid: str, labels: Mapping[str, str], number: int = 0
) -> None:
    """The later of the cases' lists are the newer."""
    content = _content(namespace, name, uid)
    content["metadata"]["labels"] = dict(labels)
    await archiver.put(
        record_of(
            content,
            resource="reports",
            completed_at=builders.wall(0),
            successful=True,
            reason="",
            archived_at=builders.wall(60 + number),
            term=1,
        )
    )


def _content(namespace: str, name: str, uid: str) -> dict[str, Any]:
    content = builders.report(uid, completed=0, successful=True)
    return {**content, "metadata": {**content["metadata"], "namespace": namespace, "name": name}}


class _Live:
    """The cluster's objects."""

    def __init__(self, objects: list[tuple[str, str, str]]) -> None:
        self._objects = {(namespace, name): _content(namespace, name, uid) for namespace, name, uid in objects}

    async def get(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self._objects.get((namespace, name))

    async def list(self, selection: Selection, limit: int | None, continue_: str) -> LivePage:
        assert (selection, limit, continue_) == (Selection(), None, ""), "the cases list everything"
        return LivePage(tuple(self._objects.values()), "", "1")


class _Away:
    """An archive that does not answer."""

    async def _fails(self, *_: object) -> Any:
        raise ArchiveUnavailable("the archive is away")

    put = get = search = delete = check = _fails

    async def close(self) -> None:
        """Nothing to give back."""


_GROUPS: Final[Mapping[str, CaseRunner]] = {
    "ttl_policies": ttl_policy,
    "failure_sequences": _failure_sequence,
    "query": _everywhere(_search),
    "get": _everywhere(_get),
}
