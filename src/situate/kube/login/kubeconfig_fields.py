"""Reads fields of a kubeconfig and reports mistakes with file, path, value found and allowed values.

Unknown fields are allowed: other tools store theirs in the same files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from situate.kube.login.connection import BadConnection

_SECRETS: Final = frozenset({"token", "password", "client-key-data", "args", "value"})
"""Fields whose values no message may show; the last two are a credential plugin's input."""
_USERS_PATH: Final = "users"
"""Path under which a value of the wrong type may be a token."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping in a file."""

    file: Path
    path: str
    """Such as `users[0].user`; empty for the file's root."""
    content: Any

    def __post_init__(self) -> None:
        if not isinstance(self.content, dict):
            place = self.path or "the whole file"
            found = "a hidden value" if place.startswith(_USERS_PATH) else _display_value(self.content)
            raise BadConnection(f"{self.file}: {place}: found {found}; allowed: a mapping of fields to values")

    def has(self, key: str) -> bool:
        return self.content.get(key) is not None

    def names(self) -> tuple[str, ...]:
        return tuple(map(str, self.content))

    def value(self, key: str) -> Any:
        """Return plain data of any shape; None if absent."""
        return self.content.get(key)

    def text(self, key: str) -> str:
        """Return a text; empty if absent."""
        value = self.content.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.mistake(key, value, "text; put it in quotes")
        return value

    def required_text(self, key: str) -> str:
        """Return a text that is not empty."""
        value = self.text(key)
        if not value:
            raise self.mistake(key, None, "text that is not empty")
        return value

    def flag(self, key: str) -> bool:
        """Return a boolean; False if absent."""
        value = self.content.get(key)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.mistake(key, value, "true or false")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; empty if absent."""
        value = self.content.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.mistake(key, value, "a list of texts")
        return tuple(value)

    def path_of(self, key: str) -> Path | None:
        """Return a path, relative to this file; None if absent."""
        value = self.text(key)
        return self.file.parent / value if value else None

    def section(self, key: str) -> Fields:
        """Return a mapping below this one; an empty one if absent."""
        value = self.content.get(key)
        return Fields(self.file, self.place(key), {} if value is None else value)

    def entries(self, key: str) -> list[Fields]:
        """Return the mappings of a list; none if absent."""
        value = self.content.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.mistake(key, value, "a list")
        return [Fields(self.file, f"{self.place(key)}[{number}]", item) for number, item in enumerate(value)]

    def place(self, key: str) -> str:
        """Return the path of a field."""
        return f"{self.path}.{key}" if self.path else key

    def mistake(self, key: str, found: object, allowed: str) -> BadConnection:
        """Build the error for a field; `found` None means that the field is absent."""
        shown = "nothing" if found is None else _display_value(found) if key not in _SECRETS else "a hidden value"
        return BadConnection(f"{self.file}: {self.place(key)}: found {shown}; allowed: {allowed}")


def _display_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"
