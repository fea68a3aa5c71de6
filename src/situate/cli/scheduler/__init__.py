"""`situate scheduler`: why pods go where they go, what would be if, and what another profile would have done."""

from __future__ import annotations

import typer

from situate.cli.scheduler.explain import explain
from situate.cli.scheduler.record import record
from situate.cli.scheduler.replay import replay
from situate.cli.scheduler.shadow import shadow
from situate.cli.scheduler.status import status
from situate.cli.scheduler.what_if import what_if

_HELP = """Where pods go: why, why not, and what if. Nothing here writes to a cluster.

\b
situate scheduler status
situate scheduler explain web-0 -n shop
situate scheduler what-if -f deployment.yaml
  without a cluster, from a dump of its objects:
kubectl get nodes,pods,namespaces,services -A -o json > cluster.json
situate scheduler explain web-0 -n shop --dump cluster.json
  under other profiles:
situate scheduler what-if -f deployment.yaml --profile packing.yaml
situate scheduler record day.jsonl.gz --for 24h
situate scheduler replay day.jsonl.gz --profile packing.yaml
  beside a running scheduler:
situate scheduler shadow --for 1h --profile packing.yaml
"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_HELP)
app.command(short_help="Show how full nodes are, and which pods wait.")(status)
app.command(short_help="Say why a pod goes where it goes, or nowhere.")(explain)
app.command("what-if", short_help="Show where pods would go, and how many more.")(what_if)
app.command(short_help="Record a cluster, to be played again.")(record)
app.command(short_help="Play a recording under another profile, and compare.")(replay)
app.command(short_help="Compare a running scheduler's decisions with a profile's.")(shadow)
