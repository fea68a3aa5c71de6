"""Read the cluster that a command names, or the files in its place."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from situate.cli.read_cluster.files import FileTransport
from situate.cli.terminal.failures import WrongInput
from situate.cli.terminal.options import ClusterOptions, ListedNamespaces
from situate.cli.terminal.progress import progress
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection

T = TypeVar("T")


@asynccontextmanager
async def open_client(where: ClusterOptions) -> AsyncIterator[Client]:
    """Open a client of the cluster or the files, and close it at the end.

    Raises `BadConnection`, or `WrongInput` for a file that holds no objects.
    """
    if where.objects:
        client = Client(FileTransport(where.objects), server=", ".join(map(str, where.objects)))
    else:
        client = connect(find_connection(where.kubeconfig, where.context), random.Random())
    try:
        yield client
    finally:
        await client.close()


def run_read(where: ClusterOptions, read: Coroutine[Any, Any, T]) -> T:
    """Run a read of the cluster or the files, behind a progress bar."""
    with progress(f"reading {', '.join(map(str, where.objects or ())) or 'the cluster'}"):
        return asyncio.run(read)


def listed_namespace(where: ClusterOptions, listed: ListedNamespaces) -> str | None:
    """Return the namespace to list, or None for all. Raises `WrongInput` and `BadConnection`.

    The default is the context's namespace. Files have no context, so without `-n` all namespaces are listed.
    """
    given = listed.namespace
    if listed.all_namespaces and given is not None:
        raise WrongInput(f"-A lists all namespaces, and -n {given} only one: leave one of them out")
    if listed.all_namespaces or (given is None and where.objects):
        return None
    return default_namespace(where, given)


def default_namespace(where: ClusterOptions, given: str | None) -> str:
    """Return the namespace of a name without one: the value of `-n`, the context's, or `default` with files."""
    if given is not None:
        return given
    return "default" if where.objects else find_connection(where.kubeconfig, where.context).namespace
