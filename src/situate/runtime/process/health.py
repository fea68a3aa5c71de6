"""Answers liveness and readiness probes and serves metrics.

The paths are `/healthz` (and `/livez`), `/readyz` and `/metrics`. The format is that of Kubernetes' own components: a
line per check, `[+]watch pods ok` or `[-]watch pods failed: …`. `/readyz/NAME` returns one check. The code that
composes the process adds the checks.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from situate.runtime.metrics import CONTENT_TYPE
from situate.runtime.serving.listener import defect_logger

if TYPE_CHECKING:
    from aiohttp import web

Check = Callable[[], str | None]
"""Returns the failure in a sentence; None if there is none. Must not block."""


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The checks of one kind at one moment."""

    reasons: Mapping[str, str | None]
    """The failure of each check by name; None for a check that passed."""

    @property
    def ok(self) -> bool:
        return all(reason is None for reason in self.reasons.values())

    def text(self, kind: str) -> str:
        """Return one line for each check, and the verdict."""
        lines = [
            f"[+]{name} ok" if reason is None else f"[-]{name} failed: {reason}"
            for name, reason in self.reasons.items()
        ]
        return "\n".join([*lines, f"{kind} check {'passed' if self.ok else 'failed'}"]) + "\n"


class Health:
    """The named checks of one process."""

    def __init__(self) -> None:
        self._liveness: dict[str, Check] = {"ping": lambda: None}
        self._readiness: dict[str, Check] = {"ping": lambda: None}

    def add_liveness(self, name: str, check: Check) -> None:
        """Add a check whose failure only a restart can repair."""
        self._liveness[name] = check

    def add_readiness(self, name: str, check: Check) -> None:
        """Add a check for a precondition of the work: a store that is synced, a certificate that is valid."""
        self._readiness[name] = check

    def liveness_report(self) -> HealthReport:
        return _run_checks(self._liveness)

    def readiness_report(self) -> HealthReport:
        return _run_checks(self._readiness)


def _run_checks(checks: Mapping[str, Check]) -> HealthReport:
    return HealthReport({name: _run_check(check) for name, check in checks.items()})


def _run_check(check: Check) -> str | None:
    try:
        return check()
    except Exception as problem:
        return f"the check raised {type(problem).__name__}: {problem}"


class CannotListen(Exception):
    """The address of a health server cannot be used; the message gives the next step."""


class HealthServer:
    """A service that listens until `stop`."""

    name = "health server"

    def __init__(
        self, address: str, health: Health, render_metrics: Callable[[], bytes], *, setting: str = "health.address"
    ) -> None:
        """`address` is `host:port`, without host for every address; `setting` is its name in the configuration."""
        self._address = address
        self._setting = setting
        self._health = health
        self._render_metrics = render_metrics
        self._asked = asyncio.Event()
        self._listening = asyncio.Event()
        self.port = 0
        """The port listened on, also if the address requested any (`:0`); 0 before that."""
        self._log = structlog.get_logger()

    def application(self) -> web.Application:
        """Return an application with the routes, to be served with others."""
        from aiohttp import web  # 0.2 s of CPU time, saved in a process without a server

        application = web.Application()
        for path in ("/healthz", "/livez"):
            application.router.add_get(path, self._handle_liveness)
            application.router.add_get(path + "/{name}", self._handle_liveness)
        application.router.add_get("/readyz", self._handle_readiness)
        application.router.add_get("/readyz/{name}", self._handle_readiness)
        application.router.add_get("/metrics", self._handle_metrics)
        return application

    def _listen_problem(self, problem: OSError) -> str:
        """Describe the failure, with a setting that uses the next port."""
        reason = os.strerror(problem.errno).lower() if problem.errno else str(problem)  # asyncio adds the address
        host, _, port = self._address.rpartition(":")
        other = f"{host}:{int(port) + 1}" if 0 < int(port) < 2**16 - 1 else f"{host}:0"
        if self._setting.startswith("--"):
            step = f"choose another address with {self._setting} {other}"
        else:
            step = (
                f"choose another address with --set {self._setting}={other}, "
                f"or turn the server off with --set {self._setting}=none"
            )
        return f"cannot listen on {self._setting} {self._address}: {reason}; {step}"

    async def run(self) -> None:
        """Serve until `stop`. Raises `CannotListen`."""
        from aiohttp import web

        host, _, port = self._address.rpartition(":")
        if not (port.isascii() and port.isdecimal() and int(port[:6]) < 2**16):
            raise CannotListen(f"{self._setting}: found {self._address!r}, allowed: HOST:PORT, such as :8080")
        runner = web.AppRunner(self.application(), access_log=None, logger=defect_logger())
        await runner.setup()
        try:
            # no host: every address of IPv4 and IPv6
            site = web.TCPSite(runner, host.strip("[]") or None, int(port))
            try:
                await site.start()
            except OSError as problem:
                raise CannotListen(self._listen_problem(problem)) from problem
            self.port = runner.addresses[0][1]
            self._listening.set()
            self._log.info("health server listens", address=self._address, port=self.port)
            await self._asked.wait()
        finally:
            await runner.cleanup()

    def stop(self) -> None:
        self._asked.set()

    async def wait_listening(self) -> None:
        """Wait until requests are answered."""
        await self._listening.wait()

    async def _handle_liveness(self, request: web.Request) -> web.Response:
        return _answer("healthz", self._health.liveness_report(), request)

    async def _handle_readiness(self, request: web.Request) -> web.Response:
        return _answer("readyz", self._health.readiness_report(), request)

    async def _handle_metrics(self, _: web.Request) -> web.Response:
        from aiohttp import web

        return web.Response(body=self._render_metrics(), headers={"Content-Type": CONTENT_TYPE})


def _answer(kind: str, report: HealthReport, request: web.Request) -> web.Response:
    from aiohttp import web

    name = request.match_info.get("name")
    if name is not None:
        if name not in report.reasons:
            return web.Response(status=404, text=f"no check {name}; the checks are {', '.join(report.reasons)}\n")
        report = HealthReport({name: report.reasons[name]})
    if report.ok and "verbose" not in request.query:
        return web.Response(text="ok")
    return web.Response(status=200 if report.ok else 503, text=report.text(kind))
