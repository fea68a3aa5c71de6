"""Units of work that give a supervisor and an executor occasion for each kind of call, and their handler.

The handler notes each of its runs in the file that LEDGER names, outside of everything that the processes could lose:
`begins UID:EPOCH PROCESS`, and `ends` likewise if it was let.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Final

from situate.sharding.executor.controller.work import Work
from situate.sharding.executor.next_step import Outcome
from situate.sharding.model.field_paths import Content
from situate.sharding.model.supervisor_config import SupervisorConfig

LEDGER: Final = "LEDGER"
DRAIN_S: Final = 1.0
SUPERVISING: Final = SupervisorConfig(archive_ttl=0.0, drain_timeout=DRAIN_S, scheduler_jitter=0.05)
STUBBORN_S: Final = 2 * DRAIN_S
"""Longer than a drain may take, and shorter than it may go on when its object was taken back."""
KINDS: Final[Mapping[str, frozenset[str]]] = {
    "quick": frozenset(("completes", "stores a record", "deletes", "lets go", "gives its Lease back")),
    "failing": frozenset(("fails",)),
    "stay": frozenset(("asks to drain", "releases")),
    "stubborn": frozenset(("takes back",)),
    "doomed": frozenset(("ends as failed",)),
    "orphan": frozenset(("takes back",)),
    "lone": frozenset(("says why",)),
    "odd": frozenset(("tells",)),
}
"""What is in a name: done at once; failing at once; never done; never done, and deaf to its cancellation; of an
executor that is gone, and lost too often; of one that is gone, and suits nobody else; suits nobody; cannot be read. And
the calls that they give occasion for, beside others: whoever is to leave does so in the midst of work."""


def kind_of(name: str) -> str:
    return name.partition("-")[0]


async def works(obj: Content, work: Work) -> Outcome | None:
    _note("begins", work)
    try:
        return await _worked(kind_of(obj["metadata"]["name"]), str(obj["spec"]["assignedTo"]), work)
    finally:
        _note("ends", work)


async def _worked(kind: str, by: str, work: Work) -> Outcome:
    if kind == "quick":
        return Outcome.succeeded("Done")
    if kind == "failing":
        raise ValueError("as it was told to")
    count = 0
    try:
        while True:
            count += 1
            await work.patch_status({"by": by, "count": count, "token": work.token})
            await asyncio.sleep(0.2)
    except asyncio.CancelledError:
        if kind == "stubborn":
            await asyncio.sleep(STUBBORN_S)
        raise


def _note(what: str, work: Work) -> None:
    ledger = os.open(os.environ[LEDGER], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(ledger, f"{what} {work.token} {os.getpid()}\n".encode())
    os.close(ledger)
