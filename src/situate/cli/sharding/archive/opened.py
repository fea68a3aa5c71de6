"""The archive that a verb works on: its URL from a flag, a file or the environment, its failures as sentences."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from situate.archive.open_archive import BadArchiveUrl
from situate.archive.options import ArchiveOptions
from situate.archive.protocol import Archiver
from situate.cli.terminal.failures import WrongInput
from situate.objects.settings.options import BadOptions
from situate.runtime.process.logs import configure_logging

T = TypeVar("T")


def archive_options(prefix: str = "", **flags: Any) -> ArchiveOptions:
    """Of flags that the verb has, named as the fields of `ArchiveOptions`, and of the environment. `WrongInput`."""
    before = f"{prefix}_" if prefix else ""
    given = {f"{before}{name}": value for name, value in flags.items() if value is not None}
    try:
        return ArchiveOptions.from_namespace(argparse.Namespace(**given), prefix=prefix)
    except BadOptions as bad:
        raise WrongInput(str(bad)) from None


@asynccontextmanager
async def opened(options: ArchiveOptions, prefix: str = "", *, may_be_new: bool = False) -> AsyncIterator[Archiver]:
    """The archive, closed at the end. `WrongInput` where none is named, or the URL is none.

    Unless it `may_be_new`, a file that is not there is refused: a database would be made of a mistyped name, empty.
    """
    before, variable = (f"{prefix}-", f"{prefix.upper()}_") if prefix else ("", "")
    try:
        if not may_be_new:
            _check_is_there(options.url() or "")
        archiver = options.open()
    except (BadOptions, BadArchiveUrl) as bad:
        raise WrongInput(str(bad)) from None
    if archiver is None:
        raise WrongInput(
            f"no archive is named: give --{before}archive-url, --{before}archive-url-file, or "
            f"SITUATE_{variable}ARCHIVE_URL in the environment"
        )
    try:
        yield archiver
    finally:
        await archiver.close()


def run(work: Coroutine[Any, Any, T]) -> T:
    """To its end; libraries log warnings only."""
    configure_logging("warning")
    return asyncio.run(work)


def _check_is_there(url: str) -> None:
    scheme, _, rest = url.partition(":///")
    file = Path(unquote(rest.partition("?")[0]))
    if scheme == "sqlite" and not file.is_file():
        raise WrongInput(f"the archive's file {file} is not there; name the one that the supervisors write to")
