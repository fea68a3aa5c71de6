"""The options that the verbs of `situate spot` share."""

from __future__ import annotations

from typing import Annotated

import typer

from situate.cli.completing import complete_namespaces

InstallationOption = Annotated[str, typer.Option("--installation", help="The namespace that situate itself runs in.")]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Only what is in this namespace; default: in all.",
        autocompletion=complete_namespaces,
    ),
]
