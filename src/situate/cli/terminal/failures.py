"""How a command ends: every failure that a person can mend is one sentence on standard error and an exit code.

| code | meaning |
| --- | --- |
| 0 | done |
| 1 | the answer is no: a check failed, a chapter of the demo did not hold; or it could not be done |
| 2 | the command line or the configuration is wrong |
| 3 | the cluster or the archive cannot be reached, or refused |
| 130 | interrupted |
| 141 | nobody reads the output any more, as at the end of a pipe |

A traceback is shown for defects of ours only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import typer

from situate.cli.terminal.streams import complain
from situate.kube.errors import KubeError
from situate.runtime.configuration.file import BadConfiguration


class ExitCode(IntEnum):
    DONE = 0
    NO = 1
    WRONG_INPUT = 2
    CLUSTER = 3
    INTERRUPTED = 130


class WrongInput(Exception):
    """What the person typed or wrote cannot be used; the text says what to do."""


class NotAllowed(Exception):
    """Something that is needed may not be read; the text is a sentence for each."""


@contextmanager
def mendable_failures() -> Iterator[None]:
    """Turns the failures that people can mend into a sentence and an exit code."""
    try:
        yield
    except (BadConfiguration, WrongInput) as wrong:
        _end(str(wrong), ExitCode.WRONG_INPUT)
    except (KubeError, NotAllowed) as failed:
        _end(str(failed), ExitCode.CLUSTER)
    except KeyboardInterrupt:
        _end("interrupted", ExitCode.INTERRUPTED)
    except typer.Exit:
        raise
    except Exception as failed:
        _end_for_the_archive(failed)
        raise


def _end_for_the_archive(failed: Exception) -> None:
    """Few commands have an archive: the others are spared its import, unless they fail."""
    from situate.archive.protocol import ArchiveCorrupt, ArchiveError, NotArchived

    if isinstance(failed, NotArchived | ArchiveCorrupt):
        _end(str(failed), ExitCode.NO)
    if isinstance(failed, ArchiveError):
        _end(str(failed), ExitCode.CLUSTER)


def _end(sentence: str, code: ExitCode) -> None:
    complain(sentence)
    raise typer.Exit(code)
