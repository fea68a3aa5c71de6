"""Histories of sharding as `situate.testing.histories.play` takes them."""

from __future__ import annotations

from typing import Final

from situate.testing.histories.play import Product
from situate.testing.sharding.faults import FAULTS
from situate.testing.sharding.history import ShardingHistory, generate
from situate.testing.sharding.run import play

PRODUCT: Final = Product("situate.testing.sharding", generate, ShardingHistory.from_json, play, FAULTS, "sharding-")
