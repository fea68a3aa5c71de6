"""`situate sharding`: objects and their executors, and the archive of those that are done."""

from __future__ import annotations

import typer

from situate.cli.sharding.archive import app as archive
from situate.cli.sharding.draining import drain, undrain
from situate.cli.sharding.explain import explain
from situate.cli.sharding.init import init
from situate.cli.sharding.partitions import partitions
from situate.cli.sharding.plan import plan
from situate.cli.sharding.status import status

_HELP = """Custom resources spread over executors: who has what, why, and what would be.

\b
situate sharding status -r batch.example.com/v1/reports
situate sharding explain team/report-7 -r batch.example.com/v1/reports
situate sharding plan --goal even -f situate.yaml
situate sharding drain executor-2 -f situate.yaml

  an operator to start from:
situate sharding init reports --group batch.example.com

Only drain, undrain and partitions write to the cluster, and the verbs of the archive that say so.
"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_HELP)
app.command(short_help="Write a small operator to start from.")(init)
app.command(short_help="Show executors, and what becomes of objects.")(status)
app.command(short_help="Say why an object is where it is, or why it waits.")(explain)
app.command(short_help="Show the fewest moves to a goal.")(plan)
app.command(short_help="Cordon an executor; others take its objects over.")(drain)
app.command(short_help="Let an executor have objects again.")(undrain)
app.command(short_help="Show the table of partitions, or change it.")(partitions)
app.add_typer(archive, name="archive", short_help="Find, restore, copy and check what is archived.")
