"""Prices of instance types, from a file or a ConfigMap, and the discount of spot.

Missing and absurd values are named. Without a known price the default discount applies, and every figure says so. Rule:
B47.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final

import msgspec

from situate.objects.settings.section import Mistake, format_value, parse_section
from situate.objects.settings.yaml_text import load_yaml
from situate.spot.nodes.savings import DEFAULT_DISCOUNT

_HIGHEST: Final = 1e6
"""Highest plausible price of one node hour, in any currency."""


class PriceEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Price of one node hour."""

    instance_type: str
    zone: str = ""
    """Empty means every zone without an entry of its own."""
    on_demand: float
    spot: float | None = None
    """None if it is not offered as spot."""


class PriceList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Document with prices of instance types."""

    date: str
    """Day of the prices, shown with them."""
    currency: str = "USD"
    prices: tuple[PriceEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Price:
    on_demand: float
    spot: float | None

    @property
    def discount(self) -> float | None:
        """Discount of spot against on demand; None without a spot price."""
        return None if self.spot is None else 1 - self.spot / self.on_demand


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by instance type and zone."""

    by_place: Mapping[tuple[str, str], Price] = field(default_factory=dict)
    date: str = ""
    """Empty without prices."""
    currency: str = ""
    default_discount: float = DEFAULT_DISCOUNT

    def price(self, instance_type: str, zone: str) -> Price | None:
        return self.by_place.get((instance_type, zone)) or self.by_place.get((instance_type, ""))

    def discount(self, instance_type: str, zone: str) -> tuple[float, bool]:
        """Return the discount, and whether it comes from a price rather than the default."""
        price = self.price(instance_type, zone)
        known = price.discount if price is not None else None
        return (self.default_discount, False) if known is None else (known, True)


NO_PRICES = Prices()


def parse_prices(text: str, source: str) -> tuple[Prices, tuple[Mistake, ...]]:
    """Return the usable prices and every mistake; an invalid entry is left out and named.

    `source` is the origin of the text, for the messages.
    """
    data, mistakes = load_yaml(text)
    if mistakes:
        return NO_PRICES, mistakes
    if not isinstance(data, Mapping):
        return NO_PRICES, (Mistake(source, format_value(data), "a mapping with the keys date, currency, prices"),)
    listed = data.get("prices")
    plain = {**data, "prices": []}
    if isinstance(data.get("date"), date):  # YAML reads an unquoted date as a date
        plain["date"] = str(data["date"])
    document, wrong = parse_section(plain, PriceList, source)
    if document is None:
        return NO_PRICES, wrong
    if not isinstance(listed, list):
        return NO_PRICES, (Mistake(f"{source}.prices", format_value(listed), "a list of prices"),)
    found: dict[tuple[str, str], Price] = {}
    faults: list[Mistake] = (
        []
        if _is_date(document.date)
        else [Mistake(f"{source}.date", format_value(document.date), "the date of the prices, such as 2026-11-01")]
    )
    for number, each in enumerate(listed):
        path = f"{source}.prices[{number}]"
        entry, wrong = parse_section(each, PriceEntry, path)
        faults.extend(wrong)
        if entry is None:
            continue
        absurd = _absurd_price_mistake(entry, path) or _duplicate_mistake(entry, path, found)
        if absurd is None:
            found[entry.instance_type, entry.zone] = Price(entry.on_demand, entry.spot)
        else:
            faults.append(absurd)
    return Prices(found, document.date, document.currency), tuple(faults)


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _duplicate_mistake(entry: PriceEntry, path: str, found: Mapping[tuple[str, str], Price]) -> Mistake | None:
    """Return a mistake if an earlier entry has the same instance type and zone; the first entry applies."""
    place = "/".join(filter(None, (entry.instance_type, entry.zone)))
    known = (entry.instance_type, entry.zone) in found
    return Mistake(path, place, "each instance type and zone once", "remove one of them") if known else None


def _absurd_price_mistake(entry: PriceEntry, path: str) -> Mistake | None:
    if not (math.isfinite(entry.on_demand) and 0 < entry.on_demand <= _HIGHEST):
        allowed = f"a price of one hour, above 0 and at most {_HIGHEST:g}"
        return Mistake(f"{path}.onDemand", format_value(entry.on_demand), allowed)
    if entry.spot is not None and not (math.isfinite(entry.spot) and 0 <= entry.spot <= entry.on_demand):
        return Mistake(f"{path}.spot", format_value(entry.spot), f"0 to the on-demand price, {entry.on_demand:g}")
    return None
