"""The listener on real sockets: every path and method to the answerer, and certificates that change."""

from __future__ import annotations

import asyncio
import datetime
import http.client
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from situate.objects.messages import Request, Response
from situate.sharding.server.listener import CannotServe, Certificate, Listener
from tests.controlplane.certificates import Authority

pytestmark = pytest.mark.rule("sharding:K11")


def authority() -> Authority:
    return Authority("listener", datetime.datetime.now(datetime.UTC))


def write(folder: Path, signer: Authority, age_s: float) -> Certificate:
    pair = signer.server(names=("localhost",), addresses=("127.0.0.1",))
    files = Certificate(folder / "tls.crt", folder / "tls.key")
    files.chain.write_bytes(pair.certificate)
    files.key.write_bytes(pair.key)
    os.utime(files.chain, (age_s, age_s))
    return files


async def echo(request: Request) -> Response:
    told = f"{request.method} {request.path} {request.query} {request.headers.get('x-who')}"
    return Response(404, told.encode(), {"content-type": "text/plain"})


@asynccontextmanager
async def listening(certificate: Certificate | None) -> AsyncIterator[Listener]:
    listener = Listener("127.0.0.1:0", certificate, echo)
    running = asyncio.create_task(listener.run())
    try:
        await asyncio.wait_for(listener.listening(), 60)
        yield listener
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def ask(port: int, trusted: Authority | None, method: str, path: str) -> tuple[int, str, str]:
    def call() -> tuple[int, str, str]:
        connection: http.client.HTTPConnection
        if trusted is None:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        else:
            tls = ssl.create_default_context(cadata=trusted.certificate.decode())
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=tls)
        connection.request(method, path, headers={"X-Who": "me"})
        answer = connection.getresponse()
        told = answer.status, answer.read().decode(), answer.headers["content-length"]
        connection.close()
        return told

    return await asyncio.to_thread(call)


async def test_every_path_is_answered_and_a_head_has_no_body(tmp_path: Path) -> None:
    signer = authority()
    async with listening(write(tmp_path, signer, 1)) as listener:
        told = "GET /apis/x y/.. (('a', '1'), ('a', '2'), ('b', '')) me"
        assert (await ask(listener.port, signer, "GET", "/apis/x%20y/..?a=1&a=2&b="))[:2] == (404, told)
        status, body, length = await ask(listener.port, signer, "HEAD", "/x")
        assert (status, body, int(length)) == (404, "", len("HEAD /x () me"))
        assert (await ask(listener.port, signer, "DELETE", "/x"))[1].startswith("DELETE")
        with pytest.raises((OSError, http.client.HTTPException)):
            await ask(listener.port, None, "GET", "/x")


async def test_a_new_certificate_is_used_and_a_spoilt_one_is_not(tmp_path: Path) -> None:
    first, second = authority(), authority()
    async with listening(write(tmp_path, first, 1)) as listener:
        write(tmp_path, second, 2)
        listener.renew()
        assert (await ask(listener.port, second, "GET", "/"))[0] == 404
        with pytest.raises(ssl.SSLError):
            await ask(listener.port, first, "GET", "/")
        (tmp_path / "tls.crt").write_text("spoilt")
        os.utime(tmp_path / "tls.crt", (3, 3))
        with capture_logs() as logs:
            listener.renew()
            listener.renew()
        assert [each["event"] for each in logs] == ["the new certificate is not used"]
        assert (await ask(listener.port, second, "GET", "/"))[0] == 404
        (tmp_path / "tls.crt").unlink()
        listener.renew()


async def test_without_a_certificate_it_speaks_plain_http() -> None:
    async with listening(None) as listener:
        listener.renew()
        assert (await ask(listener.port, None, "GET", "/"))[0] == 404


async def test_what_it_cannot_listen_with_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotServe, match=r"tls\.crt with the key .* cannot be used: No such file"):
        Listener("127.0.0.1:0", Certificate(tmp_path / "tls.crt", tmp_path / "tls.key"), echo)
    async with listening(None) as listener:
        with pytest.raises(CannotServe, match="choose another --address"):
            await Listener(f"127.0.0.1:{listener.port}", None, echo).run()
