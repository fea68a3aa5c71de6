"""Define the scope of one supervisor: its objects, executors, partition and Leases.

`SupervisorConfig` defines when the supervisor assigns, moves, fails and archives objects.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from situate.kube.election.lease_record import ElectionTimes, LeaseName
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType
from situate.objects.selection.label_selectors import valid_label_value
from situate.objects.settings.section import format_value
from situate.sharding.assignment.desired_executors import SizingConfig
from situate.sharding.leases.membership import ExecutorWatch, LeaseTimes
from situate.sharding.model.object_view import ObjectView
from situate.sharding.model.supervisor_config import BadConfiguration, count_mistakes, pool_mistakes
from situate.sharding.partitions.partitions import EVERYTHING, Keyspace
from situate.sharding.partitions.slots import SLOTS
from situate.sharding.rebalancing import RebalanceConfig
from situate.sharding.strategies.rules import Rules

PROPAGATIONS: Final = ("Background", "Foreground", "Orphan")


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of one supervisor; times in seconds."""

    resource: ResourceType[Unstructured]
    executors: ExecutorWatch
    identity: str
    """Identity of this process in elections. No two processes may ever have the same identity."""
    lease_namespace: str
    """Namespace of the supervisors' Lease."""
    namespace: str | None = None
    """Namespace of the objects; None: all."""
    status_subresource: bool = True
    pool: str = "default"
    partition: str = ""
    """The partition, as named in executors' Leases; empty: not partitioned."""
    keyspace: Keyspace = EVERYTHING
    """The objects of this partition."""
    partition_table: str = ""
    """Name of a ConfigMap in `lease_namespace` with the elastic table, in which `partition` is a number.

    The table defines our objects; `keyspace` then only defines the hashed field. Empty: `keyspace` defines both.
    """
    times: LeaseTimes = field(default_factory=LeaseTimes)
    """Times of executors' Leases."""
    election: ElectionTimes = field(default_factory=ElectionTimes)
    rules: Rules | None = None
    """Rules that narrow the strategy's choice; None: only executor selectors narrow it."""
    weight_of: Callable[[ObjectView], int] | None = field(default=None, repr=False)
    """Function that returns the weight of an object, at least 1; None: each object counts 1."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Shares of namespaces while no executor has free capacity: above 0; 1 if not given."""
    rebalance: RebalanceConfig = field(default_factory=RebalanceConfig)
    sizing: SizingConfig | None = None
    """Sizing for the metric of desired executors; None: the metric is not shown."""
    write_concurrency: int = 64
    """Maximum number of objects written in parallel."""
    archive_concurrency: int = 8
    """Maximum number of objects archived in parallel."""
    archive_timeout: float = 30.0
    """How long a call of the archive may take before it counts as failed."""
    archive_propagation: str = "Background"
    """Propagation policy of the deletion of an archived object: the treatment of its dependents."""

    def __post_init__(self) -> None:
        """Raises `BadConfiguration`."""
        if mistakes := [*self._mistakes()]:
            raise BadConfiguration("; ".join(mistakes))

    @property
    def lease(self) -> LeaseName:
        """Return the Lease by which the supervisors of this partition elect their leader."""
        part = f".{self.partition}" if self.partition else ""
        return LeaseName(self.lease_namespace, f"{self.resource.group_resource}.{self.pool}{part}.supervisor")

    def _mistakes(self) -> Iterator[str]:
        for name in ("identity", "lease_namespace"):
            if not getattr(self, name):
                yield f"{name} is empty, allowed: a name, such as the name of the Pod"
        yield from pool_mistakes(self.pool)
        if not valid_label_value(self.partition) or self.partition != self.partition.lower():
            yield f"partition is {format_value(self.partition)}, allowed: a label value in lower case, or empty"
        if self.partition_table and not (_NUMBER.fullmatch(self.partition) and int(self.partition) < SLOTS):
            yield (
                f"partition is {format_value(self.partition)}, allowed with a partition table: numbers from 0 to "
                f"{SLOTS - 1}"
            )
        shares: Mapping[str, object] = self.shares
        for namespace, share in shares.items():
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < math.inf:
                yield f"shares.{namespace} is {format_value(share)}, allowed: numbers above 0"
        for name in ("write_concurrency", "archive_concurrency"):
            yield from count_mistakes(name, getattr(self, name), 1)
        if not self.archive_timeout > 0:
            yield f"archive_timeout is {format_value(self.archive_timeout)}, allowed: a number of seconds above 0"
        if self.archive_propagation not in PROPAGATIONS:
            yield f"archive_propagation is {format_value(self.archive_propagation)}, allowed: {', '.join(PROPAGATIONS)}"


_NUMBER: Final = re.compile("[0-9]{1,4}", re.ASCII)
