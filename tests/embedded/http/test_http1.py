from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.embedded.http.http1 import MAX_BODY_BYTES, BadRequest, IncomingRequest, RequestParser, head_bytes

GET = b"GET /api?x=a%20b HTTP/1.1\r\nHost: h\r\nUser-Agent: t\r\n\r\n"
POST = b'POST /api HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n{"a":"b\r\n"}'
CHUNKED = (
    b"PUT /api HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nTrailer: t\r\n\r\n"
)
CLOSING = b"\r\nDELETE /api HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
OLD = b"GET / HTTP/1.0\r\n\r\n"


def requests(*pieces: bytes) -> list[IncomingRequest]:
    parser = RequestParser()
    found = []
    for piece in pieces:
        parser.feed(piece)
        while (request := parser.next_request()) is not None:
            found.append(request)
    return found


@given(st.data())
def test_requests_are_the_same_however_they_are_cut(data: st.DataObject) -> None:
    message = GET + POST + CHUNKED + GET + CLOSING + OLD
    cuts = sorted(data.draw(st.lists(st.integers(0, len(message)), max_size=12)))
    found = requests(*(message[a:b] for a, b in zip([0, *cuts], [*cuts, len(message)], strict=True)))
    assert [(one.method, one.target, one.body, one.keep_alive, one.chunks_understood) for one in found] == [
        ("GET", "/api?x=a%20b", b"", True, True),
        ("POST", "/api", b'{"a":"b\r\n"}', True, True),
        ("PUT", "/api", b"hello world", True, True),
        ("GET", "/api?x=a%20b", b"", True, True),
        ("DELETE", "/api", b"", False, True),
        ("GET", "/", b"", False, False),
    ]


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6))
def test_chunks_come_back(chunks: list[bytes]) -> None:
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    head = b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"
    [request] = requests(head + body + b"0\r\n\r\n")
    assert request.body == b"".join(chunks)


def test_headers_are_in_lower_case_and_repeated_ones_joined() -> None:
    [request] = requests(b"GET / HTTP/1.1\r\nHost: h\r\nAccept: a\r\nX-Y:  z \r\naccept: b\r\n\r\n")
    assert request.headers == {"host": "h", "accept": "a,b", "x-y": "z"}


def test_headers_of_the_next_request_are_its_own() -> None:
    first, second, third = requests(GET + POST + GET)
    assert first.headers == third.headers == {"host": "h", "user-agent": "t"}
    assert second.headers == {"host": "h", "content-length": "11"}


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", id="content-length"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", id="chunked"),
    ],
)
@pytest.mark.parametrize("over", [0, 1])
def test_a_body_that_is_too_large_is_read_and_thrown_away(message: bytes, over: int) -> None:
    size = MAX_BODY_BYTES + over
    end = b"\r\n0\r\n\r\n" if b"chunked" in message else b""
    large, after = requests(message % size, b"x" * 1000, b"x" * (size - 1000) + end + GET)
    assert (large.body is None) is bool(over)
    assert after.method == "GET"


def test_a_client_may_wait_to_be_told_to_send() -> None:
    parser = RequestParser()
    parser.feed(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert parser.next_request() is None
    assert parser.waits_to_send
    parser.feed(b"{}")
    request = parser.next_request()
    assert request is not None
    assert (request.body, parser.waits_to_send) == (b"{}", False)


@pytest.mark.parametrize(
    ("message", "status"),
    [
        pytest.param(b"nonsense\r\n\r\n", 400, id="no request line"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", 400, id="a handshake of TLS, which waits for an answer"),
        pytest.param(b"GET / x HTTP/1.1\r\nHost: h\r\n\r\n", 400, id="a space in the target"),
        pytest.param(b"GET /\nx HTTP/1.1\r\nHost: h\r\n\r\n", 400, id="a bare line feed in the target"),
        pytest.param(b"get / HTTP/1.1\r\nHost: h\r\n\r\n", 400, id="a method in lower case"),
        pytest.param(b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505, id="another version"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 400, id="no host"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n", 400, id="two hosts"),
        pytest.param(b"GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400, id="a space before the colon"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\r\n x: y\r\n\r\n", 400, id="a folded header"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n", 400, id="a bare line feed in a header"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\r\nX: a\0\r\n\r\n", 400, id="a null in a header"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n", 400, id="a signed length"),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, id="two lengths"
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
            id="a length and chunks",
        ),
        pytest.param(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 501, id="another encoding"),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400, id="a chunk without size"
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", 400, id="a longer chunk"
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 300, 400, id="an endless size"
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"x" * (1 << 17),
            400,
            id="endless trailers",
        ),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"x" * (1 << 17), 431, id="an endless head"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"x" * (1 << 17) + b"\r\n\r\n", 431, id="a long head"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(message: bytes, status: int) -> None:
    with pytest.raises(BadRequest) as caught:
        requests(message)
    assert caught.value.status == status


@given(st.lists(st.sampled_from([GET, POST, CHUNKED, b"\r\n", b"\r", b"0", b"GET", b" ", b":"]), max_size=8))
def test_no_input_is_worse_than_a_bad_request(pieces: list[bytes]) -> None:
    with suppress(BadRequest):
        requests(*pieces)


@given(st.binary(max_size=200))
def test_nor_are_any_bytes(data: bytes) -> None:
    with suppress(BadRequest):
        requests(data, GET[:20], data)


def test_a_head_cannot_be_broken_by_what_a_user_wrote() -> None:
    assert head_bytes(201, {"warning": "a\r\nx: é"}, b"date: d\r\n") == (
        b"HTTP/1.1 201 Created\r\nwarning: a  x: \xc3\xa9\r\ndate: d\r\n\r\n"
    )
