"""Complete names of objects from the cluster, for the shell.

The shell waits for the answer, so the request is limited to `TIMEOUT_S`. Without a cluster, or after a refusal, the
list is empty and nothing is printed.
"""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import typer

from situate.cli.input.object_names import ObjectType
from situate.cli.terminal.failures import WrongInput
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.kube.errors import KubeError
from situate.objects.resources import NAMESPACES, NODES, ResourceType, unstructured
from situate.runtime.configuration.file import BadConfiguration
from situate.runtime.process.logs import configure_logging

TIMEOUT_S: Final = 1.5
_LIST_LIMIT: Final = 500
"""Number of names that are requested from the API server. Longer lists are of no use for completion."""
ListNames = Callable[[Client], Awaitable[list[str]]]
CompletedTypes = Sequence[tuple[ObjectType, str]]
"""Each type with its version."""


def names_of_nodes(ctx: typer.Context, incomplete: str) -> list[str]:
    return matching_names(ctx, incomplete, lambda client: _list_names(client, NODES, None))


def names_of_namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    return matching_names(ctx, incomplete, lambda client: _list_names(client, NAMESPACES, None))


def complete_objects(ctx: typer.Context, incomplete: str, types: Callable[[], CompletedTypes]) -> list[str]:
    """Complete an object: NAME with -n, else NAMESPACE/NAME. TYPE/NAME is completed in the context's namespace.

    `types` may read the configuration that the command line names. With `--objects` nothing is completed.
    """
    if ctx.params.get("objects"):
        return []
    first, slash, _ = incomplete.partition("/")
    namespace = ctx.params.get("namespace")

    def context_namespace() -> str:
        return find_connection(ctx.params.get("kubeconfig"), ctx.params.get("context")).namespace

    async def names(client: Client) -> list[str]:
        known = types()
        typed = [each for each in known if slash and each[0].is_named(first)]
        found = []
        for type_, version in typed or known:
            resource = unstructured(type_.group, version, type_.kind, type_.plural)
            if typed:
                found += [
                    f"{first}/{name}" for name in await _list_names(client, resource, namespace or context_namespace())
                ]
            elif namespace:
                found += await _list_names(client, resource, namespace)
            else:
                found += await _list_names(client, resource, first if slash else None, qualified=True)
        return found

    return matching_names(ctx, incomplete, names)


async def _list_names(
    client: Client, resource: ResourceType[Any], namespace: str | None, *, qualified: bool = False
) -> list[str]:
    """Return the names of a resource's objects. Empty if the cluster does not serve it or refuses to list it."""
    try:
        page = await client.list(resource, namespace, limit=_LIST_LIMIT)
    except KubeError as problem:
        if problem.retriable:
            raise
        return []
    metas = [each.metadata for each in page.items]
    return [f"{meta.namespace}/{meta.name}" if qualified else meta.name for meta in metas]


def matching_names(ctx: typer.Context, incomplete: str, names: ListNames) -> list[str]:
    """Return the names that begin with `incomplete`; empty on any failure, or after `TIMEOUT_S`."""
    silence = io.StringIO()
    with redirect_stderr(silence):
        configure_logging("error", stream=silence)
        try:
            found = asyncio.run(_query_cluster(ctx.params.get("kubeconfig"), ctx.params.get("context"), names))
        except (KubeError, WrongInput, BadConfiguration, TimeoutError, OSError):
            return []  # a shell cannot show an error message during completion
    return sorted(each for each in found if each.startswith(incomplete))


async def _query_cluster(kubeconfig: Path | None, context: str | None, names: ListNames) -> list[str]:
    async with asyncio.timeout(TIMEOUT_S):
        connection = find_connection(kubeconfig, context)
        if connection.exec is not None:  # a credential plugin must not prompt for a password during completion
            connection = replace(connection, exec=replace(connection.exec, interactive_mode="Never"))
        client = connect(connection, random.Random())
        try:
            return await names(client)
        finally:
            await client.close()
