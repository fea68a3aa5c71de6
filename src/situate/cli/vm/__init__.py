"""`situate vm`: virtual machines that grow, shrink and move."""

from __future__ import annotations

import typer

from situate.cli.vm.agent import agent
from situate.cli.vm.machines import machines
from situate.cli.vm.status import status

_HELP = """Virtual machines that grow, shrink and move.

\b
situate vm status
the agent of a node, which asks for what its machines' load needs:
situate vm agent --node n1
without guests one may do for all nodes, see its help:
situate vm agent --all-nodes -f agent.yaml
  and for machines that need no hypervisor, on any cluster:
situate vm machines
"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_HELP)
app.command(short_help="Show nodes, machines, and what moves for whom.")(status)
app.command(short_help="Look after the size of machines.")(agent)
app.command(short_help="Let machines live and move without a hypervisor.")(machines)
