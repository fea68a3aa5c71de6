"""Standard output and standard error as commands may use them: nothing that is printed can do harm or come to any.

What is printed may come from anybody who can write a status, and where it goes to is the caller's choice.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

UNREAD: Final = 141
"""128 and SIGPIPE: the exit code of a program that ends because nobody reads what it says."""
UNWRITABLE: Final = 1
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def printable(text: str) -> str:
    """The text with every character escaped that does not show: control sequences, reversed writing, line ends."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def bold(line: str) -> str:
    """Emphasized on a terminal that can; elsewhere, or where NO_COLOR is set, as it is."""
    plain = not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb" or "NO_COLOR" in os.environ
    return line if plain else f"\x1b[1m{line}\x1b[0m"


def say(line: str = "") -> None:
    """One line for people."""
    print(printable(line))


def complain(sentence: str) -> None:
    """On standard error, line by line."""
    for line in sentence.splitlines():
        print(f"situate: {printable(line)}", file=sys.stderr)


@contextmanager
def writable_output() -> Iterator[None]:
    """Around a whole command: whatever becomes of standard output, no traceback comes of it.

    It may have been closed, encode in ASCII, be a pipe that nobody reads to its end, or a file on a full disk.
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
        if sys.stdout is not output:  # so the command line's parser leaves it when the pipe has broken
            raise SystemExit(UNREAD) from None
        raise
    except BrokenPipeError:
        _forget(output)
        raise SystemExit(UNREAD) from None
    except OSError as problem:
        if problem.errno not in _NO_ROOM:
            raise
        _forget(output)
        complain(f"the output cannot be written: {os.strerror(problem.errno or 0)}")
        raise SystemExit(UNWRITABLE) from None


def _forget(output: TextIO) -> None:
    """What is buffered cannot be written, and Python would try again at the end of the process."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, output.fileno())
    os.close(nowhere)
