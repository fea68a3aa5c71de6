"""Real servers on 127.0.0.1 for the tests of this folder: HTTP and TLS, a proxy, and certificates for them."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_BasicHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]  # no handler here looks at a route


@dataclass(frozen=True)
class Certificate:
    """A certificate with its key, both in PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Issues certificates as kubeadm does: without key identifiers, which strict verification would demand."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(self._name, self._name, self._key, days=(-1, 10))
        built = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.certificate = built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(self, common_name: str, *names: str, days: tuple[int, int] = (-1, 10)) -> Certificate:
        """`days` from now: valid from, valid until."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]), self._name, key, days=days
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Certificate(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: tuple[int, int]
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=days[0]))
        .not_valid_after(now + timedelta(days=days[1]))
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def server_tls(folder: Path, certificate: Certificate, *, client_authority: Authority | None = None) -> ssl.SSLContext:
    """With a client authority, clients must show a certificate of it."""
    file = folder / "server.pem"
    file.write_bytes(certificate.certificate + certificate.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    if client_authority:
        context.load_verify_locations(cadata=client_authority.certificate.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Yields the port."""
    runner = web.ServerRunner(web.Server(cast(_BasicHandler, handler)), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class Conversations:
    """Serves connections, and ends every one of them before the loop does."""

    def __init__(
        self,
        talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._talk = talk
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        """Yields the port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                await self._talk(reader, writer)
        finally:
            writer.transport.abort()


@asynccontextmanager
async def raw_server(answer: Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[int]:
    """A server of bytes: `answer` gets the head of each request and writes what it likes. Yields the port."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            await answer(await reader.readuntil(b"\r\n\r\n"), writer)
            await writer.drain()

    async with Conversations(talk).running() as port:
        yield port


@contextmanager
def strict_tls_server(context: ssl.SSLContext) -> Iterator[int]:
    """Takes one connection; unlike asyncio, it tells the client why the handshake failed. Yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                plain = connection.dup()  # wrapping takes the socket away, and unread bytes would reset the connection
                with plain, suppress(OSError):
                    try:
                        context.wrap_socket(connection, server_side=True)
                    finally:
                        plain.settimeout(5)
                        plain.recv(2**16)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@dataclass
class ForwardProxy:
    """An HTTP proxy that tunnels every CONNECT, and plain requests, to one port of this machine."""

    target_port: int
    authorization: str = ""
    """What clients must send; empty lets everybody through."""
    refuse_with: int = 0
    """A status with which everything is refused; 0 refuses nothing."""
    tls: ssl.SSLContext | None = None
    """None speaks plainly with clients."""
    seen: list[str] = field(default_factory=list)
    """First lines of what was asked."""
    port: int = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ForwardProxy]:
        async with Conversations(self._talk, self.tls).running() as self.port:
            yield self

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        first = head.split(b"\r\n")[0].decode()
        self.seen.append(first)
        refusal = self.refuse_with
        if self.authorization and f"Proxy-Authorization: {self.authorization}".encode() not in head:
            refusal = 407
        if refusal:
            writer.write(f"HTTP/1.1 {refusal} No\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            return
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        if first.startswith("CONNECT"):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            up_writer.write(head)
        try:
            await asyncio.gather(_pump(reader, up_writer), _pump(up_reader, writer))
        finally:
            up_writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # the tunnel ends with either side
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    writer.close()
