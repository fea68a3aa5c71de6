"""Serve live and archived objects as one, for kubectl and other readers."""

from __future__ import annotations

import asyncio
import ipaddress
import random
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import typer

from situate.archive.options import ArchiveOptions
from situate.archive.protocol import Archiver
from situate.cli.run.end import report_end
from situate.cli.run.reach_cluster import ConnectionCheck
from situate.cli.sharding.archive.archive_access import archive_options, open_archive
from situate.cli.sharding.archive.options import ArchiveLocation, ServerOptions
from situate.cli.terminal.failures import ExitCode, WrongInput, report_failures
from situate.cli.terminal.options import ClusterOptions
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.kube.login.connection import Connection
from situate.runtime.process.logs import configure_logging
from situate.runtime.process.manager import Manager, ServiceFailed, stop_on_signals
from situate.runtime.process.startup import run_process
from situate.runtime.serving.access import Access
from situate.runtime.serving.listener import Certificate, Listener
from situate.sharding.server.discovery import NotServed, discover_resource
from situate.sharding.server.request_handler import RequestHandler

_RESOURCE: Final = re.compile(r"([a-z0-9.-]+\.[a-z0-9.-]+)/(v[a-z0-9]+)/([a-z0-9-]+)")


def serve(server: ServerOptions, archive: ArchiveLocation, where: ClusterOptions) -> None:
    """Serve until a signal; the command ends with an exit code."""
    with report_failures():
        options = archive_options(archive)
        resources = [_parse_resource(each) for each in server.resource]
        certificate = _load_certificate(server.address, server.tls_cert_file, server.tls_private_key_file)
        connection = find_connection(where.kubeconfig, where.context)
        configure_logging()
        audiences = tuple(server.audience or ())
        raise typer.Exit(run_process(_serve(options, resources, server.address, certificate, audiences, connection)))


def _parse_resource(text: str) -> tuple[str, str, str]:
    found = _RESOURCE.fullmatch(text)
    if found is None:
        raise WrongInput(
            f"--resource: found {text!r}, allowed: GROUP/VERSION/PLURAL, such as batch.example.com/v1/reports"
        )
    group, version, plural = found.groups()
    return group, version, plural


def _load_certificate(address: str, chain: Path | None, key: Path | None) -> Certificate | None:
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port[:6]) < 2**16):
        raise WrongInput(f"--address: found {address!r}, allowed: HOST:PORT, such as :8443")
    if chain is not None and key is not None:
        return Certificate(chain, key)
    if chain is not None or key is not None:
        raise WrongInput("--tls-cert-file and --tls-private-key-file must be given together; one is missing")
    if not _is_loopback(host.strip("[]")):
        raise WrongInput(
            f"--address {address} without a certificate: clients would send tokens in clear text; give "
            "--tls-cert-file and --tls-private-key-file, or listen on 127.0.0.1"
        )
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _serve(
    options: ArchiveOptions,
    resources: Sequence[tuple[str, str, str]],
    address: str,
    certificate: Certificate | None,
    audiences: Sequence[str],
    connection: Connection,
) -> ExitCode:
    client = connect(connection, random.Random())
    manager = Manager()
    stop_on_signals(manager)
    try:
        async with open_archive(options, may_be_new=True) as archiver:
            reaching = ConnectionCheck(client, random.Random())
            manager.add(reaching, ready=reaching.wait_reached)
            manager.add(_Server(client, archiver, resources, address, certificate, audiences))
            await manager.run()
    except ServiceFailed as failed:
        return report_end(failed, NotServed, reaching=(ConnectionCheck.name, _Server.name))
    finally:
        await client.close()
    return ExitCode.DONE


class _Server:
    """Service that discovers the served resources, then listens until it is stopped."""

    name = "read-through server"

    def __init__(
        self,
        client: Client,
        archiver: Archiver,
        resources: Sequence[tuple[str, str, str]],
        address: str,
        certificate: Certificate | None,
        audiences: Sequence[str],
    ) -> None:
        self._client = client
        self._archiver = archiver
        self._resources = resources
        self._address = address
        self._certificate = certificate
        self._audiences = audiences

    async def run(self) -> None:
        """Run the server. Raises `CannotServe`, `NotServed`, and the errors of the client."""
        served = [await discover_resource(self._client, *each) for each in self._resources]
        access = Access(self._client, asyncio.get_running_loop().time, self._audiences)
        answering = RequestHandler(self._client, self._archiver, served, access, lambda: datetime.now(UTC))
        await Listener(self.name, self._address, self._certificate, lambda request, _: answering.answer(request)).run()
