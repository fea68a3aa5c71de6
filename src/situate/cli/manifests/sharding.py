"""Objects that supervisors add to an installation: executors, their rights, and the fence.

The Leases of supervisors are created empty. The policy's parameter thus exists before the first leader, and the policy
checks terms from the first write on. The executors' image is the image of the user's operator.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from situate.cli.input.configuration import assignments_of
from situate.cli.manifests.pods import copy_deployment, empty_lease, field_variable
from situate.cli.terminal.failures import WrongInput
from situate.objects.resources import unstructured
from situate.objects.reviews.authorization import Permission
from situate.objects.settings.options import BadOptions, options_of
from situate.sharding.executor.controller.executor_options import ExecutorOptions
from situate.sharding.fencing.admission_policy import LeaderLease, ServiceAccounts, fencing_policies
from situate.sharding.fencing.admit import Fence
from situate.sharding.model.field_paths import FieldPaths
from situate.sharding.model.names import PARTITION, POOL
from situate.sharding.permissions import executor_permissions
from situate.sharding.supervisor.controller.config.section import ShardSettings

NAME: Final = "situate-shard"
URL_FOLDER: Final = PurePosixPath("/etc/situate/archive")
"""Folder of `archive.urlFile` for which the Secret is mounted."""
URL_SECRET: Final = "situate-archive-url"  # noqa: S105 - the name of a Secret
_PATHS: Final = FieldPaths.__slots__
_AFTER_DRAIN_S: Final = 15.0
"""Time to release the Lease and to end the process."""


def shard_assignments(file: Path | None, resources: Sequence[str], namespace: str) -> tuple[str, ...]:
    """Return the `--set` arguments for supervisors: those of the file, or one for each resource. Raises `WrongInput`.

    Executors are in one namespace, because their ids are the names of Pods. An entry may name another namespace.
    """
    if file is None:
        if not resources:
            raise WrongInput("no resource is named: give --resource, such as batch.example.com/v1/reports, or -f FILE")
        given: tuple[str, ...] = ()
        entries: list[dict[str, Any]] = [{"resource": each} for each in resources]
        _check_entries(entries)
    else:
        given = assignments_of(file, "sharding")
        entries = next((json.loads(each.partition("=")[2]) for each in given if each.startswith("sharding=")), [])
        if not entries:
            raise WrongInput(f"{file}: no sharding section; add one with a resource, or give --resource")
    told = [{"executorNamespace": namespace, **each} for each in entries]
    rest = tuple(each for each in given if not each.startswith("sharding="))
    return (*rest, f"sharding={json.dumps(told, separators=(',', ':'))}")


def _check_entries(entries: Sequence[Mapping[str, Any]]) -> None:
    """Raise `WrongInput` for unusable flags, with their names."""
    for entry in entries:
        try:
            ShardSettings.parse_entry(entry)
        except BadOptions as bad:
            raise WrongInput("\n".join(f"--{each}" for each in bad.mistakes)) from None


def leftover_notes(entries: Sequence[ShardSettings]) -> Iterator[str]:
    """Return a note for each partitioned resource: applying deletes nothing, such as executors of other partitions."""
    for resource in dict.fromkeys(each.resource for each in entries if each.partition is not None):
        yield (
            f"note: {resource}: kubectl apply does not delete executors of an earlier output with other or no "
            "partitions; situate check -f names each Deployment to delete"
        )


def lease_objects(entries: Sequence[ShardSettings], leases: str, labels: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Return empty Leases. A second apply leaves the content of existing Leases unchanged."""
    for entry in entries:
        yield empty_lease(entry.lease_name, entry.leader_elect_namespace or leases, labels)


def fencing_objects(
    entries: Sequence[ShardSettings], supervisors: str, namespace: str, leases: str, labels: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Return one set of policies for each resource, however many supervisors it has.

    `supervisors` is the account as `NAMESPACE:NAME`.
    """
    by_resource: dict[tuple[str, str], list[ShardSettings]] = {}
    for entry in entries:
        group, _, plural = entry.group_version_plural
        by_resource.setdefault((group, plural), []).append(entry)
    for (group, plural), own in by_resource.items():
        executors = dict.fromkeys(f"{each.executor_namespace or namespace}:{executor_name(each)}" for each in own)
        first = own[0]
        if any((each.paths(), each.archive.finalizer) != (first.paths(), first.archive.finalizer) for each in own):
            raise WrongInput(
                f"{first.resource}: its entries have different paths or finalizers, but one fence; make them equal"
            )
        lease = None
        if len(own) == 1 and first.partition is None:
            lease = LeaderLease(first.leader_elect_namespace or leases, first.lease_name)
        yield from fencing_policies(
            f"situate-fencing.{plural}.{group}",
            unstructured(group, first.group_version_plural[1], "", plural),
            ServiceAccounts((supervisors,), tuple(executors)),
            Fence(first.paths(), first.archive.finalizer),
            lease,
            labels,
        )


def executor_name(entry: ShardSettings) -> str:
    """Return the name of the Deployment and the ServiceAccount."""
    plural = entry.group_version_plural[2]
    parts = [plural, *([] if entry.pool == "default" else [entry.pool]), "executor"]
    return "-".join([*parts, *([entry.partition_name] if entry.partition_name else [])])


def executor_rights(entry: ShardSettings, namespace: str) -> tuple[Permission, ...]:
    group, _, plural = entry.group_version_plural
    return executor_permissions(group, plural, entry.executor_namespace or namespace, namespace=entry.namespace)


def executor_deployment(deployment: Mapping[str, Any], entry: ShardSettings) -> dict[str, Any]:
    """Return a Deployment of the operator. Its identity comes from its Pod, its settings from the entry.

    A Pod is drained before it ends, as for a node drain: its preStop hook requests the drain and waits.
    """
    copy = copy_deployment(deployment)
    container = copy.container
    spec = copy.deployment["spec"]
    spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    labels = {POOL: entry.pool, **({PARTITION: entry.partition_name} if entry.partition_name else {})}
    spec["template"]["metadata"]["labels"] |= labels
    for name in ("args", "ports", "livenessProbe", "readinessProbe"):
        container.pop(name, None)
    usual = FieldPaths()
    settings = {
        "SITUATE_POOL": entry.pool,
        "SITUATE_LEASE_DURATION": f"{entry.lease_duration:g}s",
        "SITUATE_RESOURCE": entry.resource,
        **({"SITUATE_NAMESPACE": entry.namespace} if entry.namespace else {}),
        **{
            option.variable: getattr(entry, option.field)
            for option in options_of(ExecutorOptions)
            if option.field in _PATHS and getattr(entry, option.field) != getattr(usual, option.field)
        },
        **({"SITUATE_PARTITION": entry.partition} if entry.partition else {}),
        **({"SITUATE_EXECUTOR_NAMESPACE": entry.executor_namespace} if entry.executor_namespace else {}),
    }
    identity = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}
    container["env"] = [
        *(field_variable(name, path) for name, path in identity.items()),
        *({"name": name, "value": value} for name, value in settings.items()),
    ]
    wait_s = math.ceil(entry.drain_timeout)
    command = ["situate", "sharding", "drain", "--self", "--wait", "--timeout", f"{wait_s}s"]
    container["lifecycle"] = {"preStop": {"exec": {"command": command}}}
    copy.pod["terminationGracePeriodSeconds"] = math.ceil(wait_s + entry.lease_duration + _AFTER_DRAIN_S)
    return copy.deployment


def with_archive_url(deployment: Mapping[str, Any], entries: Sequence[ShardSettings]) -> dict[str, Any]:
    """Mount the Secret with the archive's URL into the supervisors' Deployment, if an entry names a file there."""
    files = [PurePosixPath(each.archive.archive_url_file) for each in entries if each.archive.archive_url_file]
    copy = copy_deployment(deployment)
    if any(each.parent == URL_FOLDER for each in files):
        copy.mount("archive-url", str(URL_FOLDER), {"secret": {"secretName": URL_SECRET}})
    return copy.deployment
