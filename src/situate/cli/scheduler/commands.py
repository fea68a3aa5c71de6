"""Commands of `situate scheduler`: their arguments and help. The implementation is imported when one runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from situate.cli.scheduler.options import AssumedChanges
from situate.cli.terminal.formats import Format
from situate.cli.terminal.option_sets import with_option_sets
from situate.cli.terminal.options import (
    ClusterOptions,
    ListedNamespaces,
    NamespaceOption,
    OutputOption,
    SourceOptions,
    WatchOption,
)

_MOST_FIT: Final = 10_000

ProfileOption = Annotated[
    Path | None,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="Configuration file with a scheduler section, or KubeSchedulerConfiguration; default: kube-scheduler's "
        "plugins, with all nodes scored.",
        show_default=False,
    ),
]
LengthOption = Annotated[
    str | None,
    typer.Option("--for", metavar="DURATION", help="Duration, such as 1h; default: until Ctrl-C.", show_default=False),
]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Explain, predict, record and compare placements of Pods. No command here writes to a cluster.",
    epilog="""Examples:

\b
situate scheduler status -A
situate scheduler explain web-0 -n shop
situate scheduler what-if deployment.yaml

Without a cluster, from a copy of its objects:

\b
kubectl get nodes,pods,namespaces,services -A -o json > cluster.json
situate scheduler explain web-0 -n shop --objects cluster.json

Under other profiles, and next to a running scheduler:

\b
situate scheduler what-if deployment.yaml -f packing.yaml
situate scheduler record day.jsonl.gz --for 24h
situate scheduler replay day.jsonl.gz -f packing.yaml
situate scheduler shadow --for 1h -f packing.yaml

Page: docs/concepts/scheduler.md""",
)


def _complete_pods(ctx: typer.Context, incomplete: str) -> list[str]:
    from situate.cli.scheduler.explain import complete_pods

    return complete_pods(ctx, incomplete)


@app.command(short_help="Show the load of nodes, and pending Pods.")
@with_option_sets
def status(
    *,
    listed: ListedNamespaces,
    file: ProfileOption = None,
    where: SourceOptions,
    watch: WatchOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the requests on each node, and for each pending Pod the node that it would get, or why it gets none."""
    from situate.cli.scheduler.status import show

    show(file, where, listed, output, watch=watch)


@app.command(short_help="Explain why a Pod gets its node, or none.")
@with_option_sets
def explain(
    *,
    pod: Annotated[
        str,
        typer.Argument(
            metavar="POD",
            help="Name of the Pod: NAME, NAMESPACE/NAME or pod/NAME.",
            show_default=False,
            autocompletion=_complete_pods,
        ),
    ],
    namespace: NamespaceOption = None,
    file: ProfileOption = None,
    where: SourceOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Say why a Pod gets its node, or why it gets none: plugin by plugin, node by node, with all scores.

    For a Pod without a node, also show the smallest changes that would make it fit. They are found by running the
    plugins with the change. A Pod that has a node is explained as if it were scheduled now. Exits with 1 if no node
    fits.
    """
    from situate.cli.scheduler.explain import show

    show(pod, file, where, namespace, output)


@app.command("what-if", short_help="Predict nodes for Pods, and how many more fit.")
@with_option_sets
def what_if(
    *,
    pods: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Files with Pods, workloads (their templates become Pods), and nodes and services to add.",
            show_default=False,
        ),
    ] = None,
    namespace: NamespaceOption = None,
    pending: Annotated[bool, typer.Option("--pending", help="Also place the Pods that are pending now.")] = False,
    changes: AssumedChanges,
    most: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=1_000_000, help="Most Pods to count that would fit, too; 0: no count."),
    ] = _MOST_FIT,
    file: ProfileOption = None,
    where: SourceOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the node that each Pod would get, the Pods that it would preempt, and how many more would fit.

    \b
    situate scheduler what-if deployment.yaml
    situate scheduler what-if --pending --add-nodes 3 --like node-1
    situate scheduler what-if --drain node-1 --objects cluster.json

    Pods are decided in the order of the scheduling queue. Each decision counts for the later ones, as if bindings and
    evictions succeeded at once. MORE-FIT counts Pods of the same kind after all of these, without preemption. -n is the
    namespace of Pods whose file names none. Exits with 1 if a Pod would find no node.
    """
    from situate.cli.scheduler.what_if import show

    show(pods or [], changes, file, where, namespace, output, pending=pending, most=most)


@app.command(short_help="Record a cluster for replay.")
@with_option_sets
def record(
    *,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File for the recording, compressed if its name ends in .gz.")
    ],
    length: LengthOption = None,
    most: Annotated[
        str,
        typer.Option(
            "--max-size", metavar="SIZE", help="Size of a part before compression, such as 1Gi. Then a new part begins."
        ),
    ] = "1Gi",
    parts: Annotated[
        int, typer.Option("--keep", metavar="N", min=0, max=1000, help="Number of earlier parts that record keeps.")
    ] = 1,
    where: ClusterOptions,
) -> None:
    """Record a cluster's nodes and Pods, every change, and where the scheduler there places Pods.

    \b
    situate scheduler record day.jsonl.gz --for 24h
    situate scheduler replay day.jsonl.gz -f packing.yaml

    Each part of a recording is complete by itself. Older parts, and an older file of the same name, become FILE.1,
    FILE.2. The file can be read up to its last second, even if this process is killed.
    """
    from situate.cli.scheduler.record import run

    run(file, length, most, parts, where)


@app.command(short_help="Replay a recording under another profile, and compare.")
def replay(
    recording: Annotated[
        Path, typer.Argument(metavar="FILE", help="Recording, as written by `situate scheduler record`.")
    ],
    file: ProfileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Replay a recording under a profile, and compare it with the recorded decisions, placement by placement.

    "There" is the recorded cluster, "here" the same arrivals under the profile. A Pod stays on its node here, so the
    two clusters drift apart: "why" explains the difference at the moment of the decision, by plugin. A file with one
    profile is used for Pods of every scheduler.
    """
    from situate.cli.scheduler.replay import show

    show(recording, file, output)


@app.command(short_help="Compare a running scheduler's decisions with a profile's.")
@with_option_sets
def shadow(
    *,
    of: Annotated[str, typer.Option(metavar="NAME", help="schedulerName of the Pods.")] = "default-scheduler",
    length: LengthOption = None,
    pods: Annotated[
        int | None,
        typer.Option(
            "--pods", metavar="N", min=1, help="Number of decisions after which shadow ends.", show_default=False
        ),
    ] = None,
    file: ProfileOption = None,
    where: ClusterOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Watch another scheduler's decisions, decide about the same Pods, and report the differences.

    Their node agrees if it is as good as ours; -o wide shows those decisions as well. Extenders of the profile are
    asked, but never to bind. To do the same all the time, with metrics, set `shadow: true` in the scheduler section of
    the configuration. Exits with 1 if there was a difference.
    """
    from situate.cli.scheduler.shadow import run

    run(of, length, pods, file, where, output)
