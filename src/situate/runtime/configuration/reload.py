"""Follows the configuration file and the files that it names, and keeps the last valid configuration.

The content is compared, not the modification time: a ConfigMap volume swaps a symbolic link, and editors replace files.
Each product decides how to apply a new configuration.
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
"""The kubelet takes up to a minute to update a ConfigMap, so five seconds more do not matter; a read is cheap."""
_LARGEST = 4 * 2**20

Parse = Callable[[str], tuple[Configuration | None, tuple[Mistake, ...]]]


@dataclass(frozen=True, slots=True)
class ReloadAccepted:
    """The file changed and is valid."""

    configuration: Configuration


@dataclass(frozen=True, slots=True)
class ReloadRejected:
    """The file changed and is invalid; the previous configuration stays in force."""

    problem: BadConfiguration


class NamedFiles:
    """The files that a configuration names, with the content that the last parse read."""

    def __init__(self) -> None:
        self._read: dict[Path, str | OSError | UnicodeDecodeError] = {}

    def text(self, path: Path) -> str:
        """Read a file for a parse and remember the result. Raises `OSError` or `UnicodeDecodeError`."""
        found = self._read[path] = _read_text(path)
        if isinstance(found, str):
            return found
        raise found

    def last_text(self, path: Path) -> str:
        """Return the content that the last parse read, or raise the exception of that read."""
        found = self._read[path]
        if isinstance(found, str):
            return found
        raise found

    def forget(self) -> None:
        """Forget all files before a parse, so that files no longer named are no longer followed."""
        self._read.clear()

    def has_changed(self) -> bool:
        """Whether a file differs from the content that the last parse read."""
        return any(_differ(found, _read_text(path)) for path, found in self._read.items())


def _read_text(path: Path) -> str | OSError | UnicodeDecodeError:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        return problem


def _differ(before: object, now: object) -> bool:
    """Compare two results of a read; exceptions are equal if type and message are."""
    return type(before) is not type(now) or str(before) != str(now)


class ConfigurationFile:
    """The file and its last valid configuration."""

    def __init__(self, path: Path, parse: Parse, named: NamedFiles | None = None) -> None:
        """`named`: the other files that `parse` reads, which are followed as well."""
        self._path = path
        self._parse = parse
        self.named = named or NamedFiles()
        self._digest = b""
        self.rejected: BadConfiguration | None = None
        """Why the current content is not in force; None when it is."""

    @property
    def folder(self) -> Path:
        """The folder to which names of other files in it are relative."""
        return self._path.parent

    def load(self) -> Configuration:
        """Load the configuration. Raises `BadConfiguration` with every mistake, also when the file cannot be read."""
        match self.poll():
            case ReloadAccepted(configuration):
                return configuration
            case ReloadRejected(problem):
                raise problem
            case None:
                raise RuntimeError(f"{self._path} was loaded before; call poll() for later changes")

    def poll(self) -> ReloadAccepted | ReloadRejected | None:
        """Read the file; return each change of the content once, and None if it is as in the last call."""
        content = self._content()
        digest = hashlib.sha256(content if isinstance(content, bytes) else str(content).encode()).digest()
        if digest == self._digest and not self.named.has_changed():
            return None
        self._digest = digest
        self.named.forget()
        configuration, mistakes = self._read(content)
        if configuration is None:
            self.rejected = BadConfiguration(str(self._path), mistakes)
            return ReloadRejected(self.rejected)
        self.rejected = None
        return ReloadAccepted(configuration)

    def _content(self) -> bytes | Mistake:
        try:
            with self._path.open("rb") as file:
                content = file.read(_LARGEST + 1)
        except OSError as problem:
            return Mistake("", problem.strerror or str(problem), "a file that can be read")
        if len(content) > _LARGEST:
            return Mistake("", f"more than {_LARGEST} bytes", f"at most {_LARGEST} bytes")
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
    """Poll until cancelled, and report each change of the content once."""
    while True:
        await asyncio.sleep(period_s)
        match file.poll():
            case ReloadAccepted(configuration):
                accepted(configuration)
            case ReloadRejected(problem):
                rejected(problem)
            case None:
                pass
