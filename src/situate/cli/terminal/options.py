"""Options that several commands share: each flag has one meaning, and each meaning one flag.

This module imports only the parser of the command line, because every `--help` imports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from situate.cli.terminal.completion import complete_namespaces
from situate.cli.terminal.formats import DataFormat, Format

FileOption = Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="Configuration file.")]
OptionalFileOption = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="FILE", help="Configuration file; without it, only --set counts.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Setting that overrides the file, such as log.level=debug; repeatable."
    ),
]
KubeconfigOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Kubeconfig file; default: the file that kubectl uses.")
]
ContextOption = Annotated[str | None, typer.Option(metavar="NAME", help="Context of the kubeconfig.")]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="Namespace of the object; default: the namespace of the kubeconfig context.",
        autocompletion=complete_namespaces,
    ),
]
AllNamespacesOption = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Objects of all namespaces.")]
InstallationNamespaceOption = Annotated[
    str,
    typer.Option(
        "--installation-namespace",
        metavar="NAME",
        help="Namespace in which situate runs.",
        autocompletion=complete_namespaces,
    ),
]
ObjectsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--objects",
        metavar="FILE|FOLDER",
        help="Objects to read instead of a cluster, from a file or folder in the form of kubectl get -A -o yaml or "
        "json; repeatable.",
        show_default=False,
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the changes, and write nothing.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Wait until the drain is complete.")]
TimeoutOption = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="Maximum time to wait, such as 90s or 10m; 0: no limit.")
]
WatchOption = Annotated[
    bool, typer.Option("--watch", "-w", help="Show the status again after each change, until Ctrl-C; checks every 2 s.")
]
OutputOption = Annotated[
    Format, typer.Option("--output", "-o", help="Output format: table and wide for people, json and yaml for programs.")
]
DataOutputOption = Annotated[DataFormat, typer.Option("--output", "-o", help="Output format.")]
StatefulSetOption = Annotated[
    str | None,
    typer.Option(
        "--statefulset", metavar="NAMESPACE/NAME", help="Only the entry of this StatefulSet, if the file has several."
    ),
]


@dataclass(frozen=True, slots=True)
class ListedNamespaces:
    """Namespaces whose objects a command lists."""

    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAME",
            help="Only this namespace; default: the namespace of the kubeconfig context, or all with --objects.",
            autocompletion=complete_namespaces,
        ),
    ] = None
    all_namespaces: AllNamespacesOption = False


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Cluster of a command, and the configuration that applies there.

    Fields without an option are no flags here. Subclasses make them flags, or the command sets them.
    """

    kubeconfig: KubeconfigOption = None
    context: ContextOption = None
    objects: list[Path] | None = None
    """Files and folders to read in place of the cluster."""
    file: Path | None = None
    """Configuration file."""
    assignments: list[str] | None = None
    """Settings that override the file."""
    installation: str = "situate"
    """Namespace of the installation whose settings, Lease and records apply."""


@dataclass(frozen=True, slots=True)
class SourceOptions(ClusterOptions):
    """Cluster that a command reads, or the files in its place."""

    objects: ObjectsOption = None


@dataclass(frozen=True, slots=True)
class InstallationOptions(SourceOptions):
    """Installation that a command reads in a cluster, or in files."""

    installation: InstallationNamespaceOption = "situate"
    assignments: SetOption = None
