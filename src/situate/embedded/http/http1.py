"""Parse HTTP/1.1 requests from pieces of bytes and format answers, without I/O (RFC 9112).

Ambiguous input is refused. `frontend` interprets the requests, and `connection` handles the connection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec

MAX_BODY_BYTES: Final = 3 << 20
"""Largest number of bytes in a request's body (kube-apiserver: 3 MiB)."""
_MAX_HEAD_BYTES: Final = 1 << 16
_TLS: Final = b"\x16\x03"
"""First bytes of a TLS handshake."""
_MAX_CHUNK_LINE_BYTES: Final = 256

_METHOD: Final = re.compile(r"[A-Z]{1,20}")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEX: Final = re.compile(rb"[0-9a-fA-F]{1,12}")
_REASONS: Final[Mapping[int, bytes]] = {status.value: status.phrase.encode() for status in HTTPStatus}


class BadRequest(Exception):
    """The client does not send valid HTTP/1.1. It gets an error, and the connection ends."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class IncomingRequest(msgspec.Struct, gc=False):
    """One request as received."""

    method: str
    target: str
    """Path and query, percent-encoded."""
    headers: Mapping[str, str]
    """Names in lower case; repeated headers are joined by commas. Requests share the map, so it must not be changed."""
    body: bytes | None
    """None for a body larger than `MAX_BODY_BYTES`, which was read and discarded."""
    keep_alive: bool
    """Whether the client wants to reuse this connection."""
    chunks_understood: bool
    """Whether an answer of unknown length can be sent in chunks. An HTTP/1.0 client reads until the connection ends."""


class RequestParser:
    """Parser for the requests of one connection. Feed it, then call `next_request` until it returns None."""

    def __init__(self) -> None:
        self.waits_to_send = False
        """True if the client waits for `100 Continue` before it sends its body (`Expect: 100-continue`)."""
        self._buffer = b""
        self._at = 0
        self._current: IncomingRequest | None = None
        """The request with a body that is being read."""
        self._body: list[bytes] = []
        self._size = 0
        self._left = 0
        """Bytes of the body or chunk that are missing."""
        self._chunked = False
        self._head = b""
        self._headers: dict[str, str] = {}

    @property
    def buffered_bytes(self) -> int:
        """Number of bytes that were not parsed yet."""
        return len(self._buffer) - self._at

    def feed(self, data: bytes) -> None:
        """Take received bytes."""
        self._buffer = self._buffer[self._at :] + data if self._at < len(self._buffer) else data
        self._at = 0

    def next_request(self) -> IncomingRequest | None:
        """Return the next complete request, or None. Raises `BadRequest`."""
        if self._current is None:
            self._read_head()
        current = self._current
        if current is None or not (self._read_chunks() if self._chunked else self._read_body()):
            return None
        if self._size > MAX_BODY_BYTES:
            current.body = None
        elif self._body:
            current.body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body.clear()
        self._current = None
        self.waits_to_send = False
        return current

    def _read_head(self) -> None:
        end = self._buffer.find(b"\r\n\r\n", self._at)
        if end < 0 or end - self._at > _MAX_HEAD_BYTES:
            if end >= 0 or self.buffered_bytes > _MAX_HEAD_BYTES:
                raise BadRequest(431, f"the head of the request is longer than {_MAX_HEAD_BYTES} bytes")
            if self._buffer.startswith(_TLS, self._at):
                raise BadRequest(400, "found TLS on a port for plain HTTP; use a URL that begins with http://")
            # Some clients send an extra empty line after a body (RFC 9112 2.2).
            while self._buffer.startswith(b"\r\n", self._at):
                self._at += 2
            return
        while self._buffer.startswith(b"\r\n", self._at):
            self._at += 2
        first = self._buffer.find(b"\r\n", self._at)
        words = self._buffer[self._at : first].decode("latin-1").split(" ")
        if len(words) != 3 or not _METHOD.fullmatch(words[0]) or not words[1].isprintable():
            raise BadRequest(400, "the first line of the request is not METHOD TARGET VERSION")
        method, where, version = words
        if version not in ("HTTP/1.1", "HTTP/1.0"):
            raise BadRequest(505, "the HTTP version is not supported, allowed: HTTP/1.1, HTTP/1.0")
        # A client's requests differ mostly in the first line. So the other lines are parsed only when they change.
        head = self._buffer[first:end]
        if head != self._head:
            self._headers = _parse_headers(head)
            self._head = head
        self._at = end + 4
        headers = self._headers
        recent = version == "HTTP/1.1"
        if recent and "host" not in headers:
            raise BadRequest(400, "the request has no Host header")
        connection = headers.get("connection", "").lower()
        keep_alive = "close" not in connection if recent else "keep-alive" in connection
        self._current = IncomingRequest(method, where, headers, b"", keep_alive, recent)
        self._size = 0
        self._chunked = "transfer-encoding" in headers
        self._left = 0 if self._chunked else _content_length(headers)
        self.waits_to_send = "expect" in headers and headers["expect"].lower() == "100-continue"

    def _read_body(self) -> bool:
        """Read bytes of the body. Return whether it is complete."""
        if not self._left:
            return True
        piece = self._buffer[self._at : self._at + self._left]
        self._at += len(piece)
        self._left -= len(piece)
        self._append_body(piece)
        return not self._left

    def _read_chunks(self) -> bool:
        """Read chunks. Return whether the last chunk and the trailers are complete.

        A chunk's line break counts as part of the chunk.
        """
        while True:
            if self._left > 2:
                piece = self._buffer[self._at : self._at + self._left - 2]
                self._at += len(piece)
                self._left -= len(piece)
                self._append_body(piece)
                if self._left > 2:
                    return False
            if self._left:
                if self.buffered_bytes < self._left:
                    return False
                if not self._buffer.startswith(b"\r\n", self._at):
                    raise BadRequest(400, "the request's chunks are malformed")
                self._at += 2
                self._left = 0
            end = self._buffer.find(b"\r\n", self._at)
            if end < 0 or end - self._at > _MAX_CHUNK_LINE_BYTES:
                if end >= 0 or self.buffered_bytes > _MAX_CHUNK_LINE_BYTES:
                    raise BadRequest(400, "the request's chunks are malformed")
                return False
            digits = self._buffer[self._at : end].partition(b";")[0].rstrip(b" \t")
            if not _HEX.fullmatch(digits):
                raise BadRequest(400, "the request's chunks are malformed")
            size = int(digits, 16)
            if size:
                self._at = end + 2
                self._left = size + 2
                continue
            # Trailers, if any, are not used.
            if self._buffer.startswith(b"\r\n", end + 2):
                self._at = end + 4
                return True
            last = self._buffer.find(b"\r\n\r\n", end + 2)
            if last < 0:
                if self.buffered_bytes > _MAX_HEAD_BYTES:
                    raise BadRequest(400, "the request's trailers are too long")
                return False
            self._at = last + 4
            return True

    def _append_body(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > MAX_BODY_BYTES:
            self._body.clear()
        elif piece:
            self._body.append(piece)


def head_bytes(status: int, headers: Mapping[str, str], *more: bytes) -> bytes:
    """Return the head of an answer, including the empty line. `more` are complete header lines."""
    lines = [b"HTTP/1.1 %d %b\r\n" % (status, _REASONS.get(status, b"Unknown"))]
    for name, value in headers.items():
        if "\n" in value or "\r" in value:
            value = value.replace("\r", " ").replace("\n", " ")
        lines.append(b"%b: %b\r\n" % (name.encode(), value.encode()))
    return b"".join((*lines, *more, b"\r\n"))


def _parse_headers(head: bytes) -> dict[str, str]:
    """Parse the header lines, each of which begins with its line break."""
    lines = head.decode("latin-1").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not _NAME.fullmatch(name) or "\n" in value or "\r" in value or "\0" in value:
            raise BadRequest(400, f"the request has a malformed header: {line[:40]!r}")
        name, value = name.lower(), value.strip(" \t")
        if name not in headers:
            headers[name] = value
        elif name in ("host", "content-length", "transfer-encoding"):
            raise BadRequest(400, f"the request has two {name} headers")
        else:
            headers[name] = f"{headers[name]},{value}"
    if "transfer-encoding" in headers:
        if "content-length" in headers:
            raise BadRequest(400, "the request has both a content-length and a transfer-encoding")
        if headers["transfer-encoding"].lower() != "chunked":
            raise BadRequest(501, "the transfer-encoding is not supported, allowed: chunked")
    return headers


def _content_length(headers: Mapping[str, str]) -> int:
    length = headers.get("content-length")
    if length is None:
        return 0
    if not (length.isascii() and length.isdigit() and len(length) < 16):
        raise BadRequest(400, f"the request's content-length is {length[:40]!r}, allowed: a number of bytes")
    return int(length)
