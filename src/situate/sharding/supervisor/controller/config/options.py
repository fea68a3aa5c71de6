"""Define the options of supervisors: one table for flags, the environment, files and `from_mapping`.

A program adds settings that need code (weights, filters, readiness) to the results of `scope` and `config`.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from situate.archive.options import ArchiveOptions
from situate.kube.election.lease_record import ElectionTimes
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType
from situate.objects.selection.label_selectors import BadSelector, parse_selector
from situate.objects.settings.options import FLAG, Sources, read_mapping, require_options
from situate.objects.settings.section import (
    Duration,
    Mistake,
    NamespaceName,
    ObjectName,
    PositiveDuration,
    format_value,
    matching_fields,
)
from situate.sharding.assignment.desired_executors import SizingConfig
from situate.sharding.executor.controller.lease import clock
from situate.sharding.leases.membership import ExecutorWatch, LeaseTimes
from situate.sharding.model.field_paths import FieldPaths
from situate.sharding.model.names import PARTITION, POOL
from situate.sharding.model.option_values import (
    ASSIGNED_HELP,
    COMPLETED_HELP,
    LEASE_HELP,
    NAMESPACE_HELP,
    OBJECTS_HELP,
    PARTITION_HELP,
    POOL_HELP,
    STATIC,
    SUCCESSFUL_HELP,
    Count,
    FieldPath,
    Partition,
    Pool,
    ResourceName,
    Share,
    partition_name,
    path_mistakes,
)
from situate.sharding.model.supervisor_config import ArchiveTtl, OnUnavailable, OrphanPolicy, SupervisorConfig
from situate.sharding.partitions.partitions import EVERYTHING, BadPartition, Keyspace, PartitionBy, parse_static
from situate.sharding.rebalancing import Goal, RebalanceConfig
from situate.sharding.strategies.protocol import Strategy
from situate.sharding.strategies.registry import GROUP as STRATEGIES
from situate.sharding.strategies.registry import (
    BadArguments,
    Builder,
    StrategyEnvironment,
    build_strategy,
    installed_builders,
)
from situate.sharding.strategies.rules import Rules
from situate.sharding.supervisor.scope import Scope


class SupervisorOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Options of a supervisor, in seconds unless stated otherwise."""

    resource: Annotated[
        ResourceName,
        Meta(
            description="Resource of the objects, as GROUP/VERSION/PLURAL.", examples=["batch.example.com/v1/reports"]
        ),
    ]
    namespace: Annotated[NamespaceName | None, Meta(description=OBJECTS_HELP)] = None
    assigned_to_path: Annotated[FieldPath, Meta(description=ASSIGNED_HELP)] = "spec.assignedTo"
    completed_at_path: Annotated[FieldPath, Meta(description=COMPLETED_HELP)] = "status.completedAt"
    successful_path: Annotated[FieldPath, Meta(description=SUCCESSFUL_HELP)] = "status.successful"
    partition: Annotated[Partition | None, Meta(description=PARTITION_HELP)] = None
    partition_table: Annotated[
        ObjectName | None, Meta(description="Name of the ConfigMap that holds the elastic partition table.")
    ] = None
    partition_by: Annotated[
        Literal["uid", "namespace", "name"],
        Meta(description="Field of the object that is hashed to find its partition."),
    ] = "uid"

    pool: Annotated[Pool, Meta(description=POOL_HELP)] = "default"
    executor_selector: Annotated[
        str | None,
        Meta(
            description=f"Label selector of the executors' Pods. Default: {POOL}=POOL, and {PARTITION} of a partition."
        ),
    ] = None
    executor_namespace: Annotated[NamespaceName | None, Meta(description=NAMESPACE_HELP)] = None
    lease_duration: Annotated[PositiveDuration, Meta(description=LEASE_HELP)] = 15.0
    grace_unhealthy: Annotated[
        Duration, Meta(description="How long an executor may be unhealthy before drainUnhealthy applies.")
    ] = 5.0
    drain_timeout: Annotated[
        Duration,
        Meta(description="Time that a holder has to release an object. After it, the supervisor revokes the object."),
    ] = 30.0
    drain_unhealthy: Annotated[
        bool, Meta(description="Drain executors that are unhealthy for longer than graceUnhealthy.")
    ] = False
    max_parallel_drains: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Maximum number of objects with a pending drain request.")
    ] = 100

    strategy: Annotated[
        str,
        Meta(
            min_length=1,
            description="Choice of executors: MinScheduled, MinMetricScore, RoundRobin, Random, Ring, Rendezvous "
            "or your own.",
        ),
    ] = "MinScheduled"
    strategy_args: Annotated[
        dict[str, Any], Meta(description="Arguments of the strategy, by name.", extra={FLAG: "strategy-arg"})
    ] = msgspec.field(default_factory=dict)
    co_locate_with_owner: Annotated[
        bool, Meta(description="Assign an object with a controlling owner to the executor of this owner.")
    ] = False
    namespace_shares: Annotated[
        dict[str, Annotated[float, Meta(gt=0)]],
        Meta(
            description="Shares of namespaces while executors are full: share 2 gets twice as many assignments as "
            "share 1, the default.",
            extra={FLAG: "namespace-share"},
        ),
    ] = msgspec.field(default_factory=dict)
    requeue_delay: Annotated[
        PositiveDuration,
        Meta(description="Time between comparisons of all objects with a listing, to repair missed events."),
    ] = 30.0
    scheduler_jitter: Annotated[
        Duration, Meta(description="How long the set of executors must be unchanged before objects are assigned.")
    ] = 0.5
    max_jitter_wait: Annotated[
        Duration, Meta(description="Maximum total time that an object waits for schedulerJitter.")
    ] = 2.0
    write_concurrency: Annotated[
        int, Meta(ge=1, le=10_000, description="Maximum number of parallel writes of objects.")
    ] = 64
    rebalance: Annotated[
        Literal["off", "bounded", "two-sided", "even"],
        Meta(description="Goal of rebalancing: how even moves make the load of executors."),
    ] = "off"
    max_moves_per_interval: Annotated[
        Share,
        Meta(description="Maximum share of the open objects that rebalancing moves in 60 s; at least one object."),
    ] = "5%"
    desired_per_executor: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Open objects per executor, for the metric desired_executors. Default: no metric."),
    ] = None
    desired_min: Annotated[
        Count, Meta(description="Minimum of the metric desired_executors while any object is open.")
    ] = 1
    desired_max: Annotated[int, Meta(ge=1, le=1_000_000, description="Maximum of the metric desired_executors.")] = (
        1_000_000
    )

    orphan_policy: Annotated[
        OrphanPolicy,
        Meta(description="Treatment of the open objects of an executor that is gone: reassign them, or fail them."),
    ] = OrphanPolicy.REASSIGN
    max_reassigns: Annotated[
        Count,
        Meta(description="Losses of its holder within reassignWindow that an object survives; the next loss fails it."),
    ] = 3
    reassign_window: Annotated[Duration, Meta(description="Time in which losses count for maxReassigns.")] = 3600.0
    max_forced_moves_per_s: Annotated[
        float, Meta(gt=0, description="Maximum number of objects of lost executors that move in a second.")
    ] = 200.0
    wait_for_successor: Annotated[
        Duration, Meta(description="How long a drained object waits for the Pod that replaces its holder.")
    ] = 0.0

    leader_elect_namespace: Annotated[
        NamespaceName | None,
        Meta(description="Namespace of the supervisors' Lease. Default: the namespace of this process."),
    ] = None
    leader_elect: Annotated[
        bool,
        Meta(
            description="Wait until the Lease of another supervisor expires. If false, take the Lease at once: use "
            "this only if no other supervisor can run."
        ),
    ] = True
    leader_elect_lease_duration: Annotated[
        PositiveDuration, Meta(description="How long standby supervisors wait after the last renewal of the Lease.")
    ] = 15.0
    leader_elect_renew_deadline: Annotated[
        PositiveDuration, Meta(description="How long a leader continues without a renewal of the Lease.")
    ] = 10.0
    leader_elect_retry_period: Annotated[
        PositiveDuration, Meta(description="Time between attempts to take or renew the supervisors' Lease.")
    ] = 2.0

    @classmethod
    def from_namespace(
        cls,
        namespace: argparse.Namespace,
        *,
        prefix: str = "",
        file: object = None,
        environment: Mapping[str, str] | None = None,
    ) -> SupervisorOptions:
        """Read the options that `add_supervisor_options` added.

        A flag overrides the environment, which overrides the mapping `file`, which overrides the default.
        `environment`: None means that of the process. Raises `BadOptions` with every mistake.
        """
        around = os.environ if environment is None else environment
        return require_options(cls, Sources(vars(namespace), around, file), prefix)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], path: str = "") -> SupervisorOptions:
        """Read the options from a mapping alone, with keys such as `drainTimeout` or `drain_timeout`.

        Raises `BadOptions`; its paths start with `path`.
        """
        return read_mapping(cls, mapping, path)

    def mistakes(self) -> Iterable[Mistake]:
        """Yield the mistakes between fields, and the mistakes that types do not exclude."""
        yield from self._object_mistakes()
        if self.executor_selector is not None:
            try:
                if not parse_selector(self.executor_selector).requirements:
                    allowed = "labels, such as app=reports; an empty selector would select every Pod"
                    yield Mistake("executorSelector", format_value(self.executor_selector), allowed)
            except BadSelector as bad:
                yield Mistake("executorSelector", format_value(self.executor_selector), "a label selector", str(bad))
        if self.desired_min > self.desired_max:
            yield Mistake("desiredMin", format_value(self.desired_min), f"at most desiredMax ({self.desired_max})")
        yield from self._strategy_mistakes()
        yield from self._election_mistakes()

    def _object_mistakes(self) -> Iterator[Mistake]:
        yield from path_mistakes(self.assigned_to_path, self.completed_at_path, self.successful_path)
        number = self.partition
        if number is not None and "/" in number:
            if self.partition_table is not None:
                allowed = "only the number of the partition, because the table has the ranges"
                yield Mistake("partition", format_value(number), allowed)
            else:
                try:
                    parse_static(number)
                except BadPartition:
                    yield Mistake("partition", format_value(number), STATIC)
        elif number is not None and self.partition_table is None:
            yield Mistake(
                "partition", format_value(number), "INDEX/COUNT, such as 0/4, or a number together with partitionTable"
            )
        elif number is None and self.partition_table is not None:
            yield Mistake(
                "partition", "", "the number of the partition in the table", "set it together with partitionTable"
            )

    def _strategy_mistakes(self) -> Iterator[Mistake]:
        builders, found = available_strategies()
        try:
            self.make_strategy("", builders)
        except BadArguments as bad:
            yield from bad.mistakes
            if any(each.path == "strategy" for each in bad.mistakes):
                yield from found
        except Exception as problem:  # a builder from another package may raise any exception
            yield Mistake(
                "strategyArgs", format_value(self.strategy_args), f"arguments of {self.strategy}", repr(problem)[:200]
            )

    def _election_mistakes(self) -> Iterator[Mistake]:
        lease, renew, retry = (
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period,
        )
        if renew >= lease:
            allowed = f"less than leaderElectLeaseDuration ({lease:g}s)"
            yield Mistake("leaderElectRenewDeadline", f"{renew:g}s", allowed)
        if retry >= renew:
            allowed = f"less than leaderElectRenewDeadline ({renew:g}s)"
            yield Mistake("leaderElectRetryPeriod", f"{retry:g}s", allowed)

    @property
    def group_version_plural(self) -> tuple[str, str, str]:
        group, version, plural = self.resource.split("/")
        return group, version, plural

    @property
    def partition_name(self) -> str:
        """Return the partition as named in executors' Leases; empty without partitions."""
        return partition_name(self.partition)

    @property
    def selector(self) -> str:
        """Return the label selector of the executors' pods."""
        if self.executor_selector is not None:
            return self.executor_selector
        part = f",{PARTITION}={self.partition_name}" if self.partition_name else ""
        return f"{POOL}={self.pool}{part}"

    def paths(self) -> FieldPaths:
        return FieldPaths(self.assigned_to_path, self.completed_at_path, self.successful_path)

    def keyspace(self) -> Keyspace:
        """Return the keyspace of a static partition.

        Without a partition, and with a partition table, it covers all objects; the table then selects ours.
        """
        if self.partition is None or "/" not in self.partition:
            return Keyspace(EVERYTHING.ranges, PartitionBy(self.partition_by))
        return parse_static(self.partition, PartitionBy(self.partition_by))

    def lease_times(self) -> LeaseTimes:
        """Return the times of executors' Leases.

        Supervisors use only the duration; the other times are the defaults, scaled down for a shorter duration.
        """
        share = min(1.0, self.lease_duration / LeaseTimes().lease_s)
        usual = LeaseTimes()
        return LeaseTimes(
            self.lease_duration,
            usual.renew_s * share,
            usual.retry_s * share,
            usual.renew_deadline_s * share,
            usual.cancel_grace_s * share,
        )

    def make_strategy(self, kind: str, builders: Mapping[str, Builder] | None = None) -> Strategy:
        """Build a new strategy, for one supervisor only. `kind`: of the objects. Raises `BadArguments`."""
        around = StrategyEnvironment(clock, random.Random(), self.group_version_plural[0], kind)
        return build_strategy(
            self.strategy, self.strategy_args, around, available_strategies()[0] if builders is None else builders
        )

    def scope(
        self,
        resource: ResourceType[Unstructured],
        identity: str,
        lease_namespace: str,
        archive: ArchiveOptions | None = None,
        *,
        status_subresource: bool = True,
    ) -> Scope:
        """Build the scope of the supervisor.

        `identity`: of this process in elections. `lease_namespace`: used unless `leader_elect_namespace` is given.
        """
        archive = ArchiveOptions() if archive is None else archive
        sizing = None
        if self.desired_per_executor is not None:
            sizing = SizingConfig(self.desired_per_executor, self.desired_min, self.desired_max)
        return Scope(
            resource,
            ExecutorWatch(self.selector, self.executor_namespace),
            identity,
            self.leader_elect_namespace or lease_namespace,
            namespace=self.namespace,
            status_subresource=status_subresource,
            pool=self.pool,
            partition=self.partition_name,
            keyspace=self.keyspace(),
            partition_table=self.partition_table or "",
            times=self.lease_times(),
            election=ElectionTimes(
                self.leader_elect_lease_duration,
                self.leader_elect_renew_deadline,
                self.leader_elect_retry_period,
                waits=self.leader_elect,
            ),
            shares=self.namespace_shares,
            rules=Rules(co_locate_with_owner=True) if self.co_locate_with_owner else None,
            rebalance=RebalanceConfig(
                goal=None if self.rebalance == "off" else Goal(self.rebalance),
                max_moves_share=float(self.max_moves_per_interval.rstrip("%")) / 100,
            ),
            sizing=sizing,
            write_concurrency=self.write_concurrency,
            archive_concurrency=archive.archive_concurrency,
            archive_timeout=archive.archive_timeout,
            archive_propagation=archive.archive_propagation,
        )

    def config(self, archive: ArchiveOptions | None = None) -> SupervisorConfig:
        """Build the configuration of the supervisor; `archive` gives the settings of archiving.

        `SupervisorConfig` is Python API, with functions that no file can hold, so it exists next to the options.
        """
        archive = ArchiveOptions() if archive is None else archive
        return SupervisorConfig(
            **matching_fields(self, SupervisorConfig),
            archive_ttl=ArchiveTtl(archive.ttl_successful, archive.ttl_failed),
            finalizer=archive.finalizer,
            keep_last_per_owner=archive.archive_keep_last,
            delete_without_archive=archive.delete_without_archive,
            archive_on_unavailable=OnUnavailable(archive.archive_on_unavailable),
            release_after=archive.archive_release_after,
        )


def available_strategies() -> tuple[Mapping[str, Builder], tuple[Mistake, ...]]:
    """Return our strategies and those of installed entry points, and the mistakes in any of these."""
    return installed_builders(entry_points(group=STRATEGIES))
