from __future__ import annotations

import asyncio
import os
import stat
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from situate.kube.login.connection import Connection, ExecPlugin
from situate.kube.login.exec_plugin import LoginFailed, run_plugin
from tests.waiting import WITHIN_S

V1 = "client.authentication.k8s.io/v1"


def plugin_that(folder: Path, code: str, **fields: Any) -> ExecPlugin:
    """A real program; `printed(...)` prints an ExecCredential with that status."""
    path = folder / "plugin.py"
    head = (
        f"#!{sys.executable}\nimport json, os, sys\n"
        f"def printed(api_version='{V1}', kind='ExecCredential', **status):\n"
        "    print(json.dumps({'apiVersion': api_version, 'kind': kind, 'status': status}))\n"
    )
    path.write_text(head + code)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return ExecPlugin(api_version=V1, command=str(path), interactive_mode="Never", **fields)


CONNECTION = Connection(
    server="https://api:6443", source="context dev of config", tls_server_name="kubernetes", proxy_url="http://p:1"
)


async def test_token_and_expiry(tmp_path: Path) -> None:
    code = "printed(token=sys.argv[1] + os.environ['SUFFIX'], expirationTimestamp='2024-01-01T00:00:00Z')"
    plugin = plugin_that(tmp_path, code, args=("to",), env=(("SUFFIX", "ken"),))
    credential = await run_plugin(plugin, CONNECTION, b"")
    assert (credential.token, credential.expires) == ("token", datetime(2024, 1, 1, tzinfo=UTC))
    assert "'token'" not in repr(credential)


async def test_certificate(tmp_path: Path) -> None:
    plugin = plugin_that(tmp_path, "printed(clientCertificateData='C', clientKeyData='K')")
    credential = await run_plugin(plugin, CONNECTION, b"")
    assert (credential.certificate, credential.key, credential.expires) == (b"C", b"K", None)


@pytest.mark.parametrize("told", [True, False])
async def test_what_the_plugin_is_told(tmp_path: Path, told: bool) -> None:
    plugin = plugin_that(
        tmp_path,
        "printed(token=os.environ['KUBERNETES_EXEC_INFO'])",
        provide_cluster_info=told,
        cluster_config={"audience": "x"},
    )
    info = msgspec.json.decode((await run_plugin(plugin, CONNECTION, b"CA")).token)
    cluster = {
        "server": "https://api:6443",
        "tls-server-name": "kubernetes",
        "certificate-authority-data": "Q0E=",
        "proxy-url": "http://p:1",
        "config": {"audience": "x"},
    }
    spec = {"interactive": False, "cluster": cluster} if told else {"interactive": False}
    assert info == {"apiVersion": V1, "kind": "ExecCredential", "spec": spec}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "sys.exit('please log in\\nagain')",
            "failed with exit code 1: please log in again; log in with the tool of the plugin",
        ),
        ("print('hello')", "printed no ExecCredential: JSON is malformed"),
        ("", "printed no ExecCredential: "),
        ("printed(api_version='v2', token='t')", f"printed apiVersion 'v2', kind 'ExecCredential'; allowed: '{V1}'"),
        ("printed(kind='Pod', token='t')", "kind 'Pod'; allowed"),
        ("printed()", "printed neither status.token nor status.clientCertificateData"),
        (
            "printed(clientCertificateData='C')",
            "printed only one of status.clientCertificateData and status.clientKeyData",
        ),
        ("printed(token='t', expirationTimestamp='soon')", "printed no ExecCredential: Invalid RFC3339"),
        ("printed(token='t', expirationTimestamp='2024-01-01T00:00:00')", "expirationTimestamp without a time zone"),
        ("printed(token=5)", "printed no ExecCredential: Expected `str`, got `int` - at `$.status.token`"),
    ],
)
async def test_each_failure_is_one_sentence(tmp_path: Path, code: str, message: str) -> None:
    plugin = plugin_that(tmp_path, code)
    with pytest.raises(LoginFailed) as caught:
        await run_plugin(plugin, CONNECTION, b"")
    assert str(caught.value).startswith(f"context dev of config: credential plugin {plugin.command} ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_plugin_that_is_not_installed() -> None:
    plugin = ExecPlugin(V1, "no-such-plugin", install_hint="get it\nfrom there", interactive_mode="Never")
    with pytest.raises(LoginFailed, match=r"no-such-plugin cannot be started: .*; get it from there"):
        await run_plugin(plugin, CONNECTION, b"")
    with pytest.raises(LoginFailed, match=r"install it or correct exec\.command"):
        await run_plugin(replace(plugin, install_hint=""), CONNECTION, b"")


async def test_a_plugin_that_needs_a_terminal(tmp_path: Path) -> None:
    plugin = replace(plugin_that(tmp_path, "printed(token='t')"), interactive_mode="Always")
    with pytest.raises(LoginFailed, match="needs a terminal, but this process has none; run the command in a terminal"):
        await run_plugin(plugin, CONNECTION, b"")


async def test_a_plugin_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    plugin = plugin_that(tmp_path, "sys.stdin.read(); os.execvp('sleep', ['sleep', '1000'])")
    with pytest.raises(LoginFailed, match=r"gave no answer within 0\.1 s; run the plugin by hand to find the cause"):
        await run_plugin(plugin, CONNECTION, b"", timeout_s=0.1)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("subprocess.run(['sleep', '1000'], close_fds=False)", id="waits for a program of its own"),
        pytest.param("subprocess.Popen(['sleep', '1000'], close_fds=False)", id="leaves one behind that holds on"),
        pytest.param("while True: print('x' * 10000, file=sys.stderr)", id="complains without end"),
    ],
)
async def test_nothing_stays_of_a_plugin_that_is_given_up(code: str, tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    head = f"import subprocess\nfd = os.open({str(alive)!r}, os.O_WRONLY)\n"
    head += "os.set_inheritable(fd, True)\nos.write(fd, b'x')\n"
    async with asyncio.timeout(WITHIN_S):
        login = asyncio.create_task(run_plugin(plugin_that(tmp_path, head + code), CONNECTION, b""))
        with await asyncio.to_thread(alive.open, "rb", 0) as held:
            await asyncio.to_thread(held.read, 1)
            login.cancel()
            with pytest.raises(asyncio.CancelledError):
                await login
            assert await asyncio.to_thread(held.read) == b""  # which comes when nobody can write any more


async def test_a_plugin_that_prints_without_end_is_not_listened_to(tmp_path: Path) -> None:
    plugin = plugin_that(tmp_path, "while True: print('x' * 10000)")
    with pytest.raises(
        LoginFailed, match="printed more than 1048576 bytes; run the plugin by hand and check its output"
    ):
        await run_plugin(plugin, CONNECTION, b"")
