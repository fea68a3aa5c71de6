"""Runs a credential plugin and reads its output (client.authentication.k8s.io, KEP-541).

`situate.kube.login.credentials` decides when to run it again.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from situate.kube.errors import KubeError
from situate.kube.login.connection import Connection, ExecPlugin

_TIMEOUT_S: Final = 60.0
"""Limit for a plugin without a terminal, which cannot wait for a person; kubectl would hang."""
_LARGEST: Final = 2**20
"""Bytes of output: credentials have a few thousand; a plugin that prints without end must not fill the memory."""
_QUOTED: Final = 300
"""Characters quoted from the end of standard error, where tools write the cause."""
_END_WAIT_S: Final = 2.0
"""How long to wait for the end of a killed plugin."""


class LoginFailed(KubeError):
    """Credentials could not be obtained; the message names the plugin or file and quotes its error."""

    retriable = True


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """Credentials that a plugin printed: a token, a certificate with its key, or both."""

    token: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    expires: datetime | None = None
    """None: valid until the server refuses it."""


class _StatusWire(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _CredentialWire(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _StatusWire | None = None


async def run_plugin(
    plugin: ExecPlugin, connection: Connection, ca: bytes, *, timeout_s: float = _TIMEOUT_S
) -> ExecCredential:
    """Run a plugin and return its credentials; `LoginFailed` gives the reason in one sentence.

    No process started here is left running.
    """
    interactive = plugin.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not interactive:
        raise LoginFailed(
            f"{connection.source}: credential plugin {plugin.command} needs a terminal, but this process has none; "
            "run the command in a terminal or set interactiveMode to IfAvailable"
        )
    environment = {**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": _info(plugin, connection, ca, interactive)}
    loop = asyncio.get_running_loop()
    try:
        process, output = await loop.subprocess_exec(
            lambda: _Output(loop),
            plugin.command,
            *plugin.args,
            env=environment,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if interactive else asyncio.subprocess.PIPE,
            start_new_session=not interactive,  # a plugin with the terminal stays in its process group
        )
    except (OSError, ValueError) as error:
        hint = (
            f"; {' '.join(plugin.install_hint.split())}"
            if plugin.install_hint
            else "; install it or correct exec.command"
        )
        raise LoginFailed(
            f"{connection.source}: credential plugin {plugin.command} cannot be started: {error}{hint}"
        ) from error
    try:
        async with asyncio.timeout(None if interactive else timeout_s):
            await output.whole
    except TimeoutError as error:
        raise LoginFailed(
            f"{connection.source}: credential plugin {plugin.command} gave no answer within {timeout_s:g} s; "
            "run the plugin by hand to find the cause"
        ) from error
    except _OutputTooLarge as error:
        raise LoginFailed(
            f"{connection.source}: credential plugin {plugin.command} printed more than {_LARGEST} bytes; "
            "run the plugin by hand and check its output"
        ) from error
    finally:
        await _end(process, output, with_children=not interactive)
    code = process.get_returncode()
    if code:
        said = " ".join(output.said.decode("utf-8", "replace").split())[-_QUOTED:]
        raise LoginFailed(
            f"{connection.source}: credential plugin {plugin.command} failed with exit code {code}"
            f"{': ' + said if said else ''}; log in with the tool of the plugin and try again"
        )
    return _credential(plugin, connection, output.printed)


class _OutputTooLarge(Exception):
    """The output is larger than credentials can be."""


class _Output(asyncio.SubprocessProtocol):
    """The output of a plugin, up to a limit."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.printed = b""
        self.said = b""
        """The end of standard error."""
        self.whole: asyncio.Future[None] = loop.create_future()
        """Done when the plugin has ended and all its pipes are closed; fails with `_OutputTooLarge`."""
        self.ended = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self.said = (self.said + data)[-4 * _QUOTED :]
        elif len(self.printed) <= _LARGEST:
            self.printed += data
        elif not self.whole.done():
            self.whole.set_exception(_OutputTooLarge())

    def process_exited(self) -> None:
        self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature is asyncio's
        if not self.whole.done():
            self.whole.set_result(None)


async def _end(process: asyncio.SubprocessTransport, output: _Output, *, with_children: bool) -> None:
    """Kill a plugin that has not ended, with its child processes."""
    if not output.whole.done() or output.whole.cancelled() or output.whole.exception():
        with suppress(ProcessLookupError):
            if with_children:
                os.killpg(process.get_pid(), signal.SIGKILL)
            else:
                process.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_WAIT_S):
                await output.ended.wait()
    process.close()  # a child that has left the group may keep the pipes open


def _info(plugin: ExecPlugin, connection: Connection, ca: bytes, interactive: bool) -> str:
    """Build the `ExecCredential` for the plugin's variable KUBERNETES_EXEC_INFO."""
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        cluster = {
            "server": connection.server,
            "tls-server-name": connection.tls_server_name,
            "insecure-skip-tls-verify": connection.insecure_skip_tls_verify,
            "certificate-authority-data": base64.b64encode(ca).decode(),
            "proxy-url": connection.proxy_url,
            "config": plugin.cluster_config,
        }
        spec["cluster"] = {key: value for key, value in cluster.items() if value}
    return msgspec.json.encode({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}).decode()


def _credential(plugin: ExecPlugin, connection: Connection, stdout: bytes) -> ExecCredential:
    where = f"{connection.source}: credential plugin {plugin.command} printed"
    try:
        printed = msgspec.json.decode(stdout, type=_CredentialWire)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise LoginFailed(f"{where} no ExecCredential: {error}; run the plugin by hand and check its output") from error
    if printed.kind != "ExecCredential" or printed.api_version != plugin.api_version:
        raise LoginFailed(
            f"{where} apiVersion {printed.api_version!r}, kind {printed.kind!r}; allowed: {plugin.api_version!r}, "
            "'ExecCredential'; set exec.apiVersion to the version that the plugin prints"
        )
    status = printed.status
    if status is None or not (status.token or status.client_certificate_data):
        raise LoginFailed(
            f"{where} neither status.token nor status.clientCertificateData; log in with the tool of the plugin"
        )
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise LoginFailed(
            f"{where} only one of status.clientCertificateData and status.clientKeyData; update the plugin"
        )
    expires = status.expiration_timestamp
    if expires is not None and expires.tzinfo is None:
        raise LoginFailed(f"{where} status.expirationTimestamp without a time zone; update the plugin")
    return ExecCredential(
        status.token, status.client_certificate_data.encode(), status.client_key_data.encode(), expires
    )
