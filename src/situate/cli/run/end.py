"""End a process whose services stopped without a request."""

from __future__ import annotations

from collections.abc import Collection

import structlog

from situate.cli.run.reach_cluster import ConnectionCheck
from situate.cli.terminal.failures import ExitCode
from situate.cli.terminal.streams import print_error
from situate.kube.errors import KubeError
from situate.runtime.process.health import CannotListen
from situate.runtime.process.manager import ServiceFailed
from situate.runtime.serving.listener import CannotServe


def report_end(
    failed: ServiceFailed,
    *expected: type[Exception],
    reaching: Collection[str] = (ConnectionCheck.name,),
) -> ExitCode:
    """Report why the process ends: one sentence for a problem that users can fix, a stack trace for a defect.

    Fixable problems include the `expected` exceptions. Raises the `KubeError` of a service of `reaching`, which means
    that the cluster is out of reach.
    """
    cause = failed.__cause__
    if failed.name in reaching and isinstance(cause, KubeError):
        raise cause from None
    if isinstance(cause, (CannotListen, CannotServe, *expected)):
        print_error(str(cause))
    else:
        structlog.get_logger().error("process ends after an unexpected error", service=failed.name, exc_info=cause)
        print_error(str(failed))
    return ExitCode.NO
