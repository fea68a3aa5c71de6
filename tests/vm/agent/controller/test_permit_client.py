"""Asking for permits over HTTP: slow, lying and absent schedulers are values (C14, C17, F5)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from situate.vm.agent.controller.permit_client import BadAuthority, PermitClient
from situate.vm.agent.model.settings import SchedulerAccess
from situate.vm.agent.protocol.permits import BadAnswer, PermitResponse
from tests.kube.servers import Authority, Handler, server_tls, serving
from tests.vm.agent.builders import units

GRANTED = {"permit": {"vCPUs": "500m", "mem": "2Gi"}}
QUICK_S = 0.3
PATIENT: dict[str, Any] = {"request_timeout_seconds": 60.0}
"""A machine that is busy is no slow scheduler."""


@asynccontextmanager
async def client_of(handler: Handler, **access: Any) -> AsyncIterator[PermitClient]:
    async with serving(handler) as port:
        asked = SchedulerAccess(url=f"http://127.0.0.1:{port}/", token_file=None, **{**PATIENT, **access})
        client = PermitClient(asked, lambda: None)
        try:
            yield client
        finally:
            await client.close()


@pytest.mark.rule("vm:C12", "vm:C17", "vm:B44")
async def test_the_found_pod_is_asked_with_the_token_of_the_moment(tmp_path: Path) -> None:
    seen: list[tuple[str, str, str | None, Any]] = []

    async def grant(request: web.Request) -> web.Response:
        seen.append((request.method, request.path, request.headers.get("authorization"), await request.json()))
        return web.json_response(GRANTED)

    token = tmp_path / "token"
    async with serving(grant) as port:
        client = PermitClient(SchedulerAccess(request_port=port, token_file=str(token), **PATIENT), lambda: "127.0.0.1")
        try:
            assert await client.ask(b'{"a":1}') == PermitResponse(units(2))
            token.write_text("first\n")
            await client.ask(b'{"a":1}')
            token.write_text("second\n")
            await client.ask(b'{"a":1}')
        finally:
            await client.close()
    assert seen == [
        ("POST", "/", None, {"a": 1}),
        ("POST", "/", "Bearer first", {"a": 1}),
        ("POST", "/", "Bearer second", {"a": 1}),
    ]


@pytest.mark.rule("vm:C17")
async def test_without_a_scheduler_the_answer_says_what_to_do() -> None:
    client = PermitClient(SchedulerAccess(scheduler_name="mine"), lambda: None)
    found = await client.ask(b"{}")
    assert isinstance(found, BadAnswer)
    assert "name=mine in namespace kube-system" in found.why


@pytest.mark.rule("vm:F5", "vm:D21")
async def test_a_slow_scheduler_is_left_after_the_time_out() -> None:
    async def never(_: web.Request) -> web.Response:
        await asyncio.get_running_loop().create_future()
        return web.Response()

    async with client_of(never, request_timeout_seconds=QUICK_S) as client:
        found = await client.ask(b"{}")
    assert isinstance(found, BadAnswer)
    assert "did not answer within 0.3 s" in found.why


@pytest.mark.rule("vm:F5")
async def test_an_answer_without_an_end_is_not_waited_for() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            try:
                await response.write(b" " * 65_536)
            except ConnectionError:
                return response

    async with client_of(endless) as client:
        found = await client.ask(b"{}")
    assert isinstance(found, BadAnswer)
    assert "longer than" in found.why


@pytest.mark.rule("vm:C14", "vm:F5")
@pytest.mark.parametrize(
    ("status", "text", "why"),
    [
        (503, "not the leader", "503: not the leader"),
        (500, "", "answered with status 500"),
        (200, "<html>", "JSON"),
        (200, json.dumps({"permit": {"vCPUs": "x", "mem": 1}}), "permit.vCPUs"),
    ],
)
async def test_other_answers_are_failures(status: int, text: str, why: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text)

    async with client_of(answer) as client:
        found = await client.ask(b"{}")
    assert isinstance(found, BadAnswer)
    assert why in found.why


@pytest.mark.rule("vm:B44")
async def test_the_token_goes_nowhere_else() -> None:
    paths: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.Response(status=307, headers={"location": "/elsewhere"})

    async with client_of(elsewhere) as client:
        found = await client.ask(b"{}")
    assert isinstance(found, BadAnswer)
    assert paths == ["/"]


@pytest.mark.rule("vm:F5")
async def test_an_absent_scheduler_is_a_failure() -> None:
    async def grant(_: web.Request) -> web.Response:
        return web.json_response(GRANTED)

    async with serving(grant) as port:
        pass
    client = PermitClient(SchedulerAccess(url=f"http://127.0.0.1:{port}/", token_file=None, **PATIENT), lambda: None)
    try:
        found = await client.ask(b"{}")
    finally:
        await client.close()
    assert isinstance(found, BadAnswer)
    assert "the request to " in found.why


@pytest.mark.rule("vm:B44")
@pytest.mark.parametrize(
    ("name", "authority", "why"),
    [
        pytest.param("situate-vm.kube-system.svc", "ours", "", id="the name that its certificate bears"),
        pytest.param(None, "ours", "the request to ", id="its certificate is for another name"),
        pytest.param("situate-vm.kube-system.svc", "theirs", "the request to ", id="somebody else's certificate"),
    ],
)
async def test_the_scheduler_shows_who_it_is(tmp_path: Path, name: str | None, authority: str, why: str) -> None:
    async def grant(_: web.Request) -> web.Response:
        return web.json_response(GRANTED)

    authorities = {each: Authority(each) for each in ("ours", "theirs")}
    certificate = authorities["ours"].issue("situate-vm", "situate-vm.kube-system.svc")
    file = tmp_path / "ca.crt"
    file.write_bytes(authorities[authority].certificate)
    async with serving(grant, server_tls(tmp_path, certificate)) as port:
        access = SchedulerAccess(
            tls=True, ca_file=str(file), server_name=name, request_port=port, token_file=None, **PATIENT
        )
        client = PermitClient(access, lambda: "127.0.0.1")
        try:
            found = await client.ask(b"{}")
        finally:
            await client.close()
    assert (why in found.why) if isinstance(found, BadAnswer) else not why


@pytest.mark.rule("vm:B44")
async def test_authorities_are_taken_over_as_they_come(tmp_path: Path) -> None:
    """As a kubelet mounts a Secret that is empty at first, and renewed later."""

    async def grant(_: web.Request) -> web.Response:
        return web.json_response(GRANTED)

    first, second = Authority("first"), Authority("second")
    folder = tmp_path / "authorities"
    folder.mkdir()
    (folder / "tls.key").write_text("none of the agent's business")
    tls = server_tls(tmp_path, second.issue("situate-vm", "situate-vm.kube-system.svc"))
    said = []
    async with serving(grant, tls) as port:
        name = "situate-vm.kube-system.svc"
        access = SchedulerAccess(
            tls=True, ca_file=str(folder), server_name=name, request_port=port, token_file=None, **PATIENT
        )
        client = PermitClient(access, lambda: "127.0.0.1")
        try:
            said.append(await client.ask(b"{}"))
            (folder / "ca.crt").write_bytes(first.certificate)
            said.append(await client.ask(b"{}"))
            (folder / "next-ca.crt").write_bytes(second.certificate)
            said.append(await client.ask(b"{}"))
            (folder / "ca.crt").write_text("spoilt")
            said.append(await client.ask(b"{}"))
        finally:
            await client.close()
    empty, foreign, *known = said
    assert isinstance(empty, BadAnswer)
    assert "contains no certificate yet" in empty.why
    assert isinstance(foreign, BadAnswer)
    assert "the request to " in foreign.why
    assert not any(isinstance(each, BadAnswer) for each in known)


@pytest.mark.rule("vm:B44")
def test_authorities_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    for text in (None, "nothing"):
        if text is not None:
            file.write_text(text)
        with pytest.raises(BadAuthority, match=r"scheduler\.caFile: found .*ca\.crt"):
            PermitClient(SchedulerAccess(tls=True, ca_file=str(file)), lambda: None)
