"""The forms in which commands print, as `-o` names them."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """`-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class DataFormat(StrEnum):
    """`-o` of commands that print objects."""

    YAML = "yaml"
    JSON = "json"
