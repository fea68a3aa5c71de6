"""Exit codes of commands. Every failure that a user can fix is one sentence on standard error and an exit code.

| code | meaning |
| --- | --- |
| 0 | done |
| 1 | the answer is no: a check failed, a chapter of the demo did not hold; or the command failed |
| 2 | the command line or the configuration is wrong |
| 3 | the cluster or the archive cannot be reached, or refused |
| 130 | interrupted |
| 141 | broken pipe: the reader of the output has ended |

A traceback is shown only for defects of situate.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import typer

from situate.cli.terminal.streams import print_error
from situate.kube.errors import KubeError
from situate.runtime.configuration.file import BadConfiguration


class ExitCode(IntEnum):
    DONE = 0
    NO = 1
    WRONG_INPUT = 2
    CLUSTER = 3
    INTERRUPTED = 130


class WrongInput(Exception):
    """Unusable input on the command line or in a file. The text names the next step."""


class NotAllowed(Exception):
    """Missing permissions to read needed objects. The text has one sentence for each."""


@contextmanager
def report_failures() -> Iterator[None]:
    """Turn failures that users can fix into a sentence and an exit code."""
    try:
        yield
    except (BadConfiguration, WrongInput) as wrong:
        _exit_with(str(wrong), ExitCode.WRONG_INPUT)
    except (KubeError, NotAllowed) as failed:
        _exit_with(str(failed), ExitCode.CLUSTER)
    except KeyboardInterrupt:
        _exit_with("interrupted", ExitCode.INTERRUPTED)
    except typer.Exit:
        raise
    except Exception as failed:
        _exit_for_archive(failed)
        raise


def _exit_for_archive(failed: Exception) -> None:
    """End the command for a failure of an archive. Few commands use one, so its import waits for a failure."""
    from situate.archive.protocol import ArchiveCorrupt, ArchiveError, NotArchived

    if isinstance(failed, NotArchived | ArchiveCorrupt):
        _exit_with(str(failed), ExitCode.NO)
    if isinstance(failed, ArchiveError):
        _exit_with(str(failed), ExitCode.CLUSTER)


def _exit_with(sentence: str, code: ExitCode) -> None:
    print_error(sentence)
    raise typer.Exit(code)
