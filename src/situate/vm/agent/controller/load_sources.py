"""Sources of a VM's load: its own address, an annotation, a file, or one address for all VMs (C36)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final, Protocol

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from situate.objects.settings.section import Mistake
from situate.objects.settings.yaml_text import load_yaml
from situate.vm.agent.decide.goal import CacheMetrics, SystemMetrics
from situate.vm.agent.model.settings import MetricsAccess
from situate.vm.agent.protocol.machines import MachineNow
from situate.vm.agent.protocol.samples import (
    NAMES,
    Load,
    NoMetrics,
    Sample,
    cache_metrics,
    load,
    load_of_text,
    of_machine,
    system_metrics,
)
from situate.vm.api.parse_errors import Place
from situate.vm.api.well_known import LOAD

MOST_TEXT: Final = 4 * 2**20
"""Bytes of an answer or a file."""
MOST_OF_GUEST: Final = 2**20
"""Bytes of a guest's answer. Parsing it blocks all other VMs."""
MOST_LINE: Final = 4096
"""Characters of a line. The parser's time grows with the square of the labels."""


class Loads(Protocol):
    """Source of load, asked for one VM at a time. A failure is a result as well."""

    async def system(self, machine: MachineNow) -> SystemMetrics | NoMetrics: ...

    async def cache(self, machine: MachineNow) -> CacheMetrics | NoMetrics: ...


class Scraped:
    """Prometheus text from the guest or an endpoint."""

    def __init__(self, session: aiohttp.ClientSession, access: MetricsAccess) -> None:
        self._session = session
        self._access = access

    async def system(self, machine: MachineNow) -> SystemMetrics | NoMetrics:
        access = self._access.system
        samples = await self._samples(machine, access.port, access.request_timeout_seconds)
        return samples if isinstance(samples, NoMetrics) else system_metrics(samples)

    async def cache(self, machine: MachineNow) -> CacheMetrics | NoMetrics:
        access = self._access.lfc
        samples = await self._samples(machine, access.port, access.request_timeout_seconds)
        return samples if isinstance(samples, NoMetrics) else cache_metrics(samples)

    async def _samples(self, machine: MachineNow, port: int, timeout_s: float) -> list[Sample] | NoMetrics:
        url = self._url(machine, port)
        most = MOST_OF_GUEST if self._access.endpoint is None else MOST_TEXT
        try:
            async with asyncio.timeout(timeout_s), self._session.get(url, allow_redirects=False) as response:
                if response.status != 200:
                    return NoMetrics(f"{url} answered with status {response.status}, expected 200")
                received = bytearray()
                async for piece in response.content.iter_any():
                    received += piece
                    if len(received) > most:
                        return NoMetrics(f"the answer of {url} is longer than {most} bytes")
        except TimeoutError:
            return NoMetrics(f"{url} did not answer within {timeout_s:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            return NoMetrics(f"the request to {url} failed: {type(problem).__name__}: {problem}")
        try:
            return of_machine(samples_of(received.decode("utf-8", "replace")), machine.ref)
        except (ValueError, LookupError) as problem:  # the parser's errors for other text
            return NoMetrics(f"the answer of {url} is not Prometheus text: {problem}")

    def _url(self, machine: MachineNow, port: int) -> str:
        if self._access.endpoint is None:
            host = f"[{machine.ip}]" if ":" in machine.ip else machine.ip
            return f"http://{host}:{port}/metrics"
        names = {"{namespace}": machine.ref.namespace, "{name}": machine.ref.name}
        url = self._access.endpoint
        for placeholder, name in names.items():
            url = url.replace(placeholder, name)
        return url


class Annotated:
    """Annotation of the VirtualMachine itself."""

    async def system(self, machine: MachineNow) -> SystemMetrics | NoMetrics:
        found = self._load(machine)
        return found.system if isinstance(found, Load) else found

    async def cache(self, machine: MachineNow) -> CacheMetrics | NoMetrics:
        return _cache_of(self._load(machine))

    def _load(self, machine: MachineNow) -> Load | NoMetrics:
        place = Place.annotation(f"VirtualMachine {machine.ref}", LOAD)
        if machine.load is None:
            return NoMetrics(f"{place.about} has no annotation {LOAD}")
        return load_of_text(machine.load, place)


class Filed:
    """A file with an entry for each VM, read each time and parsed if it has changed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: tuple[bytes, Any, tuple[Mistake, ...]] = (b"", None, ())

    async def system(self, machine: MachineNow) -> SystemMetrics | NoMetrics:
        found = self._load(machine)
        return found.system if isinstance(found, Load) else found

    async def cache(self, machine: MachineNow) -> CacheMetrics | NoMetrics:
        return _cache_of(self._load(machine))

    def _load(self, machine: MachineNow) -> Load | NoMetrics:
        try:
            with self._file.open("rb") as opened:
                text = opened.read(MOST_TEXT)
        except OSError as problem:
            return NoMetrics(f"{self._file} cannot be read: {problem.strerror or problem}")
        if text != self._known[0]:
            self._known = (text, *load_yaml(text.decode("utf-8", "replace")))
        _, document, mistakes = self._known
        if mistakes:
            return NoMetrics(f"{self._file}: {mistakes[0]}")
        entry = document.get(str(machine.ref)) if isinstance(document, dict) else None
        if entry is None:
            return NoMetrics(f"{self._file} has no entry for {machine.ref}")
        return load(entry, Place(str(self._file), str(machine.ref)))


def loads_of(access: MetricsAccess, session: aiohttp.ClientSession) -> Loads:
    """Return the source that the settings select."""
    if access.source == "annotation":
        return Annotated()
    if access.source == "file" and access.file is not None:
        return Filed(Path(access.file))
    return Scraped(session, access)


def samples_of(text: str) -> list[Sample]:
    """Return the relevant samples. Raises `ValueError` or `LookupError` if one of their lines is no Prometheus text."""
    lines = (line for line in text.split("\n") if len(line) <= MOST_LINE and line.lstrip().startswith(NAMES))
    return [
        Sample(sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families("\n".join(lines))
        for sample in family.samples
    ]


def _cache_of(found: Load | NoMetrics) -> CacheMetrics | NoMetrics:
    if isinstance(found, NoMetrics):
        return found
    return NoMetrics("the load has no workingSetPages") if found.cache is None else found.cache
