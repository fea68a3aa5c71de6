"""Stores recordings on disk: bounded, in self-contained parts, readable up to the last whole line.

A file whose name ends in `.gz` is compressed. Flushed lines survive the end of the process. A full part is renamed to
`NAME.1`, older ones to `NAME.2` and so on, and the oldest is deleted.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

from situate.scheduler.recordings.format import BadRecording, Entry, Header, read_entries, read_header

_GZIP: Final = b"\x1f\x8b"


class RecordingFile:
    """A file open for writing, from its creation to `close`."""

    def __init__(self, path: Path, most_bytes: int, parts: int) -> None:
        """Open the file. Raises `OSError`.

        `most_bytes` bounds a part before compression. `parts` is the number of older parts to keep. An existing file of
        this name becomes the first of them.
        """
        self.path = path
        self.written = 0
        """Bytes of this part before compression."""
        self._most_bytes = self._limit = most_bytes
        self._parts = parts
        if path.exists():
            self._rotate_parts()
        self._file = self._open_part()

    def write(self, line: bytes) -> None:
        self._file.write(line)
        self.written += len(line)

    @property
    def full(self) -> bool:
        return self.written >= self._limit

    def raise_limit(self) -> None:
        """Raise the limit after the initial listing, so that at least as many bytes remain for changes."""
        self._limit = max(self._most_bytes, 2 * self.written)

    def flush(self) -> None:
        """Flush, so that lines written up to now can be read even if the process ends."""
        self._file.flush()

    def begin_part(self) -> None:
        """Rename this part and start another, which is a recording of its own."""
        self._file.close()
        self._rotate_parts()
        self._file = self._open_part()
        self.written, self._limit = 0, self._most_bytes

    def close(self) -> None:
        self._file.close()

    def _rotate_parts(self) -> None:
        for number in range(self._parts, 0, -1):
            older = self.path if number == 1 else self._part(number - 1)
            if older.exists():
                older.replace(self._part(number))

    def _part(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _open_part(self) -> IO[bytes]:
        if self.path.suffix == ".gz":
            return cast(IO[bytes], gzip.open(self.path, "wb", compresslevel=5))
        return self.path.open("wb")


@dataclass(frozen=True, slots=True)
class Recording:
    """The content of a file."""

    header: Header
    entries: tuple[Entry, ...]
    remarks: tuple[str, ...]
    """Lines that could not be used, and whether the end is missing."""

    @property
    def seconds(self) -> float:
        return self.entries[-1].at if self.entries else 0.0


def read_recording(path: Path) -> Recording:
    """Read a recording. Raises `BadRecording` and `OSError`."""
    remarks: list[str] = []
    with path.open("rb") as raw:
        compressed = raw.read(2) == _GZIP
    with cast(IO[bytes], gzip.open(path, "rb") if compressed else path.open("rb")) as file:
        lines = _whole_lines(file, remarks)
        first = next(lines, None)
        if first is None:
            raise BadRecording("the file is empty; record again with `situate scheduler record`")
        header = read_header(first)
        entries: list[Entry] = []
        for entry, remark in read_entries(lines):
            if entry is not None:
                entries.append(entry)
            if remark:
                remarks.append(remark)
    return Recording(header, tuple(entries), tuple(remarks))


def _whole_lines(file: Iterable[bytes], remarks: list[str]) -> Iterator[bytes]:
    """Yield whole lines, up to where the writer was cut off."""
    try:
        for line in file:
            if not line.endswith(b"\n"):
                remarks.append("the recording was cut off, so its incomplete last line is left out")
                return
            if line.strip():
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        remarks.append(f"the recording was cut off before its end ({problem})")
