"""Implement `situate embedded`: run only the API server, with its controllers."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from situate.cli.terminal.failures import ExitCode, WrongInput, report_failures
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_error
from situate.cluster.controllers.machinery.controllers import Controller, ControllerContext
from situate.cluster.controllers.machinery.settings import KubeletSettings, MachinerySettings
from situate.cluster.controllers.node.nodes import nodes
from situate.embedded.embedded_server import DidNotStart, EmbeddedServer, Settings
from situate.embedded.journal import UnusableDirectory
from situate.embedded.kubeconfig import write_kubeconfig
from situate.embedded.pods.local_programs import POD_NETWORK, BadImage, LocalPrograms, parse_images
from situate.embedded.pods.processes import PodProcesses, pod_processes
from situate.kube.connect import connect
from situate.kube.login.connection import Connection
from situate.runtime.process.logs import configure_logging
from situate.runtime.process.startup import run_process


def run(
    port: int,
    host: str,
    data: Path | None,
    node_count: int,
    kubeconfig: Path | None,
    run_pods: Path | None,
    run_image: Sequence[str],
    *,
    machines: bool,
) -> None:
    """Run the server until it is stopped."""
    configure_logging("warning")
    with report_failures():
        images = _parse_image_commands(run_image, run_pods)
        settings = Settings(host=host, port=port, data=data, further=(_machine_controller,) if machines else ())
        if run_pods is not None:
            # webhooks and clients can then reach the processes by the addresses of their Pods
            kubelet = KubeletSettings(pod_network=POD_NETWORK)
            settings = replace(settings, machinery=MachinerySettings(kubelet=kubelet))
        known = _machine_definitions() if machines else ()
        try:
            raise typer.Exit(run_process(_serve(settings, node_count, known, kubeconfig, run_pods, images)))
        except (DidNotStart, UnusableDirectory) as problem:
            print_error(str(problem))
            raise typer.Exit(ExitCode.NO) from None


def _parse_image_commands(texts: Sequence[str], folder: Path | None) -> dict[str, tuple[str, ...]]:
    """Return the command of each image. Raises `WrongInput`."""
    if texts and folder is None:
        raise WrongInput(f"--run-image {texts[0]}: needs --run-pods FOLDER")
    try:
        images = parse_images(texts)
    except BadImage as problem:
        raise WrongInput(f"--run-image: {problem}") from None
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise WrongInput(f"--run-pods {folder}: {problem.strerror}; name a writable folder") from None
    return images


def _machine_controller(cluster: ControllerContext) -> Controller:
    # a server without VirtualMachines does not need these imports
    from situate.embedded.virtual_machines import VirtualMachineController
    from situate.vm.emulator import Settings as MachinesSettings

    return VirtualMachineController(cluster, MachinesSettings())


def _machine_definitions() -> tuple[dict[str, Any], ...]:
    from situate.vm.emulator.crds import definitions

    return definitions()


async def _serve(
    settings: Settings,
    node_count: int,
    definitions: tuple[dict[str, Any], ...],
    kubeconfig: Path | None,
    run_pods: Path | None,
    images: Mapping[str, Sequence[str]],
) -> ExitCode:
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[None] = loop.create_future()
    for which in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(which, _set_stopped, stopped)
    async with AsyncExitStack() as stack:
        with progress("starting"):  # reading a stored state and creating many nodes take some time
            server = await stack.enter_async_context(EmbeddedServer(settings))
            server.create_definitions(definitions)
            server.create_nodes(nodes(node_count, zones=("a", "b", "c")))
        if kubeconfig is not None:
            try:
                write_kubeconfig(kubeconfig, server.kubeconfig())
            except OSError as problem:
                print_error(f"--write-kubeconfig {kubeconfig}: {problem.strerror}; name a writable file")
                return ExitCode.NO
        if run_pods is not None:
            await stack.enter_async_context(_run_pod_processes(server, run_pods, images))
        sys.stdout.write(f"the API server answers at {server.url}\n")
        if kubeconfig is not None:
            sys.stdout.write(f"export KUBECONFIG={kubeconfig}\n")
        sys.stdout.flush()
        assert server.failed is not None
        await asyncio.wait((stopped, server.failed), return_when=asyncio.FIRST_COMPLETED)
        if server.failed.done():
            print_error(f"the API server has stopped: {server.failed.exception()}")
            return ExitCode.NO
    return ExitCode.DONE


def _set_stopped(stopped: asyncio.Future[None]) -> None:
    if not stopped.done():
        stopped.set_result(None)


@asynccontextmanager
async def _run_pod_processes(
    server: EmbeddedServer, folder: Path, images: Mapping[str, Sequence[str]]
) -> AsyncIterator[PodProcesses]:
    """Run the containers of current and future Pods as processes. All of them end before the server stops."""
    connection = Connection(server.url, "the embedded server")
    client = connect(connection, random.Random())
    programs = LocalPrograms(server.kubeconfig(), folder, images)
    processes = PodProcesses(client, None, "", folder, {}, programs=programs, report=print_error)
    try:
        async with pod_processes(processes):
            yield processes
    finally:
        await client.close()
