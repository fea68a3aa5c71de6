"""A guard that is taken out: exact source text, what stands there instead, and the tests that must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class DoesNotApply(Exception):
    """The code has changed: the patch has to follow it."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One guard less."""

    name: str
    """For the command line."""
    guard: str
    """What is taken out, and the rule it keeps."""
    file: str
    """Below src/situate."""
    before: str
    """Stands in the file exactly once."""
    after: str
    tests: tuple[str, ...]
    """For pytest: the fast ones that are there for this guard."""

    def path(self, root: Path) -> Path:
        return root / "src" / "situate" / self.file

    def apply(self, root: Path) -> str:
        """Changes the file below this root; what it said before. Raises `DoesNotApply`."""
        path = self.path(root)
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        found = text.count(self.before)
        if found != 1:
            raise DoesNotApply(f"{self.file} contains the text to replace {found} times, needed: once")
        path.write_text(text.replace(self.before, self.after), encoding="utf-8")
        return text
