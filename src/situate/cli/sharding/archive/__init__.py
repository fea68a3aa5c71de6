"""`situate sharding archive`: what has left the cluster, found, brought back, copied, checked and served."""

from __future__ import annotations

import typer

from situate.cli.sharding.archive.get import get
from situate.cli.sharding.archive.migrate import migrate
from situate.cli.sharding.archive.prune import prune
from situate.cli.sharding.archive.restore import restore
from situate.cli.sharding.archive.search import search
from situate.cli.sharding.archive.serve import serve
from situate.cli.sharding.archive.verify import verify

_HELP = """What has left the cluster: found, brought back, copied, checked and served.

\b
export SITUATE_ARCHIVE_URL=file:///var/lib/reports
situate sharding archive search --kind Report.batch.example.com -l team=red
situate sharding archive get Report.batch.example.com ns1/nightly -o yaml
situate sharding archive restore Report.batch.example.com ns1/nightly
situate sharding archive prune --archive-retention 2160h --dry-run
situate sharding archive verify

A URL with a password comes from the environment or --archive-url-file, never from a flag.
"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_HELP)
app.command(short_help="Show one archived object.")(get)
app.command(short_help="List what is archived.")(search)
app.command(short_help="Create an archived object anew.")(restore)
app.command(short_help="Delete records whose time is over.")(prune)
app.command(short_help="Copy records into another archive.")(migrate)
app.command(short_help="Read every record, and check its digest.")(verify)
app.command(short_help="Serve what is live and archived to kubectl.")(serve)
