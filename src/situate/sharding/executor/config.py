"""Configuration of an executor: identity, objects and limits of handlers. One error names every invalid value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType
from situate.objects.selection.label_selectors import valid_label_value
from situate.objects.settings.section import format_value
from situate.sharding.executor.next_step import HandlerRetries, Incarnation
from situate.sharding.leases.membership import LeaseTimes, lease_name
from situate.sharding.model.executors import NO_METRICS
from situate.sharding.model.field_paths import FieldPaths, ObjectAdapter
from situate.sharding.model.names import EXECUTOR
from situate.sharding.model.object_view import executor_label
from situate.sharding.model.supervisor_config import BadConfiguration, count_mistakes, pool_mistakes


def no_metrics() -> Mapping[str, float]:
    """Return no metrics: the default of an executor that reports no load."""
    return NO_METRICS


@dataclass(frozen=True, slots=True)
class ExecutorIdentity:
    """The Pod of an executor: `metadata.name`, `.namespace` and `.uid`."""

    pod: str
    namespace: str
    uid: str
    one_namespace: bool = True
    """Whether all executors are in one namespace, as in the supervisor's watch. If not, ids include the namespace."""

    def __post_init__(self) -> None:
        """Check that no field is empty. Raises `BadConfiguration`."""
        empty = [name for name in ("pod", "namespace", "uid") if not getattr(self, name)]
        if empty:
            raise BadConfiguration(
                f"the executor's {', '.join(empty)} must not be empty; set POD_NAME, POD_NAMESPACE and POD_UID "
                "through the downward API"
            )

    @property
    def id(self) -> str:
        """The executor id that the supervisor writes to the assignment field of objects."""
        return self.pod if self.one_namespace else f"{self.namespace}/{self.pod}"

    @property
    def incarnation(self) -> Incarnation:
        return Incarnation(self.id, self.uid)


@dataclass(frozen=True, slots=True)
class ExecutorConfig:
    """Settings of an executor. Times are in seconds unless the field says otherwise."""

    resource: ResourceType[Unstructured]
    adapter: ObjectAdapter = field(default_factory=FieldPaths)
    namespace: str | None = None
    """Namespace of the objects; None: all namespaces."""
    status_subresource: bool = True
    assigned_field: str = ""
    """A selectable field by which the executor watches its own objects, such as `spec.assignedTo`. Empty: it uses the
    label that supervisors write."""
    pool: str = "default"
    partition: str = ""
    """Empty: the objects are not partitioned."""
    times: LeaseTimes = field(default_factory=LeaseTimes)
    stall_limit: float = 5.0
    """The lease thread stops renewing while the event loop has been blocked for longer than this."""
    capacity: float | None = None
    """Limit on open objects, or on their weight, that supervisors may assign; None: no limit."""
    concurrency: int = 16
    """Maximum number of handlers that run at the same time; further objects wait."""
    retries: HandlerRetries = field(default_factory=HandlerRetries)
    max_handler_failures: int | None = None
    """Failures in a row after which the object is completed as failed; None: no limit."""
    progress_timeout: float | None = None
    """A handler without a heartbeat or a write for longer is cancelled and counts as failed; None: no limit."""
    metrics: Callable[[], Mapping[str, float]] = field(default=no_metrics, repr=False)
    """Returns the reported load, such as cpu and memory. Called with each renewal, from any thread."""

    def __post_init__(self) -> None:
        """Validate all fields. Raises `BadConfiguration` with every mistake."""
        if mistakes := [*self._mistakes()]:
            raise BadConfiguration("; ".join(mistakes))

    def selectors(self, executor: str) -> tuple[str, str]:
        """Return the label selector and the field selector of an executor's objects; one of them is empty."""
        if self.assigned_field:
            return "", f"{self.assigned_field}={executor}"
        return f"{EXECUTOR}={executor_label(executor)}", ""

    def lease_name(self, identity: ExecutorIdentity) -> str:
        return lease_name(self.pool, identity.pod, identity.uid)

    def _mistakes(self) -> Iterator[str]:
        yield from pool_mistakes(self.pool)
        if not valid_label_value(self.partition):
            yield f"partition is {format_value(self.partition)}, allowed: a label value, such as a number, or empty"
        for name, least in _COUNTS.items():
            value = getattr(self, name)
            if value is not None or name == "concurrency":
                yield from count_mistakes(name, value, least)
        for name in ("stall_limit", "progress_timeout", "capacity"):
            value = getattr(self, name)
            optional = value is None and name != "stall_limit"
            if not optional and not _is_positive(value, or_zero=name == "capacity"):
                yield (
                    f"{name} is {format_value(value)}, allowed: a number {'from' if name == 'capacity' else 'above'} 0"
                )
        if _is_positive(self.stall_limit) and self.stall_limit >= self.times.renew_deadline_s:
            yield (
                f"stall_limit is {self.stall_limit:g}, allowed: less than renew_deadline_s "
                f"{self.times.renew_deadline_s:g}, or handlers are cancelled before the stall is noticed"
            )
        for name in ("initial_s", "cap_s"):
            if not _is_positive(getattr(self.retries, name)):
                yield f"retries.{name} is {format_value(getattr(self.retries, name))}, allowed: a number above 0"


_COUNTS: Final = {"concurrency": 1, "max_handler_failures": 1}


def _is_positive(value: object, *, or_zero: bool = False) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return value > 0 or (or_zero and value == 0)
