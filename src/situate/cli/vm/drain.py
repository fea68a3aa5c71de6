"""`situate vm drain` and `undrain`: have the machines of a node moved away, or let them stay (B46)."""

from __future__ import annotations

import asyncio
import random
from typing import Annotated

import typer

from situate.cli.completing import complete_nodes
from situate.cli.failures import WrongInput, mendable_failures
from situate.cli.options import ContextOption, KubeconfigOption
from situate.cli.streams import complain, say
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.kube.connection import Connection
from situate.kube.errors import NotFound
from situate.kube.patches import MergePatch
from situate.objects.nodes import Node
from situate.objects.resources import NODES
from situate.vm.names import DRAIN

NodeArgument = Annotated[str, typer.Argument(help="The name of a node.", autocompletion=complete_nodes)]


def drain(node: NodeArgument, kubeconfig: KubeconfigOption = None, context: ContextOption = None) -> None:
    """Have every machine that may be moved leave a node, cheapest first, within the limits; other pods stay.

    The annotation vm.situate.dev/drain is all that is written; no machine goes to the node while it has it, other pods
    may: `kubectl cordon` keeps them out.
    """
    with mendable_failures():
        found = asyncio.run(_annotated(find_connection(kubeconfig, context), node, "true"))
    said = "" if found.spec.unschedulable else f"; other pods may still go there: kubectl cordon {node}"
    say(
        f"node {node} is to be emptied of machines by whoever leads: `situate vm status` shows that, and the moves, "
        f"`situate vm plan` what cannot leave{said}"
    )


def undrain(node: NodeArgument, kubeconfig: KubeconfigOption = None, context: ContextOption = None) -> None:
    """Let machines stay on a node, and go there; moves that have begun go on."""
    with mendable_failures():
        found = asyncio.run(_annotated(find_connection(kubeconfig, context), node, None))
    if any(taint.key == DRAIN for taint in found.spec.taints):
        complain(f"node {node} has a taint {DRAIN}, which says the same: kubectl taint node {node} {DRAIN}-")
    say(f"node {node} is not emptied any more")


async def _annotated(connection: Connection, name: str, value: str | None) -> Node:
    client = connect(connection, random.Random())
    try:
        return await _patched(client, name, value)
    finally:
        await client.close()


async def _patched(client: Client, name: str, value: str | None) -> Node:
    if not name:
        raise WrongInput("no node is named: name one, as `kubectl get nodes` does")
    try:
        return await client.patch(NODES, name, MergePatch({"metadata": {"annotations": {DRAIN: value}}}))
    except NotFound:
        known = sorted(each.metadata.name for each in (await client.list_all(NODES)).items)
        there = ", ".join(known[:10]) + (", …" if len(known) > 10 else "") or "none"
        raise WrongInput(f"no node is named {name}; there are: {there}") from None
