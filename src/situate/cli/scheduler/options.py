"""The options that the verbs of `situate scheduler` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from situate.cli.completing import complete_namespaces

DumpOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--dump",
        "--objects",
        help="Read the cluster from this file or folder, as `kubectl get -A -o yaml` or json writes it; repeatable.",
        show_default=False,
    ),
]
ProfileOption = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        help="A KubeSchedulerConfiguration, or a configuration with a scheduler section; default: kube-scheduler's "
        "plugins on all nodes.",
        show_default=False,
    ),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="The namespace; default: default.", autocompletion=complete_namespaces),
]
