"""Puts records from a process whose files may not grow beyond a limit: `python -m tests.archive.limited_writer URL`.

The kernel itself refuses, in the middle of a write, as on a quota or a full disk. Prints what became of each put, and
what a reader finds then.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys

from situate.archive.open_archive import open_archiver
from situate.archive.protocol import ArchiveError
from situate.archive.records.query import Query
from tests.archive.reports import archived, report

LIMIT = 256 << 10
"""Bytes: more than an empty database, less than the second record."""
RECORDS = (archived(report("small"), at_s=0), archived(report("large", data="x" * (2 * LIMIT)), at_s=1))


async def play(url: str) -> dict[str, object]:
    archiver = open_archiver(url, {})
    await archiver.check()
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, most))
    told: dict[str, object] = {}
    for record in RECORDS:
        try:
            await archiver.put(record)
        except ArchiveError as error:
            told[record.subject.name] = [type(error).__name__, str(error)]
        else:
            told[record.subject.name] = "stored"
    page = await archiver.search(Query())
    told["found"] = [record.subject.name for record in page.records]
    told["unreadable"] = len(page.corrupt)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    await archiver.put(RECORDS[1])
    told["then"] = [record.subject.name for record in (await archiver.search(Query())).records]
    await archiver.close()
    return told


if __name__ == "__main__":
    print(json.dumps(asyncio.run(play(sys.argv[1]))))
