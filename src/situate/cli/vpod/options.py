"""Options of `situate vpod` alone. This module imports only the parser of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from situate.cli.terminal.options import SetOption, SourceOptions, StatefulSetOption


@dataclass(frozen=True, slots=True)
class VpodOptions(SourceOptions):
    """Entries of a configuration, and the cluster or the files to read."""

    file: Path = Path()
    statefulset: StatefulSetOption = None
    assignments: SetOption = None
