from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from situate.kube.errors import Unreachable
from situate.kube.login.connection import BadConnection, Connection, Impersonation, Pem
from situate.kube.login.credentials import Credentials
from situate.kube.transport.http import HttpTransport
from situate.objects.messages import Request
from tests.kube.servers import Authority, ForwardProxy, raw_server, server_tls, serving, strict_tls_server

PING = Request("GET", "/api/v1/namespaces/d/configmaps/c")
WRITE = Request("POST", "/api/v1/namespaces/d/configmaps", (), {"content-type": "application/json"}, b'{"a":1}')

AUTHORITY = Authority("test")


async def echo(request: web.Request) -> web.Response:
    """What arrived, as the answer."""
    return web.json_response(
        {
            "method": request.method,
            "path": request.raw_path,
            "headers": {key.lower(): value for key, value in request.headers.items()},
            "groups": request.headers.getall("Impersonate-Group", []),
            "body": (await request.read()).decode(),
            "peer": request.transport.get_extra_info("peername")[1] if request.transport else 0,
        }
    )


@asynccontextmanager
async def transport_to(connection: Connection, **settings: Any) -> AsyncIterator[HttpTransport]:
    loop = asyncio.get_running_loop()
    credentials = Credentials(connection, monotonic=loop.time, now=lambda: datetime.now(UTC))
    transport = HttpTransport(connection, credentials, **settings)
    try:
        yield transport
    finally:
        await transport.close()


def plain(port: int) -> Connection:
    return Connection(server=f"http://127.0.0.1:{port}", source="the test")


def secure(port: int) -> Connection:
    return Connection(
        server=f"https://127.0.0.1:{port}", source="the test", ca=Pem(data=AUTHORITY.certificate, field="ca")
    )


def decoded(body: bytes) -> Any:
    return msgspec.json.decode(body)


async def test_sends_what_the_request_says() -> None:
    request = Request(
        "PATCH",
        "/api/v1/namespaces/d/configmaps/a b/ü",
        (("labelSelector", "a in (b,c)"), ("x", "1&2=3+4 5%")),
        {"content-type": "application/merge-patch+json", "accept": "application/json"},
        b'{"data":{}}',
    )
    async with serving(echo) as port:
        connection = replace(
            plain(port),
            server=f"http://127.0.0.1:{port}/k8s/clusters/c1",
            token="secret",
            impersonation=Impersonation("jane", "u1", ("a", "b"), {"example.com/team": ("x", "y")}),
        )
        async with transport_to(connection) as transport:
            answer = await transport.send(request)
    seen = decoded(answer.body)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("application/json")
    assert seen["method"] == "PATCH"
    assert seen["path"] == (
        "/k8s/clusters/c1/api/v1/namespaces/d/configmaps/a%20b/%C3%BC"
        "?labelSelector=a%20in%20%28b%2Cc%29&x=1%262%3D3%2B4%205%25"
    )
    assert seen["body"] == '{"data":{}}'
    headers = seen["headers"]
    assert headers["authorization"] == "Bearer secret"
    assert headers["content-type"] == "application/merge-patch+json"
    assert headers["impersonate-user"] == "jane"
    assert headers["impersonate-uid"] == "u1"
    assert headers["impersonate-extra-example.com%2fteam"] in ("x", "y")
    assert seen["groups"] == ["a", "b"]
    assert headers["user-agent"].startswith("situate/")
    assert "accept-encoding" not in headers


async def test_keeps_connections_for_the_next_call_and_bounds_their_number() -> None:
    busy = most = 0

    async def slow(request: web.Request) -> web.Response:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        for _ in range(10):
            await asyncio.sleep(0)
        busy -= 1
        return await echo(request)

    async with serving(slow) as port, transport_to(plain(port), max_connections=3) as transport:
        answers = await asyncio.gather(*(transport.send(PING) for _ in range(30)))
    assert len({decoded(answer.body)["peer"] for answer in answers}) <= 3
    assert 1 < most <= 3


async def test_large_bodies_in_both_directions() -> None:
    big = b"x" * 900_000
    async with serving(echo) as port, transport_to(plain(port)) as transport:
        answer = await transport.send(msgspec.structs.replace(WRITE, body=big))
    assert len(decoded(answer.body)["body"]) == len(big)


async def test_names_in_any_language_are_sent_as_utf_8() -> None:
    """As Go sends them."""
    async with serving(echo) as port:
        connection = replace(plain(port), impersonation=Impersonation("Łucja"))
        async with transport_to(connection) as transport:
            answer = await transport.send(PING)
    assert decoded(answer.body)["headers"]["impersonate-user"] == "Łucja"


async def test_headers_cannot_be_smuggled() -> None:
    async with serving(echo) as port, transport_to(plain(port)) as transport:
        with pytest.raises(ValueError, match="line break"):
            await transport.send(msgspec.structs.replace(PING, headers={"accept": "a\r\nX-Evil: 1"}))


async def test_a_watch_arrives_in_pieces_and_ends() -> None:
    more = asyncio.Event()

    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await more.wait()
        await response.write(b"two\n")
        return response

    async with serving(watch) as port, transport_to(plain(port)) as transport, transport.stream(PING) as stream:
        assert stream.status == 200
        batches = stream.batches()
        assert await anext(batches) == [b"one\n"]
        more.set()
        assert [pieces async for pieces in batches] == [[b"two\n"]]


async def test_a_slow_reader_holds_the_server_back_and_loses_nothing() -> None:
    line = b"x" * 99_999 + b"\n"

    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(200):
            await response.write(line)
        return response

    async with serving(watch) as port, transport_to(plain(port)) as transport, transport.stream(PING) as stream:
        total = 0
        async for pieces in stream.batches():
            total += sum(map(len, pieces))
            await asyncio.sleep(0)
    assert total == 200 * len(line)


async def test_a_watch_that_breaks_off_says_so() -> None:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n5\r\n")
        await writer.drain()
        writer.close()

    async with raw_server(answer) as port, transport_to(plain(port)) as transport, transport.stream(PING) as stream:
        batches = stream.batches()
        assert await anext(batches) == [b"one\n"]
        with pytest.raises(
            Unreachable, match=r"lost the connection to http://127\.0\.0\.1:\d+ in the middle"
        ) as caught:
            await anext(batches)
    assert caught.value.retriable


async def test_no_answer_in_time_leaves_the_outcome_open() -> None:
    async def silent(head: bytes, writer: asyncio.StreamWriter) -> None:
        return

    async with raw_server(silent) as port, transport_to(plain(port)) as transport:
        with pytest.raises(
            Unreachable, match=r"cannot create configmaps in namespace d at http.*: no answer within"
        ) as caught:
            await transport.send(WRITE, timeout_s=0.01)
        assert caught.value.outcome_unknown
        with pytest.raises(Unreachable, match="no answer within"):
            async with transport.stream(PING, timeout_s=0.01):
                pass


async def test_a_connection_that_is_closed_without_an_answer() -> None:
    async def hang_up(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with raw_server(hang_up) as port, transport_to(plain(port)) as transport:
        with pytest.raises(
            Unreachable, match="closed the connection before it answered; check whether the server"
        ) as caught:
            await transport.send(WRITE)
    assert caught.value.outcome_unknown


async def test_a_lost_answer_is_not_taken_for_the_next_one() -> None:
    answers = [b"late", b"right"]

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        body = answers.pop(0)
        if body == b"late":
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + body)

    async with raw_server(answer) as port, transport_to(plain(port), max_connections=1) as transport:
        with pytest.raises(Unreachable):
            await transport.send(PING, timeout_s=0.01)
        assert (await transport.send(PING)).body == b"right"


async def test_a_cancelled_call_frees_its_place() -> None:
    arrived = asyncio.Event()

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        if b"POST" in head:
            arrived.set()
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with raw_server(answer) as port, transport_to(plain(port), max_connections=1) as transport:
        call = asyncio.create_task(transport.send(WRITE))
        await arrived.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await transport.send(PING)).status == 200


async def test_a_closed_transport_says_so() -> None:
    async with serving(echo) as port, transport_to(plain(port)) as transport:
        await transport.send(PING)
        await transport.close()
        with pytest.raises(Unreachable, match="this client is closed") as caught:
            await transport.send(PING)
    assert not caught.value.retriable


async def test_closing_ends_calls_in_flight_and_watches() -> None:
    arrived = asyncio.Semaphore(0)

    async def silent(head: bytes, writer: asyncio.StreamWriter) -> None:
        if b"configmaps/c" in head:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        arrived.release()

    async with raw_server(silent) as port, transport_to(plain(port)) as transport:
        call = asyncio.create_task(transport.send(WRITE))
        async with transport.stream(PING) as stream:
            await arrived.acquire()
            await arrived.acquire()
            await transport.close()
            with pytest.raises(Unreachable, match="in the middle of an answer"):
                await anext(stream.batches())
        with pytest.raises(Unreachable) as caught:
            await call
    assert caught.value.outcome_unknown


async def test_tls_with_an_authority_of_the_cluster(tmp_path: Path) -> None:
    context = server_tls(tmp_path, AUTHORITY.issue("server", "127.0.0.1"))
    async with serving(echo, context) as port, transport_to(secure(port)) as transport:
        assert (await transport.send(PING)).status == 200


async def test_tls_server_name_and_insecure(tmp_path: Path) -> None:
    context = server_tls(tmp_path, AUTHORITY.issue("server", "api.example.com"))
    async with serving(echo, context) as port:
        async with transport_to(replace(secure(port), tls_server_name="api.example.com")) as transport:
            assert (await transport.send(PING)).status == 200
        insecure = replace(secure(port), ca=None, insecure_skip_tls_verify=True)
        async with transport_to(insecure) as transport:
            assert (await transport.send(PING)).status == 200


async def test_client_certificates(tmp_path: Path) -> None:
    context = server_tls(tmp_path, AUTHORITY.issue("server", "127.0.0.1"), client_authority=AUTHORITY)
    mine = AUTHORITY.issue("jane")
    async with serving(echo, context) as port:
        connection = replace(secure(port), certificate=Pem(data=mine.certificate), key=Pem(data=mine.key))
        async with transport_to(connection) as transport:
            assert (await transport.send(PING)).status == 200


Change = Callable[[Connection], Connection]


@pytest.mark.parametrize(
    ("days", "names", "change", "message"),
    [
        pytest.param(
            (-9, -1), "127.0.0.1", lambda c: c, "the server's certificate has expired; renew it", id="expired"
        ),
        pytest.param((5, 9), "127.0.0.1", lambda c: c, "is not valid yet; check this machine's clock", id="too early"),
        pytest.param((-1, 9), "other", lambda c: c, "set tls-server-name in the test", id="wrong name"),
        pytest.param(
            (-1, 9),
            "127.0.0.1",
            lambda c: replace(c, ca=None),
            "unknown authority; correct certificate-authority",
            id="CA",
        ),
        pytest.param(
            (-1, 9),
            "127.0.0.1",
            lambda c: replace(c, ca=Pem(data=Authority("another").certificate)),
            "unknown authority",
            id="another CA",
        ),
    ],
)
async def test_certificates_that_are_refused(
    tmp_path: Path, days: tuple[int, int], names: str, change: Change, message: str
) -> None:
    context = server_tls(tmp_path, AUTHORITY.issue("server", names, days=days))
    async with serving(echo, context) as port, transport_to(change(secure(port))) as transport:
        with pytest.raises(Unreachable, match=message) as caught:
            await transport.send(WRITE)
    assert f"cannot create configmaps in namespace d at https://127.0.0.1:{port}: " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (caught.value.retriable, caught.value.outcome_unknown) == (False, False)


async def test_a_client_certificate_that_the_server_refuses(tmp_path: Path) -> None:
    context = server_tls(tmp_path, AUTHORITY.issue("server", "127.0.0.1"), client_authority=AUTHORITY)
    stranger = Authority("another").issue("jane")
    with strict_tls_server(context) as port:
        connection = replace(secure(port), certificate=Pem(data=stranger.certificate), key=Pem(data=stranger.key))
        async with transport_to(connection) as transport:
            with pytest.raises(Unreachable, match=r"the server refused the client certificate .*; renew or correct"):
                await transport.send(WRITE)


async def test_certificates_that_are_none(tmp_path: Path) -> None:
    mine = AUTHORITY.issue("jane")
    broken = replace(
        secure(1), certificate=Pem(data=b"x", field="users[0].user.client-certificate"), key=Pem(data=mine.key)
    )
    async with transport_to(broken) as transport:
        with pytest.raises(
            BadConnection, match=r"the test: users\[0\].user.client-certificate: .* allowed: a certificate"
        ):
            await transport.send(PING)
    async with transport_to(replace(secure(1), ca=Pem(data=b"x", field="clusters[0].cluster.ca"))) as transport:
        with pytest.raises(BadConnection, match=r"clusters\[0\].cluster.ca: found no usable certificate"):
            await transport.send(PING)


async def test_https_to_a_server_that_speaks_http() -> None:
    async with serving(echo) as port, transport_to(secure(port)) as transport:
        with pytest.raises(Unreachable, match="does not speak TLS; write http://"):
            await transport.send(PING)


async def test_nobody_listens() -> None:
    async with serving(echo) as port:
        pass
    async with transport_to(plain(port)) as transport:
        with pytest.raises(Unreachable, match="connection refused; check that the server runs, and check") as caught:
            await transport.send(WRITE)
    assert (caught.value.retriable, caught.value.outcome_unknown) == (True, False)


async def test_a_host_that_does_not_exist() -> None:
    connection = Connection(server="http://no-such-host.invalid", source="context x of y")
    async with transport_to(connection) as transport:
        with pytest.raises(Unreachable, match=r"cannot be resolved .*; check `server` in context x of y") as caught:
            await transport.send(PING)
    assert not caught.value.outcome_unknown


@pytest.mark.parametrize("host", ["a..b", f"{'x' * 70}.com", ".example"])
async def test_a_name_that_no_host_can_have(host: str) -> None:
    connection = Connection(server=f"https://{host}:6443", source="context x of y")
    async with transport_to(connection) as transport:
        with pytest.raises(
            Unreachable, match=r"the name of the host is not valid .*; correct `server` in context x of y"
        ) as no:
            await transport.send(PING)
    assert (no.value.retriable, no.value.outcome_unknown) == (False, False)
    behind = Connection(server="https://example.com", source="context x of y", proxy_url=f"http://{host}:1")
    async with transport_to(behind) as transport:
        with pytest.raises(Unreachable, match="correct proxy-url in context x of y"):
            await transport.send(PING)


@pytest.mark.parametrize("tls", [False, True])
async def test_through_a_proxy(tmp_path: Path, tls: bool) -> None:
    context = server_tls(tmp_path, AUTHORITY.issue("server", "api.example.com")) if tls else None
    async with (
        serving(echo, context) as port,
        ForwardProxy(port, authorization="Basic amFuZTpwQHNz").running() as proxy,
    ):
        scheme = "https" if tls else "http"
        connection = replace(
            secure(port),
            server=f"{scheme}://api.example.com:{port}",
            proxy_url=f"http://jane:p%40ss@127.0.0.1:{proxy.port}",
        )
        async with transport_to(connection) as transport:
            assert (await transport.send(PING)).status == 200
            async with transport.stream(PING) as stream:
                assert [pieces async for pieces in stream.batches()]
    first = (
        f"CONNECT api.example.com:{port} HTTP/1.1" if tls else f"GET http://api.example.com:{port}{PING.path} HTTP/1.1"
    )
    assert proxy.seen == [first, first]


@pytest.mark.parametrize(
    ("status", "step"), [(407, "correct the user in proxy-url"), (502, "check that the proxy may")]
)
async def test_a_proxy_that_refuses(status: int, step: str) -> None:
    async with ForwardProxy(1, refuse_with=status).running() as proxy:
        connection = replace(secure(1), proxy_url=f"http://jane:secret@127.0.0.1:{proxy.port}")
        async with transport_to(connection) as transport:
            with pytest.raises(
                Unreachable, match=rf"the proxy http://…@127.0.0.1:\d+ answered {status}; {step}"
            ) as caught:
                await transport.send(WRITE)
    assert "secret" not in str(caught.value)
    assert not caught.value.outcome_unknown


async def test_a_proxy_that_is_not_there() -> None:
    async with serving(echo) as port:
        pass
    async with transport_to(replace(secure(1), proxy_url=f"http://127.0.0.1:{port}")) as transport:
        with pytest.raises(Unreachable, match=r"the proxy .* cannot be used .*; correct proxy-url in the test"):
            await transport.send(PING)


class Guarded:
    """A server that accepts one token only."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.asked = 0

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        allowed = request.headers.get("Authorization") == f"Bearer {self.token}"
        return web.Response(status=200 if allowed else 401, text="{}")


async def test_a_refused_token_is_read_anew_once(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("old\n")
    server = Guarded("old")
    async with serving(server) as port, transport_to(replace(plain(port), token_file=token_file)) as transport:
        assert (await transport.send(PING)).status == 200
        server.token = "new"
        assert (await transport.send(PING)).status == 401
        assert server.asked == 2  # the file held the same token, so asking again was pointless
        token_file.write_text("new")
        assert (await transport.send(PING)).status == 200
        server.token = "newer"
        token_file.write_text("newer")
        async with transport.stream(PING) as stream:
            assert stream.status == 200


async def test_a_new_authority_and_certificate_are_used_without_a_restart(tmp_path: Path) -> None:
    ca_file, now = tmp_path / "ca.crt", 0.0
    ca_file.write_bytes(Authority("before").certificate)
    context = server_tls(tmp_path, AUTHORITY.issue("server", "127.0.0.1"))
    async with serving(echo, context) as port:
        connection = replace(secure(port), ca=Pem(path=ca_file, field="ca.crt"))
        credentials = Credentials(connection, monotonic=lambda: now, now=lambda: datetime.now(UTC))
        transport = HttpTransport(connection, credentials)
        with pytest.raises(Unreachable, match="unknown authority"):
            await transport.send(PING)
        ca_file.write_bytes(AUTHORITY.certificate)
        now = 61.0
        assert (await transport.send(PING)).status == 200
        await transport.close()
