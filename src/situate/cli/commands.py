"""Commands of `situate` that belong to no single product: their arguments and their help.

The implementation is imported when a command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from situate import __version__
from situate.cli.input.products import CrdProduct, Product, product_names, product_of
from situate.cli.terminal.formats import DataFormat, Format
from situate.cli.terminal.options import (
    ContextOption,
    DataOutputOption,
    InstallationNamespaceOption,
    KubeconfigOption,
    OptionalFileOption,
    OutputOption,
    SetOption,
)
from situate.runtime.configuration.shared_settings import LogFormat, LogLevel

_MOST_NODES: Final = 20_000
"""Limit of `--nodes`. This many nodes take some seconds to create; they are a typing error or a test of scale."""


def demo(
    once: Annotated[
        bool, typer.Option("--once", help="Play without a terminal: check each chapter, print its outcome, and exit.")
    ] = False,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Kubeconfig of the cluster to play on, in the demo's own namespaces; kwok must run its nodes.",
        ),
    ] = None,
) -> None:
    """Play a story on an embedded cluster: sources are placed, scaled, drained and moved after a node loss; Pods, too.

    Then all spot nodes of a Deployment end, executors of an operator are killed, drained and rolled, and a virtual
    machine grows after its neighbour has moved away. It needs no Kubernetes. The API server, the schedulers, the
    executors and the agent are separate processes. The story acts through the API, and continues until Ctrl-C.

    \b
    situate demo
    situate demo --once

    Page: README.md
    """
    from situate.cli.demo.command import run

    run(kubeconfig, once=once)


def simulate(
    scenario: Annotated[
        Path,
        typer.Argument(
            metavar="SCENARIO",
            help="Scenario file, such as examples/vpod-day.yaml or examples/spot-wave.yaml; trace of VMs, a file of "
            "JSON lines whose name ends in .jsonl; wave of spot nodes: steady, full-wave, half-wave, rolling-waves, "
            "flapping, wave-in-rollout, wave-at-peak, no-notice, on-demand-full, baselines; or load of VMs: "
            "vm-steady, vm-burst, vm-full-cluster, vm-at-watermark, vm-heterogeneous, vm-node-loss.",
            show_default=False,
        ),
    ],
    variant: Annotated[
        list[str] | None,
        typer.Option(
            "--variant",
            metavar="NAME",
            help="Only this variant of the scenario, policy of spot, or rules of vm (compat, default); repeatable.",
        ),
    ] = None,
    runs: Annotated[
        int | None, typer.Option("--runs", metavar="N", min=1, max=10_000, help="Number of runs of each spot policy.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", metavar="N", help="Random seed of spot waves and VM loads; equal seeds give equal results."
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="SVG file for a chart of demand and running work over time."),
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Play a scenario for each variant or policy and show its costs, moves and shortages. Needs no cluster.

    vpod: USED: part of the Pods' capacity that was used. PEAK: most Pods at once. MOVES: vreplicas that lost their
    place. RAN: part of the demand that ran. LONGEST: the longest shortage of one source. SKEW: most minus fewest
    vreplicas of a source on a Pod, on average. With -o wide also ZONE-SHARE: part of a source in its fullest zone.
    SCALED: scale-ups/scale-downs. SHORT: vreplica-time that did not run; UNPLACED: the part of it that was not even
    placed.

    spot: COST: share of the cost with all Pods on demand. OUTAGE-S, HALF-S: seconds in which no Pod of a workload
    served, or half of them at most. SHORT-POD-S: seconds times the number of missing Pods. LEAST-READY: the fewest Pods
    that served. RESTARTS: Pods that ended for other reasons than scaling or a rollout. All are means over the runs; -o
    wide and -o json also show the spread.

    vm: the rules of neondatabase/autoscaling (compat) and of situate (default). REQUESTS: requests for more than a VM
    has. P50, P99: seconds until a request is granted and used; for a request that is never granted, its whole duration.
    FROZEN-S: VM-seconds in which a migration prevented a resize. SHORT-S: VM-seconds with less than requested, or not
    running.

    \b
    situate simulate rolling-waves
    situate simulate vm-burst --variant default

    Page: docs/guides/vpod/simulate.md
    """
    from situate.cli.simulate.command import show

    show(scenario, variant or [], runs, seed, plot, output)


def embedded(
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port to listen on; 0: any free port.")
    ] = 8001,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder that stores the state; without it, the state is lost at exit."),
    ] = None,
    nodes: Annotated[
        int, typer.Option("--nodes", metavar="N", min=0, max=_MOST_NODES, help="Number of nodes at the start.")
    ] = 0,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--write-kubeconfig", metavar="FILE", help="File for a kubeconfig, written when the server is ready."
        ),
    ] = None,
    machines: Annotated[
        bool, typer.Option("--machines", help="Run and live-migrate VirtualMachines, as `situate vm machines` does.")
    ] = False,
    run_pods: Annotated[
        Path | None,
        typer.Option(
            "--run-pods",
            metavar="FOLDER",
            help="Folder for logs. Pods of situate's image and of --run-image then run as processes of this machine.",
        ),
    ] = None,
    run_image: Annotated[
        list[str] | None,
        typer.Option(
            metavar="IMAGE=COMMAND",
            help="Command of an image for --run-pods, such as reports:1='python executor.py'; repeatable.",
        ),
    ] = None,
) -> None:
    """Run an API server with controllers and kubelets in memory, until Ctrl-C. kubectl works with it.

    \b
    situate embedded --nodes 3 --write-kubeconfig kubeconfig
    KUBECONFIG=kubeconfig kubectl get nodes
    situate embedded --run-pods logs --run-image reports:1='python executor.py'

    Page: docs/guides/test-with-situate.md
    """
    from situate.cli.embedded import run

    run(port, host, data, nodes, kubeconfig, run_pods, run_image or [], machines=machines)


def check(
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Configuration file.", show_default=False)
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Check only the file, without a cluster.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of the file, for editors.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print every setting with its effective value.")] = False,
    assignments: SetOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Check the configuration; then, against the cluster, versions, definitions and permissions.

    Exits with 1 if a check failed, with 2 if the configuration is wrong.

    \b
    situate check -f situate.yaml
    situate check -f situate.yaml --offline --show

    Page: docs/getting-started/install.md
    """
    from situate.cli.check.check import run

    run(file, assignments or [], kubeconfig, context, output, offline=offline, schema=schema, in_force=show)


def crds(
    products: Annotated[
        list[CrdProduct] | None,
        typer.Argument(metavar="[vpod|vm]...", help="Only the definitions of these products.", show_default=False),
    ] = None,
    output: DataOutputOption = DataFormat.YAML,
) -> None:
    """Print the custom resource definitions, for kubectl apply.

    ConsumerGroup, Consumer and KafkaSource have the shape of Knative's, VirtualMachine and VirtualMachineMigration that
    of NeonVM's. A cluster with Knative or NeonVM has these definitions already: do not apply them there.

    \b
    situate crds | kubectl apply --server-side -f -
    situate crds vm | kubectl apply --server-side -f -

    Page: docs/getting-started/install.md
    """
    from situate.cli.manifests.crds import show

    show(products or [], output)


def manifests(
    product: Annotated[
        Product | None,
        typer.Argument(
            parser=product_of,
            metavar="|".join(Product),
            autocompletion=product_names,
            help="Product to install alone, without a ConfigMap: its settings become arguments.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="Configuration file; optional if a product is named.",
            show_default=False,
        ),
    ] = None,
    installation: InstallationNamespaceOption = "situate",
    image: Annotated[str, typer.Option(metavar="IMAGE", help="Container image of situate.")] = f"situate:{__version__}",
    replicas: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of replicas; one leads, the others take over if it fails.")
    ] = 2,
    resource: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP/VERSION/PLURAL",
            help="Resource for archive or sharding, such as batch.example.com/v1/reports; repeatable.",
        ),
    ] = None,
    executor_image: Annotated[
        str,
        typer.Option(metavar="IMAGE", help="Image of your operator, for sharding; its command runs an executor."),
    ] = "operator:latest",
    output: DataOutputOption = DataFormat.YAML,
) -> None:
    """Print the namespace, account, rights, configuration and Deployment, for kubectl apply.

    \b
    situate manifests -f situate.yaml | kubectl apply --server-side -f -
    situate manifests spot | kubectl apply --server-side -f -
    situate manifests archive --resource batch.example.com/v1/reports
    situate manifests sharding --resource batch.example.com/v1/reports
    situate manifests vm-agent -f agent.yaml
    situate manifests vm-machines

    Page: docs/getting-started/install.md
    """
    from situate.cli.manifests.manifests import Installation, show

    show(product, file, Installation(installation, image, replicas), resource or (), executor_image, output)


def run(
    file: OptionalFileOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    assignments: SetOption = None,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Run against an in-memory cluster, which ends with the command.")
    ] = False,
    log_level: Annotated[
        LogLevel | None, typer.Option(help="Lowest level of the log lines; overrides log.level of the file.")
    ] = None,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(
            help="Format of log lines; auto: console on a terminal, else JSON. Overrides log.format of the file."
        ),
    ] = None,
) -> None:
    """Run the schedulers of the configuration against a cluster, until SIGTERM or Ctrl-C.

    A change of the file takes effect while running, or the log says that it needs a restart. A file with mistakes is
    reported and changes nothing.

    \b
    situate run -f situate.yaml
    situate run --set scheduler={} --embedded

    Page: docs/getting-started/install.md
    """
    from situate.cli.run.run import run_schedulers

    flags = {"log.level": log_level, "log.format": log_format}
    given = [*(assignments or ()), *(f"{path}={value}" for path, value in flags.items() if value)]
    run_schedulers(file, given, kubeconfig, context, embedded=embedded)
