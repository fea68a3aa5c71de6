"""Open the archive of a command. Its URL comes from a flag, a file or the environment; failures become sentences."""

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
from situate.cli.sharding.archive.options import ArchiveLocation
from situate.cli.terminal.failures import WrongInput
from situate.objects.settings.options import BadOptions
from situate.runtime.process.logs import configure_logging

T = TypeVar("T")


def archive_options(location: ArchiveLocation, prefix: str = "", **flags: Any) -> ArchiveOptions:
    """Return options from flags and the environment. Raises `WrongInput`.

    Further flags are named as the fields of `ArchiveOptions`.
    """
    before = f"{prefix}_" if prefix else ""
    flags |= {"archive_url": location.archive_url, "archive_url_file": location.archive_url_file}
    given = {f"{before}{name}": value for name, value in flags.items() if value is not None}
    try:
        return ArchiveOptions.from_namespace(argparse.Namespace(**given), prefix=prefix)
    except BadOptions as bad:
        raise WrongInput(str(bad)) from None


@asynccontextmanager
async def open_archive(
    options: ArchiveOptions, prefix: str = "", *, may_be_new: bool = False
) -> AsyncIterator[Archiver]:
    """Open the archive, and close it at the end. Raises `WrongInput` without a URL, or for a malformed one.

    A missing database file is refused unless it `may_be_new`: otherwise a mistyped name would create an empty database.
    """
    before, variable = (f"{prefix}-", f"{prefix.upper()}_") if prefix else ("", "")
    try:
        if not may_be_new:
            _require_file(options.url() or "")
        archiver = options.open()
    except (BadOptions, BadArchiveUrl) as bad:
        raise WrongInput(str(bad)) from None
    if archiver is None:
        raise WrongInput(
            f"no archive is configured: give --{before}archive-url, --{before}archive-url-file, or "
            f"SITUATE_{variable}ARCHIVE_URL in the environment"
        )
    try:
        yield archiver
    finally:
        await archiver.close()


def run_archive_work(work: Coroutine[Any, Any, T]) -> T:
    """Run the work to its end; libraries log only warnings."""
    configure_logging("warning")
    return asyncio.run(work)


def _require_file(url: str) -> None:
    scheme, _, rest = url.partition(":///")
    file = Path(unquote(rest.partition("?")[0]))
    if scheme == "sqlite" and not file.is_file():
        raise WrongInput(f"the archive file {file} does not exist; name the file that the supervisors write")
