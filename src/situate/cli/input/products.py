"""Names of products for `situate manifests` and `situate crds`."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import typer


class Product(StrEnum):
    """Products that can be installed without a configuration file."""

    SPOT = "spot"
    ARCHIVE = "archive"
    SHARDING = "sharding"
    VM_AGENT = "vm-agent"
    VM_MACHINES = "vm-machines"


class CrdProduct(StrEnum):
    """Products whose custom resource definitions `situate crds` prints."""

    VPOD = "vpod"
    VM = "vm"


_ALIASES: Final = {"shard": Product.SHARDING}
"""Former names, which still work and are not listed."""


def product_of(text: str) -> Product:
    """Return the product with this name or former name. Raises `BadParameter`."""
    if text in _ALIASES:
        return _ALIASES[text]
    try:
        return Product(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(map(repr, map(str, Product)))}.") from None


def product_names() -> list[str]:
    """Return the names for completion."""
    return list(Product)
