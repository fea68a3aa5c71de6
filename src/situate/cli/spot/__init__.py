"""`situate spot`: which pods are on demand, why, what would be moved and what it costs; and letting gated pods go."""

from __future__ import annotations

import typer

from situate.cli.spot.explain import explain
from situate.cli.spot.plan import plan
from situate.cli.spot.status import status
from situate.cli.spot.ungate import ungate

_HELP = """Replicas on spot and on-demand nodes: what is, why, and what would be.

\b
situate spot status
situate spot explain shop/web
situate spot plan
  with other settings than the defaults:
situate spot plan -f situate.yaml --set spot.safeDeployments=true
  in strict mode, when nobody classes the pods that wait:
situate spot ungate --dry-run

Only ungate writes, and only pods that wait behind the gate of spot.
"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_HELP)
app.command(short_help="Show workloads, nodes and what they cost.")(status)
app.command(short_help="Say why a workload or a pod is where it is.")(explain)
app.command(short_help="Show what would be moved, in which order and why.")(plan)
app.command(short_help="Let pods go that wait unclassified behind the gate.")(ungate)
