"""Prices that are followed while the process runs (B47)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from situate.kube.connect import connect
from situate.kube.login.connection import Connection
from situate.spot.config.settings import PriceSettings
from situate.spot.controller.observe.prices import KEY, PriceReader
from situate.spot.nodes.prices import Prices
from tests.spot.controller.playground import Playground

GOOD = "date: 2026-11-01\ncurrency: EUR\nprices: [{instanceType: m5, onDemand: 0.1, spot: 0.03}]\n"


class Followed:
    """`pricing` with settings that a test may change."""

    def __init__(self, folder: Path, settings: PriceSettings, server: str = "http://127.0.0.1:1") -> None:
        self.settings = settings
        self.told: list[Prices] = []
        self.client = connect(Connection(server, "the test"), random.Random(1))
        self.pricing = PriceReader(self.client, lambda: self.settings, folder, self.told.append)

    async def look(self) -> list[str]:
        await self.pricing.read_once()
        return [str(mistake) for mistake in self.pricing.mistakes]


@pytest.mark.rule("spot:B47")
async def test_a_file_is_followed_and_one_that_cannot_be_read_leaves_the_last_prices(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(GOOD)
    made = Followed(tmp_path, PriceSettings(file="prices.yaml", discount=0.5))
    assert await made.look() == []
    assert (made.told[-1].date, made.told[-1].default_discount) == ("2026-11-01", 0.5)
    assert await made.look() == []
    assert len(made.told) == 1, "what is the same is not told again"
    for broken, said in ((b"{", "YAML"), (b"x" * 5_000_000, "found a larger file"), (b"\xff", "found byte 0xff")):
        file.write_bytes(broken)
        (mistake,) = await made.look()
        assert said in mistake
        assert len(made.told) == 1
        assert made.pricing.prices.date == "2026-11-01"
    file.unlink()
    (gone,) = await made.look()
    assert "No such file or directory" in gone
    file.write_text(GOOD.replace("0.03", "0.3"))
    (absurd,) = await made.look()
    assert "prices[0].spot: found 0.3, allowed: 0 to the on-demand price" in absurd
    assert made.told[-1].by_place == {}, "an entry that is absurd does not count any more"
    made.settings = PriceSettings()
    assert await made.look() == []
    assert made.told[-1] == Prices()
    await made.client.close()


@pytest.mark.rule("spot:B47")
async def test_a_configmap_is_followed_and_what_is_wrong_with_it_is_named(playground: Playground) -> None:
    maps = "/api/v1/namespaces/shop/configmaps"
    made = Followed(Path(), PriceSettings(config_map="shop/prices"), playground.server.url)
    (missing,) = await made.look()
    assert "ConfigMap shop/prices" in missing
    await playground.call("POST", maps, {"metadata": {"name": "prices"}, "data": {"other": ""}})
    (keyless,) = await made.look()
    assert f"allowed: the key {KEY}" in keyless
    patch = {"data": {KEY: GOOD}}
    await playground.call("PATCH", f"{maps}/prices", patch, kind="application/merge-patch+json")
    assert await made.look() == []
    assert made.pricing.prices.price("m5", "a") is not None
    await made.client.close()
