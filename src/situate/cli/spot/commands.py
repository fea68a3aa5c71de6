"""Commands of `situate spot`: their arguments and help. The implementation is imported when one runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from situate.cli.spot.options import PlanOptions
from situate.cli.terminal.formats import Format
from situate.cli.terminal.option_sets import with_option_sets
from situate.cli.terminal.options import (
    AllNamespacesOption,
    ClusterOptions,
    DryRunOption,
    InstallationOptions,
    ListedNamespaces,
    NamespaceOption,
    OptionalFileOption,
    OutputOption,
    WatchOption,
)

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Workloads on spot and on-demand nodes. Only ungate writes, and only to Pods that have spot's gate.",
    epilog="""Examples:

\b
situate spot status -A
situate spot explain shop/web
situate spot plan -A --set spot.autoscaling=true
situate spot ungate -A --dry-run

Without a cluster, from a copy of its objects:

\b
KINDS=nodes,pods,deployments,replicasets,statefulsets,namespaces
kubectl get $KINDS,poddisruptionbudgets,leases -A -o yaml > cluster.yaml
situate spot plan --objects cluster.yaml

Page: docs/concepts/spot.md""",
)


def _complete_workloads(ctx: typer.Context, incomplete: str) -> list[str]:
    from situate.cli.spot.explain import complete_workloads

    return complete_workloads(ctx, incomplete)


@app.command(short_help="Show workloads, nodes and costs.")
@with_option_sets
def status(
    *,
    file: OptionalFileOption = None,
    listed: ListedNamespaces,
    where: InstallationOptions,
    watch: WatchOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show each workload with its target and its Pods, ending nodes, the cost, and the capacity for a wave.

    Nodes, cost and capacity are those of the whole cluster. -o wide also shows workloads that spot does not manage, and
    nodes without a problem.
    """
    from situate.cli.spot.status import show

    show(replace(where, file=file), listed, output, watch=watch)


@app.command(short_help="Explain the nodes of a workload's Pods.")
@with_option_sets
def explain(
    *,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name of a workload or Pod: NAME, NAMESPACE/NAME or TYPE/NAME, such as deployment/web or pod/web-0.",
            autocompletion=_complete_workloads,
            show_default=False,
        ),
    ],
    namespace: NamespaceOption = None,
    file: OptionalFileOption = None,
    where: InstallationOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Say how many on-demand Pods a workload asks for, how each Pod counts, and how many stay if all spot nodes end.

    TURN is a Pod's position in the order of moves. Exits with 1 if the workload has too few on-demand Pods, a move is
    blocked, or a Pod waits for a node.
    """
    from situate.cli.spot.explain import show

    show(name, replace(where, file=file), namespace, output)


@app.command(short_help="Show the next moves, with order and reasons.")
@with_option_sets
def plan(
    *,
    file: OptionalFileOption = None,
    listed: ListedNamespaces,
    extras: PlanOptions,
    where: InstallationOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show every Pod that would be moved, in order and with the reason, and the cost before and after.

    All workloads are planned; -n and -A select the listed ones. Cool-downs, windows and budgets only delay moves and
    are not shown.

    Exits with 1 if a listed workload keeps too few on-demand Pods, a move is blocked, or a Pod waits for a node.
    """
    from situate.cli.spot.plan import show

    show(replace(where, file=file), listed, extras, output)


@app.command(short_help="Remove spot's gate from unclassified Pods.")
@with_option_sets
def ungate(
    *,
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    dry_run: DryRunOption = False,
    where: ClusterOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Remove the scheduling gate of spot from every Pod that waits behind it; schedulers place the Pods on any node.

    The leader classifies such Pods within a second. Use this command where no leader runs. Exits with 1 if a Pod keeps
    its gate.
    """
    from situate.cli.spot.ungate import show

    show(where, ListedNamespaces(namespace, all_namespaces), output, dry_run=dry_run)
