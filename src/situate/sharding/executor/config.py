"""What an executor is told: who it is, which objects it has, how handlers are called; all mistakes named at once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType
from situate.objects.selection.label_selectors import valid_label_value
from situate.objects.settings.section import shown
from situate.sharding.executor.next_step import HandlerRetries, Me
from situate.sharding.leases.membership import LeaseTimes, lease_name
from situate.sharding.model.executors import NO_METRICS
from situate.sharding.model.field_paths import FieldPaths, ObjectAdapter
from situate.sharding.model.names import EXECUTOR
from situate.sharding.model.object_view import executor_label
from situate.sharding.model.supervisor_config import BadConfiguration


def no_metrics() -> Mapping[str, float]:
    """An executor that tells nothing of its load."""
    return NO_METRICS


@dataclass(frozen=True, slots=True)
class ExecutorIdentity:
    """Which pod this is (`metadata.name`, `.namespace`, `.uid`)."""

    pod: str
    namespace: str
    uid: str
    one_namespace: bool = True
    """Whether all executors are in one namespace, as the supervisor's watch has it; else ids bear the namespace."""

    def __post_init__(self) -> None:
        """Raises `BadConfiguration`."""
        empty = [name for name in ("pod", "namespace", "uid") if not getattr(self, name)]
        if empty:
            raise BadConfiguration(
                f"the executor's {', '.join(empty)}: empty; give POD_NAME, POD_NAMESPACE and POD_UID through the "
                "downward API"
            )

    @property
    def id(self) -> str:
        """What stands in the objects' assignment."""
        return self.pod if self.one_namespace else f"{self.namespace}/{self.pod}"

    @property
    def me(self) -> Me:
        return Me(self.id, self.uid)


@dataclass(frozen=True, slots=True)
class ExecutorConfig:
    """Seconds, unless said otherwise."""

    resource: ResourceType[Unstructured]
    adapter: ObjectAdapter = field(default_factory=FieldPaths)
    namespace: str | None = None
    """Of the objects; None: all."""
    status_subresource: bool = True
    assigned_field: str = ""
    """A selectable field of the resource by which own objects are watched, such as `spec.assignedTo`; empty: by the
    label that supervisors write."""
    pool: str = "default"
    partition: str = ""
    """Empty: not partitioned."""
    times: LeaseTimes = field(default_factory=LeaseTimes)
    stall_limit: float = 5.0
    """The lease is not renewed while the event loop has stood still for longer."""
    capacity: float | None = None
    """Open objects, or their weight, that supervisors may assign; None: no limit."""
    concurrency: int = 16
    """Handlers that run at a time; objects beyond that wait for their turn."""
    retries: HandlerRetries = field(default_factory=HandlerRetries)
    max_handler_failures: int | None = None
    """In a row, before the object is completed as failed; None: never."""
    progress_timeout: float | None = None
    """A handler without a heartbeat or a write for longer is cancelled, and has failed; None: it may be endless."""
    metrics: Callable[[], Mapping[str, float]] = field(default=no_metrics, repr=False)
    """The load that is reported, such as cpu and memory; called with each renewal, from any thread."""

    def __post_init__(self) -> None:
        """Raises `BadConfiguration`."""
        if mistakes := [*self._mistakes()]:
            raise BadConfiguration("; ".join(mistakes))

    def selectors(self, executor: str) -> tuple[str, str]:
        """Label selector and field selector of the objects of an executor; one of them is empty."""
        if self.assigned_field:
            return "", f"{self.assigned_field}={executor}"
        return f"{EXECUTOR}={executor_label(executor)}", ""

    def lease_name(self, identity: ExecutorIdentity) -> str:
        return lease_name(self.pool, identity.pod, identity.uid)

    def _mistakes(self) -> Iterator[str]:
        pool: object = self.pool
        if not isinstance(pool, str) or not _POOL.fullmatch(pool):
            yield f"pool is {shown(pool)}, allowed: at most 63 of a to z, 0 to 9 and '-', not first or last"
        if not valid_label_value(self.partition):
            yield f"partition is {shown(self.partition)}, allowed: a label's value, such as a number, or empty"
        for name, least in _COUNTS.items():
            value = getattr(self, name)
            optional = value is None and name != "concurrency"
            if not optional and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                yield f"{name} is {shown(value)}, allowed: whole numbers from {least}"
        for name in ("stall_limit", "progress_timeout", "capacity"):
            value = getattr(self, name)
            optional = value is None and name != "stall_limit"
            if not optional and not _positive(value, or_zero=name == "capacity"):
                yield f"{name} is {shown(value)}, allowed: a number {'from' if name == 'capacity' else 'above'} 0"
        if _positive(self.stall_limit) and self.stall_limit >= self.times.renew_deadline_s:
            yield (
                f"stall_limit is {self.stall_limit:g}, allowed: less than renew_deadline_s "
                f"{self.times.renew_deadline_s:g}, or a stalled executor would be cancelled before it is noticed"
            )
        for name in ("initial_s", "cap_s"):
            if not _positive(getattr(self.retries, name)):
                yield f"retries.{name} is {shown(getattr(self.retries, name))}, allowed: a number above 0"


_POOL: Final = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # part of a Lease's name, and a label
_COUNTS: Final = {"concurrency": 1, "max_handler_failures": 1}


def _positive(value: object, *, or_zero: bool = False) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return value > 0 or (or_zero and value == 0)
