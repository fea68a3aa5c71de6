"""The options that several commands have, so that one word means the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from situate.cli.completing import complete_namespaces

FileOption = Annotated[Path, typer.Option("--file", "-f", help="The configuration.")]
OptionalFileOption = Annotated[
    Path | None, typer.Option("--file", "-f", help="The configuration; without one, what --set says.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override the file, as in vpod[0].podCapacity=20; repeatable."),
]
KubeconfigOption = Annotated[Path | None, typer.Option(help="The kubeconfig; default as kubectl's.")]
ContextOption = Annotated[str | None, typer.Option(help="The context of the kubeconfig.")]
OfNameOption = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="The namespace of NAME.", autocompletion=complete_namespaces),
]
ObjectsOption = Annotated[
    Path | None,
    typer.Option("--objects", help="Read the objects from this YAML or JSON file instead of a cluster."),
]
StatefulSetOption = Annotated[
    str | None, typer.Option("--statefulset", help="NAMESPACE/NAME of one entry, where the file has several.")
]
