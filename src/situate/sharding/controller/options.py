"""The options of supervisors and of executors: two tables, for flags, the environment, files and `from_mapping`.

What else a program decides in code (weights, filters, what is ready) is given to `scope`, `config` and `ExecutorConfig`
by the program.
"""

from __future__ import annotations

import argparse
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Annotated, Any, Final, Literal, TypeVar, overload

import msgspec
from msgspec import Meta

from situate.archive.options import ArchiveOptions
from situate.kube.lease_record import ElectionTimes
from situate.objects.label_selectors import BadSelector, parse_selector
from situate.objects.resources import ResourceType
from situate.objects.settings import ALLOWED, Duration, Mistake, NamespaceName, ObjectName, PositiveDuration, shown
from situate.objects.settings_flags import F, add_flags, parse_options, with_flags
from situate.objects.settings_options import FLAG, BadOptions, Sources, read_mapping, read_options
from situate.objects.unstructured import Unstructured
from situate.sharding.adapter import BadFieldPath, FieldPaths
from situate.sharding.configuration import ArchiveTtl, OnUnavailable, OrphanPolicy, SupervisorConfig
from situate.sharding.controller.lease import clock
from situate.sharding.controller.load import ProcessLoad
from situate.sharding.executor_configuration import ExecutorConfig, ExecutorIdentity, no_metrics
from situate.sharding.leases import BadLeaseTimes, ExecutorWatch, LeaseTimes
from situate.sharding.names import PARTITION, POOL
from situate.sharding.partitions import EVERYTHING, BadPartition, Keyspace, PartitionBy, parse_static
from situate.sharding.rebalancing import Goal, RebalanceConfig
from situate.sharding.scope import Scope
from situate.sharding.sizing import SizingConfig
from situate.sharding.strategies.protocol import Strategy
from situate.sharding.strategies.registry import GROUP as STRATEGIES
from situate.sharding.strategies.registry import BadArguments, Builder, Surroundings, build, installed
from situate.sharding.strategies.rules import Rules

__all__ = [
    "BadOptions",
    "ExecutorOptions",
    "SupervisorOptions",
    "add_executor_options",
    "add_supervisor_options",
    "parse_options",
    "partition_name",
    "strategies",
    "with_executor_options",
    "with_supervisor_options",
]

_Path = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+$",
        extra={ALLOWED: "two or more field names joined by dots, such as spec.assignedTo"},
    ),
]
_Resource = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/v[0-9][a-z0-9]*/[a-z][-a-z0-9.]*$",
        extra={ALLOWED: "GROUP/VERSION/PLURAL, such as batch.example.com/v1/reports"},
    ),
]
_Pool = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        extra={ALLOWED: "at most 63 of a to z, 0 to 9 and '-', which is neither first nor last"},
    ),
]
_Partition = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{1,4}(/[0-9]{1,4})?$",
        extra={ALLOWED: "INDEX/COUNT such as 0/4, the first of four; the number alone where a table has the ranges"},
    ),
]
_Share = Annotated[
    str, Meta(pattern=r"^(100|[0-9]{1,2}(\.[0-9]+)?)%$", extra={ALLOWED: 'a percentage from "0%" to "100%"'})
]
_Count = Annotated[int, Meta(ge=0, le=1_000_000)]
_Self = TypeVar("_Self", bound="SupervisorOptions | ExecutorOptions")

_POOL_HELP: Final = "Name of the set of executors."
_PARTITION_HELP: Final = "Which part of the objects: INDEX/COUNT, or the number in a partition table; without, all."
_STATIC_HELP: Final = "INDEX/COUNT with a count from 1 to 4096 and an index from 0 to one less than the count"
_EXECUTOR_NAMESPACE_HELP: Final = (
    "The one namespace of all executors, whose ids are then pods' names; without it they may be in any, and ids are "
    "namespace/name."
)
_LEASE_HELP: Final = "Of executors' Leases: how long one that is silent keeps its objects."


class SupervisorOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a supervisor is told. Seconds, unless said otherwise."""

    resource: Annotated[
        _Resource, Meta(description="The objects: GROUP/VERSION/PLURAL.", examples=["batch.example.com/v1/reports"])
    ]
    namespace: Annotated[NamespaceName | None, Meta(description="Of the objects; without, all.")] = None
    assigned_to_path: Annotated[_Path, Meta(description="Where the executor's id stands.")] = "spec.assignedTo"
    completed_at_path: Annotated[_Path, Meta(description="Where it stands when they were done.")] = "status.completedAt"
    successful_path: Annotated[_Path, Meta(description="Where it stands how they ended.")] = "status.successful"
    partition: Annotated[_Partition | None, Meta(description=_PARTITION_HELP)] = None
    partition_table: Annotated[
        ObjectName | None, Meta(description="A ConfigMap with the elastic table of partitions.")
    ] = None
    partition_by: Annotated[
        Literal["uid", "namespace", "name"], Meta(description="What of an object says which partition it is of.")
    ] = "uid"

    pool: Annotated[_Pool, Meta(description=_POOL_HELP)] = "default"
    executor_selector: Annotated[
        str | None,
        Meta(description=f"Labels of the executors' pods; without, {POOL}=POOL, and {PARTITION} where there is one."),
    ] = None
    executor_namespace: Annotated[NamespaceName | None, Meta(description=_EXECUTOR_NAMESPACE_HELP)] = None
    lease_duration: Annotated[PositiveDuration, Meta(description=_LEASE_HELP)] = 15.0
    grace_unhealthy: Annotated[
        Duration, Meta(description="How long an executor may be unhealthy before it counts as such for draining.")
    ] = 5.0
    drain_timeout: Annotated[
        Duration, Meta(description="After which an object is taken from a holder that does not let go of it.")
    ] = 30.0
    drain_unhealthy: Annotated[bool, Meta(description="Drain executors that are unhealthy for longer than that.")] = (
        False
    )
    max_parallel_drains: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Objects that are asked for at a time.")
    ] = 100

    strategy: Annotated[
        str,
        Meta(
            min_length=1, description="MinScheduled, MinMetricScore, RoundRobin, Random, Ring, Rendezvous or one's own."
        ),
    ] = "MinScheduled"
    strategy_args: Annotated[
        dict[str, Any], Meta(description="The strategy's own arguments.", extra={FLAG: "strategy-arg"})
    ] = msgspec.field(default_factory=dict)
    co_locate_with_owner: Annotated[
        bool, Meta(description="Give an object that another one controls to that one's executor.")
    ] = False
    requeue_delay: Annotated[
        PositiveDuration, Meta(description="The safety net: everything is compared with a listing so often.")
    ] = 30.0
    scheduler_jitter: Annotated[
        Duration, Meta(description="Nobody is placed before the executors have been the same for so long.")
    ] = 0.5
    max_jitter_wait: Annotated[Duration, Meta(description="The most that an object waits for that, in sum.")] = 2.0
    write_concurrency: Annotated[int, Meta(ge=1, le=10_000, description="Objects written at a time.")] = 64
    rebalance: Annotated[
        Literal["off", "bounded", "two-sided", "even"], Meta(description="How equal executors are kept by moves.")
    ] = "off"
    max_moves_per_interval: Annotated[_Share, Meta(description="Of the open objects, at least one, in a minute.")] = (
        "5%"
    )
    desired_per_executor: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Open objects that one executor takes, for the metric of how many are wanted."),
    ] = None
    desired_min: Annotated[_Count, Meta(description="Executors wanted at least while anything is open.")] = 1
    desired_max: Annotated[int, Meta(ge=1, le=1_000_000, description="Executors wanted at most.")] = 1_000_000

    orphan_policy: Annotated[
        Literal["reassign", "fail"], Meta(description="What becomes of the objects of an executor that is gone.")
    ] = "reassign"
    max_reassigns: Annotated[_Count, Meta(description="Losses of its holder after which an object has failed.")] = 3
    reassign_window: Annotated[Duration, Meta(description="Within which those are counted.")] = 3600.0
    max_forced_moves_per_s: Annotated[float, Meta(gt=0, description="Objects of lost executors moved in a second.")] = (
        200.0
    )
    wait_for_successor: Annotated[
        Duration, Meta(description="How long a drained object waits for the pod that takes its holder's place.")
    ] = 0.0

    leader_elect_namespace: Annotated[
        NamespaceName | None, Meta(description="Of the supervisors' Lease; without, that of this process.")
    ] = None
    leader_elect: Annotated[
        bool,
        Meta(
            description="Wait for the Lease of another supervisor to run out. Without, take it at once: only where no "
            "other process can be alive."
        ),
    ] = True
    leader_elect_lease_duration: Annotated[
        PositiveDuration, Meta(description="How long others wait after the last renewal.")
    ] = 15.0
    leader_elect_renew_deadline: Annotated[
        PositiveDuration, Meta(description="How long a leader goes on without a renewal.")
    ] = 10.0
    leader_elect_retry_period: Annotated[PositiveDuration, Meta(description="Between attempts.")] = 2.0

    @classmethod
    def from_namespace(
        cls,
        namespace: argparse.Namespace,
        *,
        prefix: str = "",
        file: object = None,
        environment: Mapping[str, str] | None = None,
    ) -> SupervisorOptions:
        """Of what `add_supervisor_options` has added: flags over the environment over `file`, a mapping, over defaults.

        `environment`: None is the process's. Raises `BadOptions` with every mistake.
        """
        return _read(cls, vars(namespace), prefix, file, environment)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], path: str = "") -> SupervisorOptions:
        """Of a mapping alone; keys as `drainTimeout` or `drain_timeout`. Raises `BadOptions`, paths below `path`."""
        return read_mapping(cls, mapping, path)

    def mistakes(self) -> Iterable[Mistake]:
        """What is wrong between fields, or beyond their types."""
        yield from self._of_objects()
        if self.executor_selector is not None:
            try:
                if not parse_selector(self.executor_selector).requirements:
                    allowed = "labels, such as app=reports: an empty selector would take every pod for an executor"
                    yield Mistake("executorSelector", shown(self.executor_selector), allowed)
            except BadSelector as bad:
                yield Mistake("executorSelector", shown(self.executor_selector), "a label selector", str(bad))
        if self.desired_min > self.desired_max:
            yield Mistake("desiredMin", shown(self.desired_min), f"at most desiredMax ({self.desired_max})")
        yield from self._of_strategy()
        yield from self._of_election()

    def _of_objects(self) -> Iterator[Mistake]:
        try:
            self.paths()
        except BadFieldPath as bad:
            yield Mistake("assignedToPath", shown(self.assigned_to_path), "paths that can be told apart", str(bad))
        number = self.partition
        if number is not None and "/" in number:
            if self.partition_table is not None:
                allowed = "the partition's number alone, for the table has the ranges"
                yield Mistake("partition", shown(number), allowed)
            else:
                try:
                    parse_static(number)
                except BadPartition:
                    yield Mistake("partition", shown(number), _STATIC_HELP)
        elif number is not None and self.partition_table is None:
            yield Mistake("partition", shown(number), "INDEX/COUNT, such as 0/4, or a number beside partitionTable")
        elif number is None and self.partition_table is not None:
            yield Mistake("partition", "", "the number of the partition in the table", "give it beside partitionTable")

    def _of_strategy(self) -> Iterator[Mistake]:
        builders, found = strategies()
        try:
            self.make_strategy("", builders)
        except BadArguments as bad:
            yield from bad.mistakes
            if any(each.path == "strategy" for each in bad.mistakes):
                yield from found
        except Exception as problem:  # somebody else's builder may raise anything
            yield Mistake("strategyArgs", shown(self.strategy_args), f"what {self.strategy} takes", repr(problem)[:200])

    def _of_election(self) -> Iterator[Mistake]:
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
        """As executors' Leases have it; empty where there are no partitions."""
        return partition_name(self.partition)

    @property
    def selector(self) -> str:
        """Of the executors' pods."""
        if self.executor_selector is not None:
            return self.executor_selector
        part = f",{PARTITION}={self.partition_name}" if self.partition_name else ""
        return f"{POOL}={self.pool}{part}"

    def paths(self) -> FieldPaths:
        return FieldPaths(self.assigned_to_path, self.completed_at_path, self.successful_path)

    def keyspace(self) -> Keyspace:
        """Of a static partition; everything where there is none, and until a table has been read."""
        if self.partition is None or "/" not in self.partition:
            return EVERYTHING
        return parse_static(self.partition, PartitionBy(self.partition_by))

    def lease_times(self) -> LeaseTimes:
        """Supervisors judge by the duration alone; the rest is as executors with such a duration may have it."""
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
        """A new one, of one supervisor alone. `kind`: of the objects. Raises `BadArguments`."""
        around = Surroundings(clock, random.Random(), self.group_version_plural[0], kind)
        return build(self.strategy, self.strategy_args, around, strategies()[0] if builders is None else builders)

    def scope(
        self,
        resource: ResourceType[Unstructured],
        identity: str,
        lease_namespace: str,
        archive: ArchiveOptions | None = None,
        *,
        status_subresource: bool = True,
    ) -> Scope:
        """`identity`: of this process in elections; `lease_namespace`: unless `leader_elect_namespace` is given."""
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
            times=self.lease_times(),
            election=ElectionTimes(
                self.leader_elect_lease_duration,
                self.leader_elect_renew_deadline,
                self.leader_elect_retry_period,
                waits=self.leader_elect,
            ),
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
        """When to place, move and fail, and, as `archive` says, to archive."""
        archive = ArchiveOptions() if archive is None else archive
        return SupervisorConfig(
            requeue_delay=self.requeue_delay,
            scheduler_jitter=self.scheduler_jitter,
            max_jitter_wait=self.max_jitter_wait,
            archive_ttl=ArchiveTtl(archive.ttl_successful, archive.ttl_failed),
            finalizer=archive.finalizer,
            keep_last_per_owner=archive.archive_keep_last,
            delete_without_archive=archive.delete_without_archive,
            archive_on_unavailable=OnUnavailable(archive.archive_on_unavailable),
            release_after=archive.archive_release_after,
            orphan_policy=OrphanPolicy(self.orphan_policy),
            max_reassigns=self.max_reassigns,
            reassign_window=self.reassign_window,
            max_forced_moves_per_s=self.max_forced_moves_per_s,
            drain_timeout=self.drain_timeout,
            max_parallel_drains=self.max_parallel_drains,
            drain_unhealthy=self.drain_unhealthy,
            grace_unhealthy=self.grace_unhealthy,
            wait_for_successor=self.wait_for_successor,
        )


class ExecutorOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an executor is told. Seconds, unless said otherwise."""

    executor_id: Annotated[
        Annotated[str, Meta(min_length=1)],
        Meta(
            description="NAMESPACE/NAME of the pod, or its name; without, as POD_NAMESPACE and POD_NAME say.",
            examples=["reports/executor-0"],
        ),
    ]
    executor_uid: Annotated[
        Annotated[str, Meta(min_length=1)],
        Meta(description="The pod's UID; without, as POD_UID says.", examples=["7ee7d8f0"]),
    ]
    executor_namespace: Annotated[NamespaceName | None, Meta(description=_EXECUTOR_NAMESPACE_HELP)] = None
    pod_namespace: Annotated[
        NamespaceName | None, Meta(description="Of this pod, for its Lease; without, as POD_NAMESPACE or the id says.")
    ] = None
    pool: Annotated[_Pool, Meta(description=_POOL_HELP)] = "default"
    partition: Annotated[_Partition | None, Meta(description=_PARTITION_HELP)] = None
    executor_capacity: Annotated[
        Literal["unlimited"] | Annotated[float, Meta(ge=0)],
        Meta(description="Open objects that supervisors may assign."),
    ] = "unlimited"
    concurrency: Annotated[int, Meta(ge=1, le=100_000, description="Handlers that run at a time.")] = 16
    lease_duration: Annotated[PositiveDuration, Meta(description=_LEASE_HELP)] = 15.0
    renew_interval: Annotated[PositiveDuration, Meta(description="Between renewals of the Lease.")] = 4.0
    retry_interval: Annotated[PositiveDuration, Meta(description="Between attempts after one that failed.")] = 1.0
    renew_deadline: Annotated[
        PositiveDuration, Meta(description="Handlers are cancelled so long after the last renewal.")
    ] = 10.0
    cancel_grace: Annotated[
        Duration, Meta(description="After that a process whose handlers have not stopped ends itself.")
    ] = 4.0
    max_clock_drift: Annotated[
        float, Meta(ge=0, lt=1, description="By which two clocks may differ in speed, as a share.")
    ] = 0.05
    metrics_source: Annotated[
        Literal["process", "none"], Meta(description="Where the load comes from that the Lease reports.")
    ] = "process"

    @classmethod
    def from_namespace(
        cls,
        namespace: argparse.Namespace,
        *,
        prefix: str = "",
        file: object = None,
        environment: Mapping[str, str] | None = None,
    ) -> ExecutorOptions:
        """Of what `add_executor_options` has added: flags over the environment over `file`, a mapping, over defaults.

        POD_NAME, POD_NAMESPACE and POD_UID of the environment stand in for id and uid. `environment`: None is the
        process's. Raises `BadOptions` with every mistake.
        """
        return _read(cls, vars(namespace), prefix, file, environment)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], path: str = "") -> ExecutorOptions:
        """Of a mapping alone; keys as `cancelGrace` or `cancel_grace`. Raises `BadOptions`, paths below `path`."""
        return read_mapping(cls, mapping, path)

    def mistakes(self) -> Iterable[Mistake]:
        """What is wrong between fields, or beyond their types."""
        namespace, _, name = self.executor_id.rpartition("/")
        if not _NAME.fullmatch(name) or (namespace and not _NAME.fullmatch(namespace)):
            yield Mistake("executorId", shown(self.executor_id), "NAMESPACE/NAME or NAME of a pod")
        elif not self._namespace:
            hint = "give executorNamespace, or POD_NAMESPACE through the downward API"
            yield Mistake(
                "executorId", shown(self.executor_id), "NAMESPACE/NAME, or a name whose namespace is known", hint
            )
        elif namespace and namespace != self._namespace:
            yield Mistake("executorId", shown(self.executor_id), f"a pod in the namespace {self._namespace}")
        if self.partition is not None and "/" in self.partition:
            try:
                parse_static(self.partition)
            except BadPartition as bad:
                yield Mistake(
                    "partition", shown(self.partition), "an index from 0 to one less than the count", str(bad)
                )
        try:
            self.lease_times()
        except BadLeaseTimes as bad:
            said = f"{self.renew_deadline:g}s"
            allowed = "retryInterval <= renewInterval < renewDeadline, and with cancelGrace within leaseDuration"
            yield Mistake("renewDeadline", said, allowed, str(bad))

    @property
    def _namespace(self) -> str:
        named = self.executor_id.rpartition("/")[0]
        return self.executor_namespace or self.pod_namespace or named

    def identity(self) -> ExecutorIdentity:
        """Which pod this is."""
        namespace, _, name = self.executor_id.rpartition("/")
        return ExecutorIdentity(
            name, self._namespace, self.executor_uid, one_namespace=self.executor_namespace is not None or not namespace
        )

    def lease_times(self) -> LeaseTimes:
        """Raises `BadLeaseTimes`."""
        return LeaseTimes(
            self.lease_duration,
            self.renew_interval,
            self.retry_interval,
            self.renew_deadline,
            self.cancel_grace,
            self.max_clock_drift,
        )

    @property
    def partition_name(self) -> str:
        """As the Lease has it; empty where there are no partitions."""
        return partition_name(self.partition)

    def config(self, resource: ResourceType[Unstructured]) -> ExecutorConfig:
        """The rest, such as what handlers are allowed, is the program's: `dataclasses.replace`."""
        times = self.lease_times()
        return ExecutorConfig(
            resource,
            pool=self.pool,
            partition=self.partition_name,
            times=times,
            stall_limit=min(ExecutorConfig(resource).stall_limit, times.renew_deadline_s / 2),
            capacity=None if self.executor_capacity == "unlimited" else self.executor_capacity,
            concurrency=self.concurrency,
            metrics=ProcessLoad() if self.metrics_source == "process" else no_metrics,
        )


_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)


def partition_name(partition: str | None) -> str:
    """As it stands in labels and in Leases' names: `0-of-4`, or the number that a table gives; empty for None."""
    return "" if partition is None else partition.replace("/", "-of-")


def strategies() -> tuple[Mapping[str, Builder], tuple[Mistake, ...]]:
    """Ours, and those that others have installed as entry points; and what is wrong with any of these."""
    return installed(entry_points(group=STRATEGIES))


def add_supervisor_options(parser: argparse.ArgumentParser, prefix: str = "") -> None:
    """Adds the flags; `SupervisorOptions.from_namespace` reads them."""
    add_flags(parser, SupervisorOptions, "supervisor", prefix)


def add_executor_options(parser: argparse.ArgumentParser, prefix: str = "") -> None:
    """Adds the flags; `ExecutorOptions.from_namespace` reads them."""
    add_flags(parser, ExecutorOptions, "executor", prefix)


@overload
def with_supervisor_options(function: F, /) -> F: ...
@overload
def with_supervisor_options(*, prefix: str = "") -> Callable[[F], F]: ...
def with_supervisor_options(function: F | None = None, /, *, prefix: str = "") -> F | Callable[[F], F]:
    """A decorator for a typer command: its parameter of the type `SupervisorOptions` becomes the flags."""
    return _with(SupervisorOptions, function, prefix)


@overload
def with_executor_options(function: F, /) -> F: ...
@overload
def with_executor_options(*, prefix: str = "") -> Callable[[F], F]: ...
def with_executor_options(function: F | None = None, /, *, prefix: str = "") -> F | Callable[[F], F]:
    """A decorator for a typer command: its parameter of the type `ExecutorOptions` becomes the flags."""
    return _with(ExecutorOptions, function, prefix)


def _with(kind: type[_Self], function: F | None, prefix: str) -> F | Callable[[F], F]:
    def read(given: Mapping[str, object]) -> _Self:
        return _read(kind, given, prefix, None, None)

    decorate: Callable[[F], F] = with_flags(kind, read, prefix)
    return decorate if function is None else decorate(function)


def _read(
    kind: type[_Self], flags: Mapping[str, object], prefix: str, file: object, environment: Mapping[str, str] | None
) -> _Self:
    around = os.environ if environment is None else environment
    fallbacks = _of_the_pod(around) if kind is ExecutorOptions else {}
    options, mistakes = read_options(kind, Sources(flags, around, file, fallbacks=fallbacks), prefix)
    if options is None:
        raise BadOptions(mistakes)
    return options


def _of_the_pod(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """What the downward API says, by field."""
    name, namespace, uid = (environment.get(variable, "") for variable in ("POD_NAME", "POD_NAMESPACE", "POD_UID"))
    found = {
        "executor_id": ("POD_NAME", f"{namespace}/{name}" if namespace and name else name),
        "executor_uid": ("POD_UID", uid),
        "pod_namespace": ("POD_NAMESPACE", namespace),
    }
    return {field: given for field, given in found.items() if given[1]}
