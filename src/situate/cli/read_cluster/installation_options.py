"""Options of `situate spot` and `situate vm` that name the installation, and the cluster or files to read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from situate.cli.read_cluster.cluster_source import ClusterSource


@dataclass(frozen=True, slots=True)
class InstallationOptions:
    """Options that name an installation. Each product reads it with its own settings and stores."""

    file: Path | None
    assignments: tuple[str, ...]
    installation: str
    """Namespace of the installation whose settings, Lease and records apply."""
    source: ClusterSource

    @classmethod
    def create(
        cls,
        file: Path | None,
        assignments: Iterable[str] | None,
        installation: str,
        kubeconfig: Path | None,
        context: str | None,
        objects: Iterable[Path] | None,
    ) -> Self:
        """Create it from options, whose lists may be None."""
        return cls(file, tuple(assignments or ()), installation, ClusterSource.create(kubeconfig, context, objects))

    @property
    def progress_text(self) -> str:
        """Text that the progress bar shows while the cluster or the files are read."""
        return f"reading {', '.join(map(str, self.source.objects)) or 'the cluster'}"
