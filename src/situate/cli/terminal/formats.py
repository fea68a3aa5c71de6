"""Output formats of commands, as `-o` names them."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """Values of `-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class DataFormat(StrEnum):
    """Values of `-o` for commands that print objects."""

    YAML = "yaml"
    JSON = "json"
