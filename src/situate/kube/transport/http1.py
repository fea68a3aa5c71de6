"""Parses an HTTP/1.1 answer from pieces of bytes, without I/O (RFC 9112).

Covers the answers of an API server: content-length, chunked and until-close bodies, interim answers, and answers
without a body. Ambiguous answers are refused.
"""

from __future__ import annotations

import re
from typing import Final

_MAX_HEAD: Final = 2**16
_MAX_CHUNK_LINE: Final = 256
_CHUNK_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,12})[ \t]*(?:;[^\r\n]{0,240})?\r\n")
"""Chunk extensions are skipped, as RFC 9112 requires for unknown ones."""

_HEAD, _LENGTH, _CHUNK_SIZE, _CHUNK_END, _TRAILER, _UNTIL_CLOSE, _DONE = range(7)


class BadAnswer(Exception):
    """The peer does not speak HTTP/1.1, or ended in the middle of an answer."""


class AnswerParser:
    """One answer. After `feed`, `status` is not 0 once the head has arrived, and `complete` is true at the end."""

    __slots__ = ("_bodiless", "_buffer", "_chunked", "_left", "_state", "headers", "keep_alive", "pieces", "status")

    def __init__(self, *, bodiless: bool = False) -> None:
        """`bodiless`: the answer has no body whatever its headers, as the answer to CONNECT."""
        self.status = 0
        self.headers: dict[str, str] = {}
        """Names in lower case; repeated ones are joined by commas."""
        self.pieces: list[bytes] = []
        """Pieces of the body, in order; a reader of a stream takes them as they arrive."""
        self.keep_alive = True
        """Whether the connection can carry another exchange after this one."""
        self._bodiless = bodiless
        self._buffer = b""
        self._left = 0
        """Bytes of the body or chunk that are still missing."""
        self._chunked = False
        self._state = _HEAD

    @property
    def complete(self) -> bool:
        return self._state == _DONE

    def feed(self, data: bytes) -> None:
        """Parse bytes that arrived; `BadAnswer` if they cannot be HTTP."""
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        # Parsed by offset: a watch sends each event as a chunk, and cutting off the rest would copy it each time.
        at, size = 0, len(data)
        while at < size:
            state = self._state
            if state == _LENGTH:
                at = self._take_body(data, at)
            elif state == _CHUNK_SIZE:
                at = self._read_chunks(data, at)
            elif state == _HEAD:
                at = self._read_head(data, at)
            elif state == _UNTIL_CLOSE:
                self.pieces.append(data[at:])
                return
            elif state == _DONE:
                # Bytes after the end of the answer: the connection is out of step.
                self.keep_alive = False
                return
            else:
                at = self._read_line(data, at)

    def end(self) -> None:
        """End the answer because the peer closed the connection; `BadAnswer` if the answer is incomplete."""
        self.keep_alive = False
        if self._state == _UNTIL_CLOSE:
            self._state = _DONE
        elif self._state != _DONE:
            where = "in the middle of the answer" if self.status else "before it answered"
            raise BadAnswer(f"the server closed the connection {where}")

    def _take_body(self, data: bytes, at: int) -> int:
        end = at + self._left
        if len(data) < end:
            self.pieces.append(data[at:])
            self._left = end - len(data)
            return len(data)
        self.pieces.append(data[at:end])
        self._left = 0
        self._state = _CHUNK_END if self._chunked else _DONE
        return end

    def _read_head(self, data: bytes, at: int) -> int:
        end = data.find(b"\r\n\r\n", at)
        if end < 0:
            self._buffer = data[at:]
            if len(self._buffer) > _MAX_HEAD:
                raise BadAnswer(f"the head of the answer is longer than {_MAX_HEAD} bytes")
            if len(self._buffer) >= 5 and not self._buffer.startswith(b"HTTP/"):
                raise BadAnswer("the answer is not HTTP")
            return len(data)
        lines = data[at:end].decode("latin-1").split("\r\n")
        version, status = lines[0][:9], lines[0][9:12]
        if version not in ("HTTP/1.1 ", "HTTP/1.0 ") or not (
            status.isascii() and status.isdigit() and len(status) == 3
        ):
            raise BadAnswer("the answer is not HTTP/1.1")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or not name or name[0] in " \t":
                raise BadAnswer(f"the answer has a header without a name: {line[:40]!r}")
            name, value = name.lower(), value.strip(" \t")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        number = int(status)
        if 100 <= number < 200 and number != 101:
            return end + 4  # an interim answer; the real one follows
        self.status, self.headers = number, headers
        connection = headers.get("connection", "").lower()
        self.keep_alive = "keep-alive" in connection if version == "HTTP/1.0 " else "close" not in connection
        self._state = self._body_state()
        return end + 4

    def _body_state(self) -> int:
        """Return the state for the body's kind of end."""
        if self._bodiless or self.status in (204, 304):
            return _DONE
        encoding = self.headers.get("transfer-encoding", "")
        if encoding:
            if encoding.lower() != "chunked":
                raise BadAnswer(f"the answer has transfer-encoding {encoding[:40]!r}, allowed: chunked")
            self._chunked = True
            return _CHUNK_SIZE
        length = self.headers.get("content-length")
        if length is None:
            self.keep_alive = False
            return _UNTIL_CLOSE
        if not (length.isascii() and length.isdigit() and len(length) < 16):
            raise BadAnswer(f"the answer has content-length {length[:40]!r}, allowed: a number of bytes")
        self._left = int(length)
        return _LENGTH if self._left else _DONE

    def _read_chunks(self, data: bytes, at: int) -> int:
        """Read whole chunks while they follow one another, and the size line of an incomplete one."""
        while line := _CHUNK_SIZE_LINE.match(data, at):
            start = line.end()
            left = int(line[1], 16)
            stop = start + left
            if not left or not data.startswith(b"\r\n", stop):
                self._left = left
                self._state = _LENGTH if left else _TRAILER
                return start
            self.pieces.append(data[start:stop])
            at = stop + 2
        if data.find(b"\r\n", at) >= 0:
            raise BadAnswer("the answer's chunks are malformed")
        self._wait_for_line(data, at, _MAX_CHUNK_LINE)
        return len(data)

    def _read_line(self, data: bytes, at: int) -> int:
        """Read the line after a chunk: an empty line; after the last chunk, trailers and an empty line."""
        end = data.find(b"\r\n", at)
        if end < 0:
            self._wait_for_line(data, at, _MAX_HEAD if self._state == _TRAILER else _MAX_CHUNK_LINE)
            return len(data)
        if self._state == _CHUNK_END:
            if end > at:
                raise BadAnswer("the answer's chunks are malformed")
            self._state = _CHUNK_SIZE
        elif end == at:
            self._state = _DONE
        return end + 2

    def _wait_for_line(self, data: bytes, at: int, most: int) -> None:
        if len(data) - at > most:
            raise BadAnswer("the answer's chunks are malformed")
        self._buffer = data[at:]
