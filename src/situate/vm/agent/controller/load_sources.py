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
from situate.vm.agent.protocol.machines import MachineSnapshot
from situate.vm.agent.protocol.samples import (
    NAMES,
    LoadMetrics,
    NoMetrics,
    Sample,
    cache_metrics,
    parse_load,
    parse_load_text,
    samples_of_machine,
    system_metrics,
)
from situate.vm.api.parse_errors import Place
from situate.vm.api.well_known import LOAD

MAX_TEXT: Final = 4 * 2**20
"""Bytes of an answer or a file."""
MAX_GUEST_ANSWER: Final = 2**20
"""Bytes of a guest's answer. Parsing it blocks all other VMs."""
MAX_LINE: Final = 4096
"""Characters of a line. The parser's time grows with the square of the labels."""


class LoadSource(Protocol):
    """Source of load, asked for one VM at a time. A failure is a result as well."""

    async def system(self, machine: MachineSnapshot) -> SystemMetrics | NoMetrics: ...

    async def cache(self, machine: MachineSnapshot) -> CacheMetrics | NoMetrics: ...


class PrometheusLoadSource:
    """Prometheus text from the guest or an endpoint."""

    def __init__(self, session: aiohttp.ClientSession, access: MetricsAccess) -> None:
        self._session = session
        self._access = access

    async def system(self, machine: MachineSnapshot) -> SystemMetrics | NoMetrics:
        access = self._access.system
        samples = await self._samples(machine, access.port, access.request_timeout_seconds)
        return samples if isinstance(samples, NoMetrics) else system_metrics(samples)

    async def cache(self, machine: MachineSnapshot) -> CacheMetrics | NoMetrics:
        access = self._access.lfc
        samples = await self._samples(machine, access.port, access.request_timeout_seconds)
        return samples if isinstance(samples, NoMetrics) else cache_metrics(samples)

    async def _samples(self, machine: MachineSnapshot, port: int, timeout_s: float) -> list[Sample] | NoMetrics:
        url = self._url(machine, port)
        most = MAX_GUEST_ANSWER if self._access.endpoint is None else MAX_TEXT
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
            return samples_of_machine(parse_samples(received.decode("utf-8", "replace")), machine.ref)
        except (ValueError, LookupError) as problem:  # the parser's errors for other text
            return NoMetrics(f"the answer of {url} is not Prometheus text: {problem}")

    def _url(self, machine: MachineSnapshot, port: int) -> str:
        if self._access.endpoint is None:
            host = f"[{machine.ip}]" if ":" in machine.ip else machine.ip
            return f"http://{host}:{port}/metrics"
        names = {"{namespace}": machine.ref.namespace, "{name}": machine.ref.name}
        url = self._access.endpoint
        for placeholder, name in names.items():
            url = url.replace(placeholder, name)
        return url


class AnnotationLoadSource:
    """Annotation of the VirtualMachine itself."""

    async def system(self, machine: MachineSnapshot) -> SystemMetrics | NoMetrics:
        found = self._load(machine)
        return found.system if isinstance(found, LoadMetrics) else found

    async def cache(self, machine: MachineSnapshot) -> CacheMetrics | NoMetrics:
        return _cache_metrics_of(self._load(machine))

    def _load(self, machine: MachineSnapshot) -> LoadMetrics | NoMetrics:
        place = Place.annotation(f"VirtualMachine {machine.ref}", LOAD)
        if machine.load is None:
            return NoMetrics(f"{place.about} has no annotation {LOAD}")
        return parse_load_text(machine.load, place)


class FileLoadSource:
    """A file with an entry for each VM, read each time and parsed if it has changed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: tuple[bytes, Any, tuple[Mistake, ...]] = (b"", None, ())

    async def system(self, machine: MachineSnapshot) -> SystemMetrics | NoMetrics:
        found = self._load(machine)
        return found.system if isinstance(found, LoadMetrics) else found

    async def cache(self, machine: MachineSnapshot) -> CacheMetrics | NoMetrics:
        return _cache_metrics_of(self._load(machine))

    def _load(self, machine: MachineSnapshot) -> LoadMetrics | NoMetrics:
        try:
            with self._file.open("rb") as opened:
                text = opened.read(MAX_TEXT)
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
        return parse_load(entry, Place(str(self._file), str(machine.ref)))


def select_load_source(access: MetricsAccess, session: aiohttp.ClientSession) -> LoadSource:
    """Return the source that the settings select."""
    if access.source == "annotation":
        return AnnotationLoadSource()
    if access.source == "file" and access.file is not None:
        return FileLoadSource(Path(access.file))
    return PrometheusLoadSource(session, access)


def parse_samples(text: str) -> list[Sample]:
    """Return the relevant samples. Raises `ValueError` or `LookupError` if one of their lines is no Prometheus text."""
    lines = (line for line in text.split("\n") if len(line) <= MAX_LINE and line.lstrip().startswith(NAMES))
    return [
        Sample(sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families("\n".join(lines))
        for sample in family.samples
    ]


def _cache_metrics_of(found: LoadMetrics | NoMetrics) -> CacheMetrics | NoMetrics:
    if isinstance(found, NoMetrics):
        return found
    return NoMetrics("the load has no workingSetPages") if found.cache is None else found.cache
