"""What an object's versions, the runs of its handler and its records must look like, whoever was killed when.

All of it is seen from outside: the versions by a watch of their own, the runs in a file that each run writes to itself,
the records in the archive. A status says by its `token` under which epoch it was written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from situate.sharding.model.names import FINALIZER
from situate.sharding.model.object_view import ObjectView, view_of
from situate.testing.sharding.world.reports import PATHS


@dataclass
class Seen:
    """One object."""

    versions: list[dict[str, Any]] = field(default_factory=list)
    gone: bool = False


class Run(NamedTuple):
    """A line of the ledger."""

    what: str
    """`begins` or `ends`."""
    token: str
    process: str

    @property
    def uid(self) -> str:
        return self.token.rpartition(":")[0]

    @property
    def epoch(self) -> int:
        return int(self.token.rpartition(":")[2])


def breaches(
    seen: Mapping[str, Seen], runs: Sequence[Run], records: Sequence[Mapping[str, Any]], executor: str
) -> Iterator[str]:
    """Each in a sentence. `seen`: by UID; `records` as they are stored; `executor`: the one that may work."""
    for uid, each in seen.items():
        views = [view_of(content, PATHS) for content in each.versions]
        of_it = [run for run in runs if run.uid == uid]
        kept = [record for record in records if record["subject"]["uid"] == uid]
        told = [*_of_versions(views), *_of_runs(views, of_it, executor), *_of_records(each, views, kept)]
        yield from (f"{views[-1].name}: {breach}" for breach in told)
    for uid, copies in Counter(record["subject"]["uid"] for record in records).items():
        if copies > 1 or uid not in seen:
            yield f"{uid}: {copies} records"


def _of_versions(views: Sequence[ObjectView]) -> Iterator[str]:
    for before, after in pairwise(views):
        now = f"version {after.resource_version}"
        if after.epoch < before.epoch:
            yield f"its epoch goes back (S3): {now}"
        if after.term < before.term:
            yield f"a supervisor writes that leads no longer (S10): {now}"
        if after.holder not in (None, before.holder):
            if after.epoch != before.epoch + 1:
                yield f"it is assigned without the next epoch (S3): {now}"
            if before.completed:
                yield f"it is assigned after its completion (S6): {now}"
        if before.completed and _ending(after) != _ending(before):
            yield f"it is completed twice (S6): {now}"
        token = _token(after)
        if token != _token(before) and (before.completed or token != f"{before.uid}:{before.epoch}"):
            yield f"a stale write is accepted (S2): {now}"


def _of_runs(views: Sequence[ObjectView], runs: Sequence[Run], executor: str) -> Iterator[str]:
    given = {view.epoch for view in views if view.executor == executor}
    completed = next((view.epoch for view in views if view.completed), None)
    open_in: dict[str, str] = {}  # by process
    begun: set[str] = set()
    for run in runs:
        if run.what == "ends":
            open_in.pop(run.process, None)
            continue
        if run.token in begun:
            yield f"it is run twice under one epoch (S1): {run.token}"
        if run.process in open_in:
            yield f"it is run twice at a time (S1): {run.token}"
        if run.epoch not in given:
            yield f"it is run under an epoch that nobody was given (S11): {run.token}"
        if completed is not None and run.epoch > completed:
            yield f"it is run after its completion (S6): {run.token}"
        open_in[run.process] = run.token
        begun.add(run.token)
    last = views[-1]
    if completed is not None and last.reason in ("Done", "HandlerFailed") and f"{last.uid}:{completed}" not in begun:
        yield "it was completed and not run"


def _of_records(seen: Seen, views: Sequence[ObjectView], records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    held = [content for content, view in zip(seen.versions, views, strict=True) if view.has_finalizer(FINALIZER)]
    if seen.gone and not records and (held or any(view.holder for view in views)):
        yield "it is gone and not in the archive (S7)"
    let_go = seen.gone or not views[-1].has_finalizer(FINALIZER)
    if records and let_go and (not held or records[0]["object"] != held[-1]):
        yield "it was let go from another version than the archive holds (S7)"


def _token(view: ObjectView) -> str:
    return str((view.content.get("status") or {}).get("token", ""))


def _ending(view: ObjectView) -> tuple[object, ...]:
    return view.completed_at, view.successful, view.reason
