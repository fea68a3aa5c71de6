"""`situate vm`: virtual machines that grow, shrink and move."""

from __future__ import annotations

import typer

from situate.cli.vm.agent import agent
from situate.cli.vm.drain import drain, undrain
from situate.cli.vm.explain import explain
from situate.cli.vm.machines import machines
from situate.cli.vm.plan import plan
from situate.cli.vm.status import status

_HELP = """Virtual machines that grow, shrink and move.

\b
situate vm status
situate vm explain shop/web
situate vm plan
  and to have a node emptied of machines, or not:
situate vm drain n1
situate vm undrain n1
the agent of a node, which asks for what its machines' load needs:
situate vm agent --node n1
without guests one may do for all nodes, see its help:
situate vm agent --all-nodes -f agent.yaml
  and for machines that need no hypervisor, on any cluster:
situate vm machines
"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_HELP)
app.command(short_help="Show nodes, machines, and what moves for whom.")(status)
app.command(short_help="Say why a machine or a pod is short, and what would help.")(explain)
app.command(short_help="Show what would be moved, for whom and why.")(plan)
app.command(short_help="Have the machines of a node moved away.")(drain)
app.command(short_help="Let machines stay on a node again.")(undrain)
app.command(short_help="Look after the size of machines.")(agent)
app.command(short_help="Let machines live and move without a hypervisor.")(machines)
