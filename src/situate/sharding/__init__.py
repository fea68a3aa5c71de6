"""Spread the objects of one operator over many replicas of it, and move completed objects into an archive.

One leader, the supervisor, assigns each object to one executor, a replica with an identity of its own. The pattern is
that of kube-scheduler and kubelet. Assignments are fenced: each has an epoch, and names one incarnation of an executor.
The deciding half is pure; it leaves reading, writing, time and randomness to `controller`.

This module exports the names that authors of operators need. Modules that do I/O are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from situate.sharding.executor.config import ExecutorConfig, ExecutorIdentity
from situate.sharding.executor.next_step import Outcome
from situate.sharding.leases.membership import ExecutorWatch
from situate.sharding.model.field_paths import FieldPaths, ObjectAdapter
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.sharding.supervisor.scope import Scope

if TYPE_CHECKING:
    from situate.objects.settings.flags import parse_options
    from situate.objects.settings.options import BadOptions
    from situate.sharding.executor.controller.executor import Executor
    from situate.sharding.executor.controller.executor_options import ExecutorOptions
    from situate.sharding.executor.controller.kopf_handlers import KopfHandler
    from situate.sharding.executor.controller.work import NotOwner, Work
    from situate.sharding.supervisor.controller.config.flags import (
        add_executor_options,
        add_supervisor_options,
        with_executor_options,
        with_supervisor_options,
    )
    from situate.sharding.supervisor.controller.config.options import SupervisorOptions
    from situate.sharding.supervisor.controller.supervisor import Supervisor

__all__ = [
    "BadOptions",
    "Executor",
    "ExecutorConfig",
    "ExecutorIdentity",
    "ExecutorOptions",
    "ExecutorWatch",
    "FieldPaths",
    "KopfHandler",
    "NotOwner",
    "ObjectAdapter",
    "Outcome",
    "Scope",
    "Supervisor",
    "SupervisorConfig",
    "SupervisorOptions",
    "Work",
    "add_executor_options",
    "add_supervisor_options",
    "parse_options",
    "with_executor_options",
    "with_supervisor_options",
]


_LOADED: Final = {
    "BadOptions": "situate.objects.settings.options",
    "Executor": "situate.sharding.executor.controller.executor",
    "ExecutorOptions": "situate.sharding.executor.controller.executor_options",
    "KopfHandler": "situate.sharding.executor.controller.kopf_handlers",
    "NotOwner": "situate.sharding.executor.controller.work",
    "Supervisor": "situate.sharding.supervisor.controller.supervisor",
    "SupervisorOptions": "situate.sharding.supervisor.controller.config.options",
    "Work": "situate.sharding.executor.controller.work",
    "add_executor_options": "situate.sharding.supervisor.controller.config.flags",
    "add_supervisor_options": "situate.sharding.supervisor.controller.config.flags",
    "parse_options": "situate.objects.settings.flags",
    "with_executor_options": "situate.sharding.supervisor.controller.config.flags",
    "with_supervisor_options": "situate.sharding.supervisor.controller.config.flags",
}


def __getattr__(name: str) -> Any:
    """Import the exported names that do I/O on first use (PEP 562)."""
    if name not in _LOADED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_LOADED[name]), name)
    except ImportError as error:
        if name != "KopfHandler":
            raise
        raise ImportError("KopfHandler needs Kopf; run: pip install 'situate[kopf]'", name=error.name) from error
