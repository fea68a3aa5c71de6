"""Write to standard output and standard error safely.

Printed text may come from any writer of a status, so control sequences are escaped. The caller chooses the output,
which may be a closed pipe or a full disk.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

BROKEN_PIPE: Final = 141
"""Exit code 128 + SIGPIPE, of a program whose output has no reader any more."""
WRITE_ERROR: Final = 1
_NO_SPACE_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def printable(text: str) -> str:
    """Escape every character that is not visible: control sequences, reversed writing, line ends."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def bold(line: str) -> str:
    """Return the line in bold for a terminal that supports it; unchanged elsewhere, or if NO_COLOR is set."""
    plain = not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb" or "NO_COLOR" in os.environ
    return line if plain else f"\x1b[1m{line}\x1b[0m"


def print_line(line: str = "") -> None:
    """Print one line for people."""
    print(printable(line))


def print_error(sentence: str) -> None:
    """Print to standard error, line by line."""
    for line in sentence.splitlines():
        print(f"situate: {printable(line)}", file=sys.stderr)


@contextmanager
def writable_output() -> Iterator[None]:
    """Wrap a whole command, so that a failing standard output causes no traceback.

    Standard output may be closed, encode in ASCII, be a pipe without a reader, or be a file on a full disk.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    output = sys.stdout
    try:
        try:
            yield
        finally:
            output.flush()
    except SystemExit:
        if sys.stdout is not output:  # the command line's parser does this when the pipe has broken
            raise SystemExit(BROKEN_PIPE) from None
        raise
    except BrokenPipeError:
        _discard_buffer(output)
        raise SystemExit(BROKEN_PIPE) from None
    except OSError as problem:
        if problem.errno not in _NO_SPACE_ERRORS:
            raise
        _discard_buffer(output)
        print_error(f"the output cannot be written: {os.strerror(problem.errno or 0)}")
        raise SystemExit(WRITE_ERROR) from None


def _discard_buffer(output: TextIO) -> None:
    """Discard buffered output that cannot be written. Python would try again at the end of the process."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, output.fileno())
    os.close(nowhere)
