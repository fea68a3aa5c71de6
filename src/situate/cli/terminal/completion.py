"""Complete names of nodes and namespaces from the cluster, for the shell.

The client is imported when the user presses Tab: help and the parser do not need it.
"""

from __future__ import annotations

import typer


def complete_nodes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of nodes."""
    from situate.cli.input.cluster_names import names_of_nodes

    return names_of_nodes(ctx, incomplete)


def complete_namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of namespaces."""
    from situate.cli.input.cluster_names import names_of_namespaces

    return names_of_namespaces(ctx, incomplete)
