from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from situate.kube.errors import KubeError
from situate.kube.login.connection import BadConnection, Connection, ExecPlugin, Impersonation, Pem
from situate.kube.login.credentials import Credentials
from situate.kube.login.exec_plugin import ExecCredential, LoginFailed

CONNECTION = Connection(server="https://api", source="the test")
PLUGIN = replace(CONNECTION, exec=ExecPlugin("client.authentication.k8s.io/v1", "login"))
START = datetime(2024, 1, 1, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def monotonic(self) -> float:
        return self.s

    def now(self) -> datetime:
        return START + timedelta(seconds=self.s)


class Plugin:
    """Prints numbered tokens that last for `lasts_s`; None means for ever."""

    def __init__(self, lasts_s: float | None = None) -> None:
        self.lasts_s = lasts_s
        self.runs = 0
        self.clock = Clock()
        self.fails = False

    async def __call__(self, plugin: ExecPlugin, connection: Connection, ca: bytes) -> ExecCredential:
        await asyncio.sleep(0)
        self.runs += 1
        if self.fails:
            raise LoginFailed("no")
        expires = None if self.lasts_s is None else self.clock.now() + timedelta(seconds=self.lasts_s)
        return ExecCredential(f"token-{self.runs}", b"cert", b"key", expires)


def credentials(connection: Connection, clock: Clock, plugin: Plugin | None = None) -> Credentials:
    plugin = plugin or Plugin()
    plugin.clock = clock
    return Credentials(connection, monotonic=clock.monotonic, now=clock.now, plugin=plugin)


async def authorization(source: Credentials) -> str:
    login = source.cached_login or await source.login()
    return dict(login.headers).get("Authorization", "")


@pytest.mark.parametrize(
    ("connection", "wanted"),
    [
        (CONNECTION, ""),
        (replace(CONNECTION, token="t"), "Bearer t"),
        (replace(CONNECTION, username="jane", password="pä:ss"), "Basic amFuZTpww6Q6c3M="),
        pytest.param(replace(PLUGIN, token="t"), "Bearer t", id="a token wins over a plugin"),
    ],
)
async def test_what_never_changes(connection: Connection, wanted: str) -> None:
    clock, plugin = Clock(), Plugin()
    source = credentials(connection, clock, plugin)
    assert await authorization(source) == wanted
    clock.s = 1e9
    assert source.cached_login is not None
    assert not await source.refresh(source.cached_login)
    assert plugin.runs == 0


async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", Clock()
    file.write_text("one\n")
    source = credentials(replace(CONNECTION, token="ignored", token_file=file), clock)
    assert await authorization(source) == "Bearer one"
    file.write_text("two")
    clock.s = 59
    assert await authorization(source) == "Bearer one"
    clock.s = 61
    assert await authorization(source) == "Bearer two"


async def test_a_file_that_is_missing_for_a_while_leaves_the_login_in_use(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", Clock()
    file.write_text("one")
    source = credentials(replace(CONNECTION, token_file=file), clock)
    first = await source.login()
    file.unlink()
    clock.s = 61
    assert await source.login() is first
    with pytest.raises(BadConnection, match=r"the test: tokenFile: .*/token cannot be read: No such file"):
        await source.refresh(first)


@pytest.mark.parametrize(
    "connection", [replace(CONNECTION, token_file=Path("a\0b")), replace(CONNECTION, ca=Pem(path=Path("a\0b")))]
)
async def test_a_name_that_no_file_can_have(connection: Connection) -> None:
    with pytest.raises(BadConnection, match="cannot be read: embedded null byte; check that it is a file"):
        await credentials(connection, Clock()).login()


@pytest.mark.parametrize("content", ["", " \n", "a\nb", "tökén"])
async def test_a_token_file_without_a_token(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    with pytest.raises(LoginFailed, match="contains no valid token; write a token to the file"):
        await credentials(replace(CONNECTION, token_file=tmp_path / "token"), Clock()).login()


async def test_unchanged_files_give_the_same_login(tmp_path: Path) -> None:
    (tmp_path / "ca").write_bytes(b"ca")
    clock = Clock()
    source = credentials(replace(CONNECTION, ca=Pem(path=tmp_path / "ca")), clock)
    first = await source.login()
    clock.s = 61
    assert source.cached_login is None
    assert await source.login() is first
    (tmp_path / "ca").write_bytes(b"new")
    clock.s = 122
    assert (await source.login()).tls.ca == b"new"


async def test_a_plugin_runs_again_shortly_before_its_token_expires() -> None:
    clock, plugin = Clock(), Plugin(lasts_s=100)
    source = credentials(PLUGIN, clock, plugin)
    assert await authorization(source) == "Bearer token-1"
    clock.s = 89
    assert await authorization(source) == "Bearer token-1"
    clock.s = 91
    assert await authorization(source) == "Bearer token-2"
    assert (await source.login()).tls.certificate == b"cert"


async def test_a_plugin_without_expiry_runs_again_when_refused_and_once_for_all_who_are() -> None:
    clock, plugin = Clock(), Plugin()
    source = credentials(PLUGIN, clock, plugin)
    first = await source.login()
    clock.s = 1e9
    assert source.cached_login is first
    assert await asyncio.gather(*(source.refresh(first) for _ in range(5))) == [True] * 5
    assert plugin.runs == 2


async def test_a_plugin_that_fails_is_asked_again() -> None:
    plugin = Plugin()
    plugin.fails = True
    source = credentials(PLUGIN, Clock(), plugin)
    with pytest.raises(LoginFailed):
        await source.login()
    plugin.fails = False
    assert await authorization(source) == "Bearer token-2"


async def test_secrets_stay_out_of_representations() -> None:
    source = credentials(replace(CONNECTION, token="secret"), Clock())
    assert "secret" not in repr(await source.login())
    assert "secret" not in repr(replace(CONNECTION, token="secret", password="secret"))


@pytest.mark.parametrize("token", ["a\nX-Other: 1", "a\r\nb", "\x00"])
async def test_what_a_plugin_prints_cannot_smuggle_headers(token: str) -> None:
    async def prints(*_: object) -> ExecCredential:
        return ExecCredential(token)

    clock = Clock()
    source = Credentials(PLUGIN, monotonic=clock.monotonic, now=clock.now, plugin=prints)
    with pytest.raises(
        LoginFailed, match="the token from credential plugin login contains characters that are not printable"
    ):
        await source.login()


@pytest.mark.parametrize(
    ("connection", "told"),
    [
        (
            replace(CONNECTION, token="a\nb"),
            "the test: the token contains characters that are not printable; correct the token",
        ),
        (
            replace(CONNECTION, impersonation=Impersonation("a\nb")),
            "the test: Impersonate-User: found 'a.*nb'; allowed",
        ),
    ],
)
async def test_a_configuration_cannot_smuggle_headers(connection: Connection, told: str) -> None:
    with pytest.raises(KubeError, match=told):
        await credentials(connection, Clock()).login()
