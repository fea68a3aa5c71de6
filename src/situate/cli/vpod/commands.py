"""Commands of `situate vpod`: their arguments and help. The implementation is imported when one runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from situate.cli.terminal.formats import Format
from situate.cli.terminal.option_sets import with_option_sets
from situate.cli.terminal.options import FileOption, ListedNamespaces, NamespaceOption, OutputOption, WatchOption
from situate.cli.vpod.options import VpodOptions

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Placements of virtual replicas (vreplicas) on the Pods of StatefulSets. No command here writes.",
    epilog="""Examples:

\b
situate vpod status -f situate.yaml -A
situate vpod explain shop/orders -f situate.yaml
situate vpod plan -f situate.yaml --set 'vpod[0].policy=pack'

Without a cluster, from a copy of its objects:

\b
kubectl get nodes,statefulsets,pods,consumergroups -A -o yaml > cluster.yaml
situate vpod plan -f situate.yaml --objects cluster.yaml

Page: docs/concepts/vpod.md""",
)


def _complete_sources(ctx: typer.Context, incomplete: str) -> list[str]:
    from situate.cli.vpod.explain import complete_sources

    return complete_sources(ctx, incomplete)


@app.command(short_help="Show Pods, sources and their placements.")
@with_option_sets
def status(
    *,
    file: FileOption,
    listed: ListedNamespaces,
    where: VpodOptions,
    watch: WatchOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show each Pod with its class and load, and each source with the vreplicas it wants and has.

    Exits with 1 if a StatefulSet does not exist.
    """
    from situate.cli.vpod.status import show

    show(replace(where, file=file), listed, output, watch=watch)


@app.command(short_help="Explain the placements of a source.")
@with_option_sets
def explain(
    *,
    source: Annotated[
        str,
        typer.Argument(
            help="Name of the source: NAME, NAMESPACE/NAME or TYPE/NAME, such as consumergroup/orders.",
            autocompletion=_complete_sources,
            show_default=False,
        ),
    ],
    file: FileOption,
    namespace: NamespaceOption = None,
    where: VpodOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Say where a source's vreplicas are, Pod by Pod, and where they would be after the next decision.

    Exits with 1 if some vreplicas cannot be placed, or the StatefulSet does not exist.
    """
    from situate.cli.vpod.explain import show

    show(source, replace(where, file=file), namespace, output)


@app.command(short_help="Show the next decisions.")
@with_option_sets
def plan(
    *,
    file: FileOption,
    listed: ListedNamespaces,
    where: VpodOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show where every source would be placed, and how many Pods the StatefulSet would get.

    All sources are planned; -n and -A select the listed ones. Exits with 1 if some vreplicas of a listed source cannot
    be placed, or a StatefulSet does not exist.
    """
    from situate.cli.vpod.plan import show

    show(replace(where, file=file), listed, output)
