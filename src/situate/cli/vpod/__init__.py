"""`situate vpod`: what is placed where, why, and what would be done."""

from __future__ import annotations

import typer

from situate.cli.vpod.explain import explain
from situate.cli.vpod.plan import plan
from situate.cli.vpod.status import status

_HELP = """Placements of virtual replicas: what is, why, and what would be. Nothing here writes.

\b
situate vpod status -f situate.yaml
situate vpod explain shop/orders -f situate.yaml
situate vpod plan -f situate.yaml
  with other settings:
situate vpod plan -f situate.yaml --set 'vpod[0].policy=pack'
  without a cluster, from a dump of its objects:
kubectl get nodes,statefulsets,pods,consumergroups -A -o yaml > cluster.yaml
situate vpod plan -f situate.yaml --objects cluster.yaml
"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_HELP)
app.command(short_help="Show pods and vpods, and what is on what.")(status)
app.command(short_help="Say why a vpod is where it is, pod by pod.")(explain)
app.command(short_help="Show what would be decided now.")(plan)
