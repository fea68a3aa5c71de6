"""The options of executors: one table for flags, the environment, files and `from_mapping`."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType
from situate.objects.settings.options import Sources, read_mapping, require_options
from situate.objects.settings.section import ALLOWED, Duration, Mistake, NamespaceName, PositiveDuration, format_value
from situate.sharding.executor.config import ExecutorConfig, ExecutorIdentity, no_metrics
from situate.sharding.executor.controller.load import ProcessLoad
from situate.sharding.leases.membership import BadLeaseTimes, LeaseTimes
from situate.sharding.model.field_paths import FieldPaths
from situate.sharding.model.option_values import (
    ASSIGNED_HELP,
    COMPLETED_HELP,
    LEASE_HELP,
    NAMESPACE_HELP,
    OBJECTS_HELP,
    PARTITION_HELP,
    POOL_HELP,
    SUCCESSFUL_HELP,
    FieldPath,
    Partition,
    Pool,
    partition_name,
    path_mistakes,
)
from situate.sharding.partitions.partitions import BadPartition, parse_static


class ExecutorOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Options of an executor. Times are in seconds unless the field says otherwise."""

    executor_id: Annotated[
        Annotated[
            str, Meta(min_length=1, extra={ALLOWED: "NAMESPACE/NAME of the Pod, or POD_NAME in the environment"})
        ],
        Meta(
            description="Id of the executor: NAMESPACE/NAME or NAME of its Pod. Default: POD_NAMESPACE, POD_NAME.",
            examples=["reports/executor-0"],
        ),
    ]
    executor_uid: Annotated[
        Annotated[str, Meta(min_length=1, extra={ALLOWED: "the UID of the Pod, or POD_UID in the environment"})],
        Meta(description="UID of the executor's Pod. Default: POD_UID.", examples=["7ee7d8f0"]),
    ]
    executor_namespace: Annotated[NamespaceName | None, Meta(description=NAMESPACE_HELP)] = None
    pod_namespace: Annotated[
        NamespaceName | None,
        Meta(description="Namespace of the executor's Pod and Lease. Default: POD_NAMESPACE, or from the id."),
    ] = None
    namespace: Annotated[NamespaceName | None, Meta(description=OBJECTS_HELP)] = None
    assigned_to_path: Annotated[FieldPath, Meta(description=ASSIGNED_HELP)] = "spec.assignedTo"
    completed_at_path: Annotated[FieldPath, Meta(description=COMPLETED_HELP)] = "status.completedAt"
    successful_path: Annotated[FieldPath, Meta(description=SUCCESSFUL_HELP)] = "status.successful"
    pool: Annotated[Pool, Meta(description=POOL_HELP)] = "default"
    partition: Annotated[Partition | None, Meta(description=PARTITION_HELP)] = None
    executor_capacity: Annotated[
        Literal["unlimited"] | Annotated[float, Meta(ge=0)],
        Meta(description="Maximum number of open objects that supervisors assign to the executor."),
    ] = "unlimited"
    concurrency: Annotated[
        int, Meta(ge=1, le=100_000, description="Maximum number of handlers that run in parallel.")
    ] = 16
    lease_duration: Annotated[PositiveDuration, Meta(description=LEASE_HELP)] = 15.0
    renew_interval: Annotated[PositiveDuration, Meta(description="Time between renewals of the executor's Lease.")] = (
        4.0
    )
    retry_interval: Annotated[
        PositiveDuration, Meta(description="Time between attempts to renew the Lease after a failed attempt.")
    ] = 1.0
    renew_deadline: Annotated[
        PositiveDuration,
        Meta(description="Time after the last renewal of the Lease at which the executor cancels its handlers."),
    ] = 10.0
    cancel_grace: Annotated[
        Duration, Meta(description="Time that cancelled handlers have to stop. After it, the process ends itself.")
    ] = 4.0
    max_clock_drift: Annotated[
        float, Meta(ge=0, lt=1, description="Maximum difference in speed between two clocks, as a share: 0.05 is 5 %.")
    ] = 0.05
    metrics_source: Annotated[
        Literal["process", "none"], Meta(description="Source of the load that the executor reports on its Lease.")
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
        """Read the options of `add_executor_options`: flags, then environment, then the mapping `file`, then defaults.

        POD_NAME, POD_NAMESPACE and POD_UID of the environment supply a missing id and uid. `environment` None is the
        environment of the process. Raises `BadOptions` with every mistake.
        """
        around = os.environ if environment is None else environment
        return require_options(
            cls, Sources(vars(namespace), around, file, fallbacks=_downward_api_options(around)), prefix
        )

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], path: str = "") -> ExecutorOptions:
        """Read the options from a mapping only, with keys such as `cancelGrace` or `cancel_grace`.

        Raises `BadOptions`, with paths below `path`.
        """
        return read_mapping(cls, mapping, path)

    def mistakes(self) -> Iterable[Mistake]:
        """Yield the mistakes between fields, and those that types cannot express."""
        namespace, _, name = self.executor_id.rpartition("/")
        if not _NAME.fullmatch(name) or (namespace and not _NAME.fullmatch(namespace)):
            yield Mistake("executorId", format_value(self.executor_id), "NAMESPACE/NAME or NAME of a Pod")
        elif not self._namespace:
            hint = "set executorNamespace, or POD_NAMESPACE through the downward API"
            yield Mistake(
                "executorId", format_value(self.executor_id), "NAMESPACE/NAME, or NAME if the namespace is known", hint
            )
        elif namespace and namespace != self._namespace:
            yield Mistake("executorId", format_value(self.executor_id), f"a Pod in the namespace {self._namespace}")
        yield from path_mistakes(self.assigned_to_path, self.completed_at_path, self.successful_path)
        if self.partition is not None and "/" in self.partition:
            try:
                parse_static(self.partition)
            except BadPartition as bad:
                yield Mistake(
                    "partition", format_value(self.partition), "an index from 0 to one less than the count", str(bad)
                )
        try:
            self.lease_times()
        except BadLeaseTimes as bad:
            said = f"{self.renew_deadline:g}s"
            allowed = (
                "retryInterval <= renewInterval < renewDeadline, and renewDeadline + cancelGrace within leaseDuration"
            )
            yield Mistake("renewDeadline", said, allowed, str(bad))

    @property
    def _namespace(self) -> str:
        named = self.executor_id.rpartition("/")[0]
        return self.executor_namespace or self.pod_namespace or named

    def identity(self) -> ExecutorIdentity:
        """Return the Pod of this process."""
        namespace, _, name = self.executor_id.rpartition("/")
        return ExecutorIdentity(
            name, self._namespace, self.executor_uid, one_namespace=self.executor_namespace is not None or not namespace
        )

    def lease_times(self) -> LeaseTimes:
        """Return the times of the Lease. Raises `BadLeaseTimes`."""
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
        """The partition as written to the Lease; empty without partitions."""
        return partition_name(self.partition)

    def config(self, resource: ResourceType[Unstructured]) -> ExecutorConfig:
        """Return the configuration for a resource. The program sets other fields by `dataclasses.replace`."""
        times = self.lease_times()
        return ExecutorConfig(
            resource,
            FieldPaths(self.assigned_to_path, self.completed_at_path, self.successful_path),
            namespace=self.namespace,
            pool=self.pool,
            partition=self.partition_name,
            times=times,
            stall_limit=min(ExecutorConfig(resource).stall_limit, times.renew_deadline_s / 2),
            capacity=None if self.executor_capacity == "unlimited" else self.executor_capacity,
            concurrency=self.concurrency,
            metrics=ProcessLoad() if self.metrics_source == "process" else no_metrics,
        )


_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)


def _downward_api_options(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the options that the downward API supplies, by field."""
    name, namespace, uid = (environment.get(variable, "") for variable in ("POD_NAME", "POD_NAMESPACE", "POD_UID"))
    found = {
        "executor_id": ("POD_NAME", f"{namespace}/{name}" if namespace and name else name),
        "executor_uid": ("POD_UID", uid),
        "pod_namespace": ("POD_NAMESPACE", namespace),
    }
    return {field: given for field, given in found.items() if given[1]}
