"""Commands of `situate vm`: their arguments and help. The implementation is imported when one runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from situate.cli.terminal.completion import complete_namespaces, complete_nodes
from situate.cli.terminal.formats import Format
from situate.cli.terminal.option_sets import with_option_sets
from situate.cli.terminal.options import (
    ClusterOptions,
    DryRunOption,
    InstallationOptions,
    ListedNamespaces,
    NamespaceOption,
    OptionalFileOption,
    OutputOption,
    SetOption,
    WatchOption,
)
from situate.cli.vm.options import DrainClusterOptions, EmulatorTimes, WaitOptions
from situate.cli.vm.variables import NODE_VARIABLE

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Virtual machines (VMs) that grow, shrink and move. status, explain and plan never write.",
    epilog="""Examples:

\b
situate vm status -A
situate vm explain shop/db
situate vm plan -A
situate vm drain n1 --wait --timeout 10m
situate vm uncordon n1

Without a cluster, from a copy of its objects:

\b
kubectl get nodes,pods,neonvm,neonvmm,leases -A -o yaml > cluster.yaml
situate vm plan --objects cluster.yaml

Page: docs/concepts/vm.md""",
)

NodeArgument = Annotated[
    str, typer.Argument(metavar="NODE", help="Name of the node.", autocompletion=complete_nodes, show_default=False)
]
HealthAddressOption = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Address of /healthz, /readyz and /metrics; empty: not served.")
]


def _complete_machines(ctx: typer.Context, incomplete: str) -> list[str]:
    from situate.cli.vm.explain import complete_machines

    return complete_machines(ctx, incomplete)


@app.command(short_help="Show nodes, VMs, and the moves with their reason.")
@with_option_sets
def status(
    *,
    file: OptionalFileOption = None,
    listed: ListedNamespaces,
    where: InstallationOptions,
    watch: WatchOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show each node with its reserved and held capacity, each VM with its size, and the moves with their beneficiary.

    Nodes and totals are those of the whole cluster.
    """
    from situate.cli.vm.status import show

    show(replace(where, file=file), listed, output, watch=watch)


@app.command(short_help="Explain a shortage of a VM or Pod, with remedies.")
@with_option_sets
def explain(
    *,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A VirtualMachine or a Pod: NAME, NAMESPACE/NAME or TYPE/NAME, such as vm/db or pod/web.",
            autocompletion=_complete_machines,
            show_default=False,
        ),
    ],
    namespace: NamespaceOption = None,
    file: OptionalFileOption = None,
    where: InstallationOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Say how much a VM or a Pod is short and why, which others wait on its node, and which changes would help.

    Only the leader knows how long each has waited; its permit port returns that at GET /explain/pod/NAMESPACE/NAME.
    Exits with 1 if it has less than it asks for, or no node.
    """
    from situate.cli.vm.explain import show

    show(name, replace(where, file=file), namespace, output)


@app.command(short_help="Show the next migrations and their reasons.")
@with_option_sets
def plan(
    *,
    file: OptionalFileOption = None,
    listed: ListedNamespaces,
    where: InstallationOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the moves that would begin now: for VMs that are short, and from nodes that drain or exceed their watermark.

    All VMs are planned; -n and -A select the listed ones. Moves in progress are listed separately. Limits and
    cool-downs apply, as they do for the leader.

    Exits with 1 if a listed VM stays short or has no node, or a VM cannot leave a node that it has to leave.
    """
    from situate.cli.vm.plan import show

    show(replace(where, file=file), listed, output)


@app.command(short_help="Move the VMs of a node away.")
@with_option_sets
def drain(
    *,
    node: NodeArgument,
    dry_run: DryRunOption = False,
    waiting: WaitOptions,
    where: DrainClusterOptions,
) -> None:
    """Live-migrate every VM that may move away from a node, cheapest first and within the limits; other Pods stay.

    It sets the annotation vm.situate.dev/drain, and the leader moves the VMs. No VM is placed on the node while the
    annotation is set. Other Pods still are: kubectl cordon prevents that.

    Exits with 1 if a VM is left on the node at the end of --timeout.
    """
    from situate.cli.vm.drain import start_drain

    start_drain(node, where, waiting, dry_run=dry_run)


@app.command(short_help="Let VMs stay on a node again.")
@with_option_sets
def uncordon(
    *,
    node: NodeArgument,
    dry_run: DryRunOption = False,
    where: ClusterOptions,
) -> None:
    """Cancel a drain: VMs may stay on the node and be placed there. Moves in progress continue."""
    from situate.cli.vm.drain import end_drain

    end_drain(node, where, dry_run=dry_run)


app.command("undrain", hidden=True)(uncordon)


@app.command(short_help="Run the agent that sizes VMs by their load.")
@with_option_sets
def agent(
    *,
    node: Annotated[
        str,
        typer.Option(
            "--node",
            metavar="NODE",
            envvar=NODE_VARIABLE,
            help="Size the VMs of this node.",
            autocompletion=complete_nodes,
        ),
    ] = "",
    all_nodes: Annotated[bool, typer.Option("--all-nodes", help="Size the VMs of all nodes.")] = False,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Configuration file of the agent, in YAML or JSON."),
    ] = None,
    assignments: SetOption = None,
    health_address: HealthAddressOption = ":8081",
    where: ClusterOptions,
) -> None:
    """Size VMs by their load, until SIGTERM or Ctrl-C: request each size from the scheduler, and resize the VM.

    Without guests, as on an embedded cluster: --set monitor.kind=standIn --set metrics.source=annotation, and the load
    in the annotation vm.situate.dev/load of each VirtualMachine, as {"load1": 1.5, "memoryUsed": "1Gi"}.

    \b
    situate vm agent --node n1
    situate vm agent --all-nodes -f agent.yaml

    Page: docs/guides/vm/agent.md
    """
    from situate.cli.vm.agent import run

    run(node, replace(where, file=file, assignments=assignments), health_address, all_nodes=all_nodes)


@app.command(short_help="Run VMs without a hypervisor.")
@with_option_sets
def machines(
    *,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAME",
            help="Run only the VMs of this namespace; default: of all namespaces.",
            autocompletion=complete_namespaces,
        ),
    ] = None,
    installation: Annotated[
        str | None,
        typer.Option(
            "--installation-namespace",
            metavar="NAME",
            help="Namespace of this process and of its Lease; default: the namespace of the kubeconfig context.",
            autocompletion=complete_namespaces,
        ),
    ] = None,
    times: EmulatorTimes,
    health_address: HealthAddressOption = "",
    compat: Annotated[
        bool, typer.Option("--compat", help="Let a second migration of a VM wait, as NeonVM does; otherwise it fails.")
    ] = False,
    where: ClusterOptions,
) -> None:
    """Act as VM controller and migrator on a cluster without a hypervisor, until SIGTERM or Ctrl-C.

    VirtualMachines get runner Pods, grow and shrink by their spec, and move by VirtualMachineMigrations. No guest runs.
    The annotation vm.situate.dev/hypervisor of a VirtualMachine describes its hypervisor, such as {"usedMemory": "2Gi",
    "dirtyRate": "50Mi", "failAtPercent": 99}.

    \b
    situate crds vm | kubectl apply --server-side -f -
    situate vm machines

    Never run it in a cluster with NeonVM: both would act on the same objects. `situate manifests vm-machines` prints
    the objects that a cluster needs for it.

    Page: docs/guides/vm/hypervisors.md
    """
    from situate.cli.vm.machines import run

    run(namespace, installation, times, health_address, where, compat=compat)
