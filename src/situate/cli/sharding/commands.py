"""Commands of `situate sharding`: their arguments and help. The implementation is imported when one runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from situate.cli.sharding.archive.commands import app as archive
from situate.cli.sharding.options import (
    ConfigurationOption,
    DrainOptions,
    ExecutorOptions,
    Goal,
    ResourceOption,
    SupervisorOptions,
)
from situate.cli.sharding.partition_commands import app as partitions
from situate.cli.terminal.formats import Format
from situate.cli.terminal.option_sets import with_option_sets
from situate.cli.terminal.options import (
    DryRunOption,
    ListedNamespaces,
    NamespaceOption,
    OutputOption,
    WatchOption,
)

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Custom resources on executors, the replicas of your operator. drain and uncordon write to the cluster, and "
    "some commands of partitions and archive.",
    epilog="""Examples:

\b
situate sharding status -f situate.yaml
situate sharding explain team/report-7 -f situate.yaml
situate sharding plan --goal even -f situate.yaml -A
situate sharding drain executor-2 -f situate.yaml --dry-run
situate sharding init reports --group batch.example.com

Without a cluster, from a copy of its objects:

\b
kubectl get reports,leases,pods,nodes -A -o yaml > cluster.yaml
situate sharding plan -f situate.yaml --objects cluster.yaml

Page: docs/concepts/sharding.md""",
)


def _complete_names(ctx: typer.Context, incomplete: str) -> list[str]:
    from situate.cli.sharding.explain import complete_names

    return complete_names(ctx, incomplete)


def _complete_executors(ctx: typer.Context, incomplete: str) -> list[str]:
    from situate.cli.sharding.drain import complete_executors

    return complete_executors(ctx, incomplete)


@app.command(short_help="Write a small operator to start from.")
def init(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the operator, and of its folder, module and namespace.")
    ],
    group: Annotated[
        str, typer.Option(metavar="GROUP", help="API group of the kind, in a domain of your own.")
    ] = "example.com",
    kind: Annotated[
        str,
        typer.Option(metavar="KIND", help="Kind of the objects; default: from NAME, such as MyReport from my-reports."),
    ] = "",
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder in which init creates the operator's folder.")
    ] = Path(),
    dry_run: DryRunOption = False,
) -> None:
    """Write a small operator to start from: its kind, a reconciler, two mains, manifests, and a test.

    \b
    situate sharding init reports --group batch.example.com
    cd reports && python -m pytest
    """
    from situate.cli.sharding.init import create

    create(name, group, kind, folder, dry_run=dry_run)


@app.command(short_help="Show executors, and the states of objects.")
@with_option_sets
def status(
    *,
    file: ConfigurationOption = None,
    resource: ResourceOption = None,
    where: SupervisorOptions,
    watch: WatchOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show each executor with its status and open objects, and the number of objects in each state.

    Objects of all namespaces count. NotReady: the executor's Lease has expired, so its objects go to others.
    """
    from situate.cli.sharding.status import show

    show(replace(where, file=file, resource=resource), output, watch=watch)


@app.command(short_help="Say why an object is where it is, or why it waits.")
@with_option_sets
def explain(
    *,
    name: Annotated[
        str,
        typer.Argument(
            metavar="OBJECT",
            help="NAME, NAMESPACE/NAME or TYPE/NAME, such as report/report-7.",
            autocompletion=_complete_names,
            show_default=False,
        ),
    ],
    file: ConfigurationOption = None,
    resource: ResourceOption = None,
    namespace: NamespaceOption = None,
    where: SupervisorOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show which executor has an object and why, or why it waits, and each executor's rank in the choice.

    The executor with PLACE 1 would be chosen now. With several partitions, the object's own is used. Exits with 1 if
    the object waits.
    """
    from situate.cli.sharding.explain import show

    show(name, replace(where, file=file, resource=resource), namespace, output)


@app.command(short_help="Show the fewest moves to a goal.")
@with_option_sets
def plan(
    *,
    file: ConfigurationOption = None,
    resource: ResourceOption = None,
    listed: ListedNamespaces,
    goal: Annotated[
        Goal | None, typer.Option(help="Goal for the load of executors; default: rebalance of the file, or bounded.")
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="EXECUTOR",
            help="Plan as if this executor were drained; repeatable.",
            autocompletion=_complete_executors,
        ),
    ] = None,
    where: SupervisorOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the fewest moves after which executors are as equal as the goal requires. Nothing is moved.

    Targets are examples: the strategy chooses the executor when the object moves. All objects are planned; -n and -A
    select the listed ones. Exits with 1 if the goal cannot be reached, or no executor may have an object.
    """
    from situate.cli.sharding.plan import show

    show(replace(where, file=file, resource=resource), listed, output, goal=goal, without=without or ())


@app.command(short_help="Cordon an executor; its objects move to others.")
@with_option_sets
def drain(
    *,
    executor: Annotated[
        str | None,
        typer.Argument(
            metavar="EXECUTOR",
            help="Id of the executor, as in `situate sharding status`.",
            autocompletion=_complete_executors,
            show_default=False,
        ),
    ] = None,
    own: Annotated[
        bool,
        typer.Option("--self", help="Drain the executor of this Pod, given by POD_NAME, POD_NAMESPACE and POD_UID."),
    ] = False,
    how: DrainOptions,
    where: ExecutorOptions,
) -> None:
    """Assign an executor no new objects, and let it release the objects that it has; other executors take them over.

    Exits with 1 if it still holds objects when --wait ends. In a PreStop hook: situate sharding drain --self --wait
    """

    if own == (executor is not None):
        raise typer.BadParameter("name one executor, or give --self", param_hint="EXECUTOR")
    from situate.cli.sharding.drain import drain, drain_own

    if executor is None:
        drain_own(where, how)
    else:
        drain(executor, where, how)


@app.command("undrain", hidden=True)
@app.command(short_help="Allow new assignments to an executor again.")
@with_option_sets
def uncordon(
    *,
    executor: Annotated[
        str,
        typer.Argument(
            metavar="EXECUTOR",
            help="Id of the executor, as in `situate sharding status`.",
            autocompletion=_complete_executors,
            show_default=False,
        ),
    ],
    dry_run: DryRunOption = False,
    where: ExecutorOptions,
) -> None:
    """Allow new assignments to a drained executor."""
    from situate.cli.sharding.drain import uncordon

    uncordon(executor, where, dry_run=dry_run)


app.add_typer(partitions, name="partitions", short_help="Show or change the partition table.")
app.add_typer(archive, name="archive", short_help="Find, restore, copy and check archived objects.")
