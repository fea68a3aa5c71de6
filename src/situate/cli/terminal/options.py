"""Options that several commands share: each flag has one meaning, and each meaning one flag.

This module imports only the parser of the command line, because every `--help` imports it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from situate.cli.terminal.completion import complete_namespaces
from situate.cli.terminal.formats import DataFormat, Format

FileOption = Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="The configuration.")]
OptionalFileOption = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="FILE", help="The configuration; without one, what --set says.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Override a setting of the file, such as log.level=debug; repeatable."
    ),
]
KubeconfigOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The kubeconfig; default: the one that kubectl takes.")
]
ContextOption = Annotated[str | None, typer.Option(metavar="NAME", help="The context of the kubeconfig.")]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="The object's namespace; default: the kubeconfig context's.",
        autocompletion=complete_namespaces,
    ),
]
ListedNamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="List only this namespace; default: the kubeconfig context's, or all with --objects.",
        autocompletion=complete_namespaces,
    ),
]
AllNamespacesOption = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
InstallationNamespaceOption = Annotated[
    str,
    typer.Option(
        "--installation-namespace",
        metavar="NAME",
        help="The namespace in which situate runs.",
        autocompletion=complete_namespaces,
    ),
]
ObjectsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--objects",
        metavar="FILE|FOLDER",
        help="Read the objects from here in place of a cluster, as kubectl get -A -o yaml or json prints them; "
        "repeatable.",
        show_default=False,
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be written; write nothing.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Wait until nothing is left.")]
TimeoutOption = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="How long to wait, such as 90s or 10m; 0: without an end.")
]
WatchOption = Annotated[
    bool, typer.Option("--watch", "-w", help="Show the status again at each change, until Ctrl-C; looks every 2 s.")
]
OutputOption = Annotated[
    Format, typer.Option("--output", "-o", help="table and wide are for people, json and yaml for programs.")
]
DataOutputOption = Annotated[DataFormat, typer.Option("--output", "-o", help="The form of what is printed.")]
StatefulSetOption = Annotated[
    str | None,
    typer.Option("--statefulset", metavar="NAMESPACE/NAME", help="Only this entry of the file, where it has several."),
]
