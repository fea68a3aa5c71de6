"""Delete records that are older than their retention. Each deletion is written to the audit log first."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from situate.archive.operations.retention import Deletion, PruneResult
from situate.archive.operations.retention import prune as pruned
from situate.archive.options import ArchiveOptions
from situate.archive.records.query import Query
from situate.cli.sharding.archive.archive_access import archive_options, open_archive, run_archive_work
from situate.cli.sharding.archive.options import ArchiveLocation, Conditions, PruneOptions
from situate.cli.sharding.archive.record_output import unreadable_data
from situate.cli.sharding.archive.record_query import build_query
from situate.cli.terminal.failures import WrongInput, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import print_answer
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_line
from situate.objects.values.durations import format_duration
from situate.objects.values.timestamps import micro_time


def prune(conditions: Conditions, how: PruneOptions, archive: ArchiveLocation, output: Format) -> None:
    """Delete the records that are older than their retention."""
    retention, dry_run = how.archive_retention or (), how.dry_run
    with report_failures():
        given = retention[0] if retention and "=" not in retention[0] else list(retention)
        options = archive_options(archive, archive_retention=given or None)
        if options.retention.shortest() is None:
            raise WrongInput("no retention is configured: give --archive-retention, such as 2160h")
        with _open_audit(how.audit_file, dry_run=dry_run) as audit, progress("deleting records"):
            done = run_archive_work(_prune(options, build_query(conditions), audit, dry_run=dry_run))
    told = {
        "dryRun": dry_run,
        "deleted": done.deleted,
        "lookedAt": done.looked_at,
        "unreadable": unreadable_data(done.corrupt),
    }
    text = f"{done.deleted} records {'would be' if dry_run else 'were'} deleted"
    print_answer(output, lambda: told, lambda: print_line(text), [f"not deleted: {bad}" for bad in done.corrupt])


class _Audit:
    """Log of deletions."""

    def __init__(self, file: TextIO, *, dry_run: bool) -> None:
        self._file = file
        self._dry_run = dry_run

    async def write(self, deletion: Deletion) -> None:
        """Write one deletion. Raises `WrongInput` if that fails."""
        subject = deletion.subject
        line: dict[str, Any] = {
            "at": micro_time(deletion.at),
            "action": "would delete" if self._dry_run else "delete",
            "kind": str(subject.group_kind),
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
            "digest": deletion.digest,
            "archivedAt": micro_time(deletion.archived_at),
            "retention": format_duration(deletion.retention.total_seconds()),
        }
        try:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
            if self._file is not sys.stderr:
                os.fsync(self._file.fileno())
        except OSError as problem:
            raise WrongInput(
                f"--audit-file: {self._file.name}: {problem.strerror}; no further record is deleted"
            ) from None


@contextmanager
def _open_audit(path: Path | None, *, dry_run: bool) -> Iterator[_Audit]:
    if path is None:
        yield _Audit(sys.stderr, dry_run=dry_run)
        return
    try:
        file = path.open("a", encoding="utf-8")
    except OSError as problem:
        raise WrongInput(f"--audit-file: {path}: {problem.strerror}; name a writable file") from None
    try:
        yield _Audit(file, dry_run=dry_run)
    finally:
        with suppress(OSError):  # each line was synced, and write errors have been reported already
            file.close()


async def _prune(options: ArchiveOptions, query: Query, audit: _Audit, *, dry_run: bool) -> PruneResult:
    async with open_archive(options) as archiver:
        now = datetime.now(UTC)
        return await pruned(archiver, options.retention, now, audit.write, query=query, dry_run=dry_run)
