"""The supervisor: `python -m builder.supervisor --help`. One leads, others stand by."""

from __future__ import annotations

import argparse
import asyncio
import os
import uuid

from builder.serving import serve
from situate.archive import ArchiveOptions, BadArchiveUrl, BadOptions, add_archive_options
from situate.objects.resources import unstructured
from situate.runtime.metrics import Metrics
from situate.sharding import Supervisor, SupervisorOptions, add_supervisor_options, parse_options


async def supervise(options: SupervisorOptions, archive: ArchiveOptions, address: str) -> None:
    group, version, plural = options.group_version_plural
    resource = unstructured(group, version, "Build", plural)
    identity = f"{os.environ.get('POD_NAME', 'supervisor')}_{uuid.uuid4()}"
    scope = options.scope(resource, identity, os.environ.get("POD_NAMESPACE", "default"), archive)
    metrics, archiver = Metrics(), archive.open()
    supervisor = Supervisor(
        options.paths(),
        options.make_strategy("Build"),
        archiver,
        options.config(archive),
        scope=scope,
        metrics=metrics,
    )
    try:
        await serve(supervisor, address, metrics)
    finally:
        if archiver is not None:
            await archiver.close()


def main() -> None:
    parser = argparse.ArgumentParser("builder.supervisor")
    parser.add_argument("--health-address", default=":8080", help="of /healthz, /readyz and /metrics")
    add_supervisor_options(parser)
    add_archive_options(parser)
    given, options, archive = parse_options(parser, SupervisorOptions, ArchiveOptions)
    try:
        asyncio.run(supervise(options, archive, given.health_address))
    except (BadArchiveUrl, BadOptions) as bad:
        parser.error(str(bad))


if __name__ == "__main__":
    main()
