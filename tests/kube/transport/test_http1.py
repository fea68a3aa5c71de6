from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.kube.transport.http1 import AnswerParser, BadAnswer

LENGTH = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{"a":"b\r\n"}'
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nTrailer: t\r\n\r\n"
)
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + LENGTH
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
CLOSING = b"HTTP/1.1 429 Too Many\r\nConnection: close\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n"


def parsed(*pieces: bytes, bodiless: bool = False) -> AnswerParser:
    parser = AnswerParser(bodiless=bodiless)
    for piece in pieces:
        parser.feed(piece)
    return parser


@pytest.mark.parametrize(
    ("message", "status", "body", "keep_alive"),
    [
        pytest.param(LENGTH, 200, b'{"a":"b\r\n"}', True, id="content-length"),
        pytest.param(CHUNKED, 200, b"hello world", True, id="chunks with extension and trailer"),
        pytest.param(INTERIM, 200, b'{"a":"b\r\n"}', True, id="interim answer"),
        pytest.param(NO_CONTENT, 204, b"", True, id="no content"),
        pytest.param(CLOSING, 429, b"", False, id="connection: close"),
        pytest.param(LENGTH.replace(b"1.1", b"1.0", 1), 200, b'{"a":"b\r\n"}', False, id="HTTP/1.0"),
    ],
)
@given(st.data())
def test_reads_the_same_however_it_is_cut(
    message: bytes, status: int, body: bytes, keep_alive: bool, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(message)), max_size=6)))
    parser = parsed(*(message[a:b] for a, b in zip([0, *cuts], [*cuts, len(message)], strict=True)))
    assert parser.complete
    assert (parser.status, b"".join(parser.pieces), parser.keep_alive) == (status, body, keep_alive)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6))
def test_chunks_come_back(chunks: list[bytes]) -> None:
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    parser = parsed(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", body, b"0\r\n\r\n")
    assert parser.complete
    assert parser.pieces == chunks


def test_a_body_without_length_ends_with_the_connection() -> None:
    parser = parsed(b"HTTP/1.1 200 OK\r\n\r\nab", b"c")
    assert not parser.complete
    parser.end()
    assert parser.complete
    assert (b"".join(parser.pieces), parser.keep_alive) == (b"abc", False)


def test_headers_are_in_lower_case_and_repeated_ones_joined() -> None:
    parser = parsed(b"HTTP/1.1 200 OK\r\nWarning: a\r\nX-Y:  z \r\nwarning: b\r\nContent-Length: 0\r\n\r\n")
    assert parser.headers == {"warning": "a, b", "x-y": "z", "content-length": "0"}


def test_what_nobody_asked_for_ends_the_connection() -> None:
    parser = parsed(LENGTH, b"HTTP/1.1 200 OK\r\n")
    assert parser.complete
    assert not parser.keep_alive


def test_the_answer_to_connect_has_no_body() -> None:
    assert parsed(b"HTTP/1.1 200 OK\r\n\r\n", bodiless=True).complete


@pytest.mark.parametrize(
    "message",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 2xx OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 300,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
    ],
)
def test_what_is_no_http_is_refused(message: bytes) -> None:
    with pytest.raises(BadAnswer):
        parsed(message)


@given(st.integers(0, len(CHUNKED) - 1))
def test_an_answer_that_breaks_off_is_never_taken_for_whole(length: int) -> None:
    parser = parsed(CHUNKED[:length])
    with pytest.raises(BadAnswer, match="closed the connection"):
        parser.end()


@given(st.lists(st.binary(max_size=30), max_size=5))
def test_any_bytes_are_read_or_refused(pieces: list[bytes]) -> None:
    with suppress(BadAnswer):
        parsed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *pieces).end()
    with suppress(BadAnswer):
        parsed(*pieces).end()
