"""Follows the configuration file and the files that it names while the process runs; keeps the last good one.

The content is compared, not the modification time: a ConfigMap volume swaps a symbolic link, and editors replace files.
What a product does with a new configuration is its own affair.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from situate.objects.settings.section import Mistake
from situate.runtime.configuration.file import BadConfiguration, Configuration

PERIOD_S = 5.0
"""A ConfigMap takes the kubelet up to a minute; five seconds more are not felt, and a read is some microseconds."""
_LARGEST = 4 * 2**20

Parse = Callable[[str], tuple[Configuration | None, tuple[Mistake, ...]]]


@dataclass(frozen=True, slots=True)
class Accepted:
    """The file changed and is in order."""

    configuration: Configuration


@dataclass(frozen=True, slots=True)
class Rejected:
    """The file changed and is not in order; the configuration before it stays in force."""

    problem: BadConfiguration


class NamedFiles:
    """Files that a configuration names, with their content as the last parse read it."""

    def __init__(self) -> None:
        self._read: dict[Path, str | OSError | UnicodeDecodeError] = {}

    def text(self, path: Path) -> str:
        """Read a file for a parse. Raises `OSError` or `UnicodeDecodeError`, of which it takes note as well."""
        found = self._read[path] = _text(path)
        if isinstance(found, str):
            return found
        raise found

    def last(self, path: Path) -> str:
        """The content that the last parse read. Raises what that read raised."""
        found = self._read[path]
        if isinstance(found, str):
            return found
        raise found

    def forget(self) -> None:
        """Before a parse: files that it names no more are followed no more."""
        self._read.clear()

    def changed(self) -> bool:
        """Whether one of them differs from what the last parse read."""
        return any(_differ(found, _text(path)) for path, found in self._read.items())


def _text(path: Path) -> str | OSError | UnicodeDecodeError:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        return problem


def _differ(before: object, now: object) -> bool:
    """Exceptions are equal if they say the same."""
    return type(before) is not type(now) or str(before) != str(now)


class ConfigurationFile:
    """One file and the last good configuration that was read from it."""

    def __init__(self, path: Path, parse: Parse, named: NamedFiles | None = None) -> None:
        """`named`: the files that `parse` reads besides, which are followed as well."""
        self._path = path
        self._parse = parse
        self.named = named or NamedFiles()
        self._digest = b""
        self.rejected: BadConfiguration | None = None
        """Why the present content is not in force; None when it is."""

    @property
    def folder(self) -> Path:
        """What names of other files in it are relative to."""
        return self._path.parent

    def load(self) -> Configuration:
        """Raises `BadConfiguration` with every mistake, also when the file cannot be read."""
        match self.poll():
            case Accepted(configuration):
                return configuration
            case Rejected(problem):
                raise problem
            case None:
                raise RuntimeError(f"{self._path} was loaded before; poll() tells what changed since")

    def poll(self) -> Accepted | Rejected | None:
        """None while the content is what it was at the last call; each change is told once."""
        content = self._content()
        digest = hashlib.sha256(content if isinstance(content, bytes) else str(content).encode()).digest()
        if digest == self._digest and not self.named.changed():
            return None
        self._digest = digest
        self.named.forget()
        configuration, mistakes = self._read(content)
        if configuration is None:
            self.rejected = BadConfiguration(str(self._path), mistakes)
            return Rejected(self.rejected)
        self.rejected = None
        return Accepted(configuration)

    def _content(self) -> bytes | Mistake:
        try:
            with self._path.open("rb") as file:
                content = file.read(_LARGEST + 1)
        except OSError as problem:
            return Mistake("", problem.strerror or str(problem), "a file that can be read")
        if len(content) > _LARGEST:
            return Mistake("", "a larger file", f"at most {_LARGEST} bytes")
        return content

    def _read(self, content: bytes | Mistake) -> tuple[Configuration | None, tuple[Mistake, ...]]:
        if isinstance(content, Mistake):
            return None, (content,)
        try:
            text = content.decode()
        except UnicodeDecodeError as problem:
            return None, (Mistake("", f"byte {content[problem.start]:#04x} at {problem.start}", "text in UTF-8"),)
        return self._parse(text)


async def follow(
    file: ConfigurationFile,
    accepted: Callable[[Configuration], None],
    rejected: Callable[[BadConfiguration], None],
    period_s: float = PERIOD_S,
) -> None:
    """Polls until cancelled, and tells each change of the content once."""
    while True:
        await asyncio.sleep(period_s)
        match file.poll():
            case Accepted(configuration):
                accepted(configuration)
            case Rejected(problem):
                rejected(problem)
            case None:
                pass
