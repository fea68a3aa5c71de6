"""Spreads the objects of one operator over many replicas of it, and moves finished objects into an archive.

One leader, the supervisor, assigns each object to one executor, a replica with an identity of its own, much as
kube-scheduler assigns pods to kubelets. Assignments are fenced: each has an epoch, and is made to one incarnation of
an executor. The deciding half is pure; it leaves reading, writing, time and randomness to `controller`.

What writers of operators need is named here; what does I/O is loaded only when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from situate.sharding.adapter import FieldPaths, ObjectAdapter
from situate.sharding.configuration import SupervisorConfig
from situate.sharding.executing import Outcome
from situate.sharding.executor_configuration import ExecutorConfig, ExecutorIdentity
from situate.sharding.leases import ExecutorWatch
from situate.sharding.scope import Scope

if TYPE_CHECKING:
    from situate.sharding.controller.executor import Executor
    from situate.sharding.controller.kopf_handlers import KopfHandler
    from situate.sharding.controller.supervisor import Supervisor
    from situate.sharding.controller.work import NotOwner, Work

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


def __getattr__(name: str) -> Any:
    """The part that does I/O, on first use (PEP 562)."""
    if name == "Executor":
        from situate.sharding.controller.executor import Executor

        return Executor
    if name == "KopfHandler":
        try:
            from situate.sharding.controller.kopf_handlers import KopfHandler
        except ImportError as error:
            raise ImportError("KopfHandler needs Kopf; run: pip install 'situate[kopf]'", name=error.name) from error

        return KopfHandler
    if name == "Supervisor":
        from situate.sharding.controller.supervisor import Supervisor

        return Supervisor
    if name in ("NotOwner", "Work"):
        from situate.sharding.controller import work

        return getattr(work, name)
    if name == "BadOptions" or name.endswith(("Options", "_options")):
        from situate.sharding.controller import options

        if name in __all__:
            return getattr(options, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
