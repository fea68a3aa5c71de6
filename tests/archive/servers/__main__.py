"""Builds the S3 server where that has not been done."""

from __future__ import annotations

import sys

from tests.archive.servers.programs import S3_SERVER
from tests.controlplane.build import build
from tests.controlplane.errors import ControlPlaneError

try:
    print(build(module=S3_SERVER, say=lambda line: print(line, flush=True)).path("versitygw"))
except ControlPlaneError as error:
    sys.exit(f"error: {error}")
