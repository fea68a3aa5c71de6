"""What the options of `situate spot` and `situate vm` say of the installation, and of the cluster or files to read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from situate.cli.read_cluster.where import Where


@dataclass(frozen=True, slots=True)
class AskedOfInstallation:
    """A product reads it with its own settings and stores."""

    file: Path | None
    assignments: tuple[str, ...]
    installation: str
    """Namespace of the installation whose settings, Lease and records count."""
    where: Where

    @classmethod
    def of(
        cls,
        file: Path | None,
        assignments: Iterable[str] | None,
        installation: str,
        kubeconfig: Path | None,
        context: str | None,
        objects: Iterable[Path] | None,
    ) -> Self:
        """Of options, whose lists may be None."""
        return cls(file, tuple(assignments or ()), installation, Where.of(kubeconfig, context, objects))

    @property
    def reading(self) -> str:
        """What is shown while it is read."""
        return f"reading {', '.join(map(str, self.where.objects)) or 'the cluster'}"
