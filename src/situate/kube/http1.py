"""Reads an HTTP/1.1 answer out of pieces of bytes, without I/O (RFC 9112).

Only what a client of an API server meets: content-length, chunked and until-close bodies, interim answers, and answers
without a body. Anything that could be read in two ways is refused.
"""

from __future__ import annotations

from typing import Final

_MAX_HEAD: Final = 2**16
_MAX_CHUNK_LINE: Final = 256
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")

_HEAD, _LENGTH, _CHUNK_SIZE, _CHUNK_END, _TRAILER, _UNTIL_CLOSE, _DONE = range(7)


class BadAnswer(Exception):
    """The other end does not speak HTTP/1.1, or broke off."""


class AnswerParser:
    """One answer. Feed it; then `status` is not 0 once the head is there, and `complete` once all is."""

    __slots__ = ("_bodiless", "_buffer", "_chunked", "_left", "_state", "headers", "keep_alive", "pieces", "status")

    def __init__(self, *, bodiless: bool = False) -> None:
        """`bodiless`: the answer has no body whatever it says, as to CONNECT."""
        self.status = 0
        self.headers: dict[str, str] = {}
        """Names in lower case; repeated ones are joined by commas."""
        self.pieces: list[bytes] = []
        """Of the body, in order; taken away by whoever reads while it arrives."""
        self.keep_alive = True
        """Whether the connection can carry another exchange once this one is complete."""
        self._bodiless = bodiless
        self._buffer = b""
        self._left = 0
        """Bytes of the body or chunk that are still to come."""
        self._chunked = False
        self._state = _HEAD

    @property
    def complete(self) -> bool:
        return self._state == _DONE

    def feed(self, data: bytes) -> None:
        """Takes what arrived; `BadAnswer` if it cannot be HTTP."""
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        while data:
            if self._state == _LENGTH:
                data = self._take(data)
            elif self._state == _HEAD:
                data = self._read_head(data)
            elif self._state == _UNTIL_CLOSE:
                self.pieces.append(data)
                return
            elif self._state == _DONE:
                # Nobody asked for more: whatever it is, the connection is out of step.
                self.keep_alive = False
                return
            else:
                data = self._read_line(data)

    def end(self) -> None:
        """The other end closed; `BadAnswer` if the answer is not whole."""
        self.keep_alive = False
        if self._state == _UNTIL_CLOSE:
            self._state = _DONE
        elif self._state != _DONE:
            where = "in the middle of the answer" if self.status else "before it answered"
            raise BadAnswer(f"the server closed the connection {where}")

    def _take(self, data: bytes) -> bytes:
        if len(data) < self._left:
            self.pieces.append(data)
            self._left -= len(data)
            return b""
        self.pieces.append(data[: self._left])
        rest = data[self._left :]
        self._left = 0
        self._state = _CHUNK_END if self._chunked else _DONE
        return rest

    def _read_head(self, data: bytes) -> bytes:
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if len(data) > _MAX_HEAD:
                raise BadAnswer(f"the head of the answer is longer than {_MAX_HEAD} bytes")
            if len(data) >= 5 and not data.startswith(b"HTTP/"):
                raise BadAnswer("the answer is no HTTP")
            self._buffer = data
            return b""
        lines = data[:end].decode("latin-1").split("\r\n")
        rest = data[end + 4 :]
        version, status = lines[0][:9], lines[0][9:12]
        if version not in ("HTTP/1.1 ", "HTTP/1.0 ") or not (
            status.isascii() and status.isdigit() and len(status) == 3
        ):
            raise BadAnswer("the answer is no HTTP/1.1")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or not name or name[0] in " \t":
                raise BadAnswer(f"the answer has a header without a name: {line[:40]!r}")
            name, value = name.lower(), value.strip(" \t")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        number = int(status)
        if 100 <= number < 200 and number != 101:
            return rest  # an interim answer; the real one follows
        self.status, self.headers = number, headers
        connection = headers.get("connection", "").lower()
        self.keep_alive = "keep-alive" in connection if version == "HTTP/1.0 " else "close" not in connection
        self._state = self._body_state()
        return rest

    def _body_state(self) -> int:
        """How the end of the body will be known."""
        if self._bodiless or self.status in (204, 304):
            return _DONE
        encoding = self.headers.get("transfer-encoding", "")
        if encoding:
            if encoding.lower() != "chunked":
                raise BadAnswer(f"the answer has transfer-encoding {encoding[:40]!r}; only chunked is understood")
            self._chunked = True
            return _CHUNK_SIZE
        length = self.headers.get("content-length")
        if length is None:
            self.keep_alive = False
            return _UNTIL_CLOSE
        if not (length.isascii() and length.isdigit() and len(length) < 16):
            raise BadAnswer(f"the answer has content-length {length[:40]!r}")
        self._left = int(length)
        return _LENGTH if self._left else _DONE

    def _read_line(self, data: bytes) -> bytes:
        end = data.find(b"\r\n")
        if end < 0:
            if len(data) > (_MAX_HEAD if self._state == _TRAILER else _MAX_CHUNK_LINE):
                raise BadAnswer("the answer's chunks are malformed")
            self._buffer = data
            return b""
        line, rest = data[:end], data[end + 2 :]
        if self._state == _CHUNK_SIZE:
            size = line.partition(b";")[0].rstrip(b" \t")
            if not size or len(size) > 12 or not _HEX.issuperset(size):
                raise BadAnswer("the answer's chunks are malformed")
            self._left = int(size, 16)
            self._state = _LENGTH if self._left else _TRAILER
        elif self._state == _CHUNK_END:
            if line:
                raise BadAnswer("the answer's chunks are malformed")
            self._state = _CHUNK_SIZE
        elif not line:
            self._state = _DONE
        return rest
