"""Commands of `situate spot`: their arguments and help. The implementation is imported when one runs."""

from __future__ import annotations

from typing import Annotated

import typer

from situate.cli.terminal.formats import Format
from situate.cli.terminal.options import (
    AllNamespacesOption,
    ContextOption,
    DryRunOption,
    InstallationNamespaceOption,
    KubeconfigOption,
    ListedNamespaceOption,
    NamespaceOption,
    ObjectsOption,
    OptionalFileOption,
    OutputOption,
    SetOption,
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
def status(
    file: OptionalFileOption = None,
    namespace: ListedNamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    installation: InstallationNamespaceOption = "situate",
    assignments: SetOption = None,
    objects: ObjectsOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    watch: WatchOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show each workload with its target and its Pods, ending nodes, the cost, and the capacity for a wave.

    Nodes, cost and capacity are those of the whole cluster. -o wide also shows workloads that spot does not manage, and
    nodes without a problem.
    """
    from situate.cli.spot.read_cluster import SpotOptions
    from situate.cli.spot.status import show

    asked = SpotOptions.create(file, assignments, installation, kubeconfig, context, objects)
    show(asked, namespace, output, of_all=all_namespaces, watch=watch)


@app.command(short_help="Explain the nodes of a workload's Pods.")
def explain(
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
    installation: InstallationNamespaceOption = "situate",
    assignments: SetOption = None,
    objects: ObjectsOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Say how many on-demand Pods a workload asks for, how each Pod counts, and how many stay if all spot nodes end.

    TURN is a Pod's position in the order of moves. Exits with 1 if the workload has too few on-demand Pods, a move is
    blocked, or a Pod waits for a node.
    """
    from situate.cli.spot.explain import show
    from situate.cli.spot.read_cluster import SpotOptions

    show(name, SpotOptions.create(file, assignments, installation, kubeconfig, context, objects), namespace, output)


@app.command(short_help="Show the next moves, with order and reasons.")
def plan(
    file: OptionalFileOption = None,
    namespace: ListedNamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Also show the results of topology spread constraints and of WorkloadSpread."),
    ] = False,
    balloons: Annotated[
        bool,
        typer.Option("--balloons", help="Print Pods for kubectl apply that reserve the missing capacity of a wave."),
    ] = False,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE", help="Image of the Pods of --balloons, which do nothing; default: situate:VERSION."
        ),
    ] = None,
    installation: InstallationNamespaceOption = "situate",
    assignments: SetOption = None,
    objects: ObjectsOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show every Pod that would be moved, in order and with the reason, and the cost before and after.

    All workloads are planned; -n and -A select the listed ones. Cool-downs, windows and budgets only delay moves and
    are not shown.

    Exits with 1 if a listed workload keeps too few on-demand Pods, a move is blocked, or a Pod waits for a node.
    """
    from situate.cli.spot.plan import PlanOptions, show
    from situate.cli.spot.read_cluster import SpotOptions

    asked = SpotOptions.create(file, assignments, installation, kubeconfig, context, objects)
    extras = PlanOptions(compare=compare, balloons=balloons, image=image)
    show(asked, namespace, output, extras, of_all=all_namespaces)


@app.command(short_help="Remove spot's gate from unclassified Pods.")
def ungate(
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    dry_run: DryRunOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Remove the scheduling gate of spot from every Pod that waits behind it; schedulers place the Pods on any node.

    The leader classifies such Pods within a second. Use this command where no leader runs. Exits with 1 if a Pod keeps
    its gate.
    """
    from situate.cli.read_cluster.cluster_source import ClusterSource
    from situate.cli.spot.ungate import show

    show(ClusterSource.create(kubeconfig, context), namespace, output, of_all=all_namespaces, dry_run=dry_run)
