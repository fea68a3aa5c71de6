"""Prices of the running process, read periodically from a file or a ConfigMap.

Mistakes are named once. Valid entries apply. While the whole document cannot be read, the last readable one applies.
Rule: B47.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from situate.kube.client import Client
from situate.kube.errors import KubeError
from situate.objects.resources import CONFIGMAPS
from situate.objects.settings.section import Mistake
from situate.spot.config.settings import PriceSettings
from situate.spot.nodes.prices import NO_PRICES, Prices, parse_prices

PERIOD_S: Final = 15.0
"""Time between two reads: prices change once an hour at most."""
KEY: Final = "prices.yaml"
"""Key of the ConfigMap's data."""
_LARGEST: Final = 4 * 2**20


class PriceReader:
    """A service that reads prices. `prices` are in force; `mistakes` are those of the latest read."""

    name = "prices"

    def __init__(
        self,
        client: Client,
        settings: Callable[[], PriceSettings],
        folder: Path,
        changed: Callable[[Prices], None],
    ) -> None:
        """`folder`: base of a relative file name. `changed` is called with prices that apply from now on."""
        self.prices = NO_PRICES
        self.mistakes: Sequence[Mistake] = ()
        self._client = client
        self._settings = settings
        self._folder = folder
        self._on_change = changed
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Read prices until cancelled."""
        told: Sequence[Mistake] = ()
        while True:
            await self.read_once()
            if self.mistakes and self.mistakes != told:
                self._log.warning("prices missing or invalid", mistakes="\n".join(map(str, self.mistakes)))
            told = self.mistakes
            await asyncio.sleep(PERIOD_S)

    async def read_once(self) -> None:
        """Read prices once; never raises for an error that an operator can correct."""
        settings = self._settings()
        text, wrong = await self._read_text(settings)
        found, mistakes = (NO_PRICES, wrong) if text is None else parse_prices(text, _source_name(settings))
        unreadable = mistakes and not found.date and self.prices.date
        prices = self.prices if unreadable else replace(found, default_discount=settings.discount)
        self.mistakes = tuple(mistakes)
        if prices != self.prices:
            self.prices = prices
            self._on_change(prices)

    async def _read_text(self, settings: PriceSettings) -> tuple[str | None, tuple[Mistake, ...]]:
        """Return the text, and its mistakes; no text and no mistake if no prices are configured."""
        if settings.file is not None:
            return _read_file(self._folder / settings.file, settings.file)
        if settings.config_map is None:
            return None, ()
        namespace, _, name = settings.config_map.partition("/")
        try:
            found = await self._client.get(CONFIGMAPS, name, namespace)
        except KubeError as problem:
            return None, (Mistake(_source_name(settings), str(problem), "a ConfigMap that can be read"),)
        if KEY not in found.data:
            return None, (Mistake(_source_name(settings), f"the keys {sorted(found.data)}", f"the key {KEY}"),)
        return found.data[KEY], ()


def _read_file(path: Path, name: str) -> tuple[str | None, tuple[Mistake, ...]]:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            return None, (Mistake(name, "a larger file", f"at most {_LARGEST} bytes"),)
        return content.decode(), ()
    except OSError as problem:
        return None, (Mistake(name, problem.strerror or str(problem), "a file that can be read"),)
    except UnicodeDecodeError as problem:
        return None, (Mistake(name, f"byte {content[problem.start]:#04x}", "text in UTF-8"),)


def _source_name(settings: PriceSettings) -> str:
    return settings.file or f"ConfigMap {settings.config_map} {KEY}"
