"""Restore an archived object: create the object that `situate.archive.records.restored_object` derives from its record.

An object without its status looks open, and would be assigned before its status is written. The object is therefore
created with an executor selector that no executor matches. The selector is removed after the status is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from situate.archive.records.record import Record
from situate.archive.records.restored_object import CannotRestore, Content, Owner, Restored, owners_of, restored
from situate.kube.client import Client
from situate.kube.errors import Conflict, NotFound
from situate.kube.patches import MergePatch
from situate.kube.queries.discovery import DiscoveredResource, discover_kind
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType
from situate.sharding.assignment.archive_steps import marks_of
from situate.sharding.model.field_paths import FieldPaths, ObjectAdapter
from situate.sharding.model.names import EXECUTOR_SELECTOR, RESTORING
from situate.sharding.model.supervisor_config import SupervisorConfig

_TRIES: Final = 10
"""Maximum attempts to write the status: other clients may write between read and write."""


@dataclass(frozen=True, slots=True)
class RestoredObject:
    """The object that was created, or would be created by a dry run."""

    content: Mapping[str, Any]
    left_out: tuple[Owner, ...]
    """The owners that are gone and were left out."""


async def restore(
    client: Client,
    record: Record,
    *,
    adapter: ObjectAdapter | None = None,
    config: SupervisorConfig | None = None,
    name: str = "",
    keep_owners: bool = False,
    convert: Callable[[dict[str, Any]], Content] | None = None,
    dry_run: bool = False,
) -> RestoredObject:
    """Create the object, with its status through the subresource. Raises `AlreadyExists` if the name is taken.

    `name`: the new name, if not the old one. `keep_owners`: also keep references to owners that are gone; the garbage
    collector then deletes the object. `convert` turns the object into another version. With `dry_run` the API server
    checks the object and stores nothing.

    Raises `CannotRestore` and the client's errors. If the status was not written, the object stays and is not assigned:
    delete it, and restore it again.
    """
    paths = FieldPaths() if adapter is None else adapter
    marks = marks_of(SupervisorConfig() if config is None else config)
    present = None if keep_owners else await _existing_owners(client, record.object, record.subject.namespace)
    new = restored(record, marks, lambda content: paths.assign_to(content, None), present, name=name, convert=convert)
    served = await _find_resource(client, new.content, str(record.subject.key))
    held = served.has_status and new.status is not None
    content = _add_restoring_selector(new.content) if held else new.content
    if new.status is not None and not held:
        content = {**content, "status": new.status}
    created = await client.create(served.resource, content, record.subject.namespace or None, dry_run=dry_run)
    if held and not dry_run:
        created = await _write_status(client, served.resource, created, new)
    return RestoredObject(created.content, new.left_out)


def _add_restoring_selector(content: Mapping[str, Any]) -> dict[str, Any]:
    metadata = content["metadata"]
    annotations = {**(metadata.get("annotations") or {}), EXECUTOR_SELECTOR: RESTORING}
    return {**content, "metadata": {**metadata, "annotations": annotations}}


async def _write_status(
    client: Client, resource: ResourceType[Unstructured], created: Unstructured, new: Restored
) -> Unstructured:
    """Write the status, and then the object's own executor selector."""
    meta = created.metadata
    namespace = meta.namespace or None
    for tries in range(1, _TRIES + 1):
        try:
            whole = {**created.content, "status": new.status}
            await client.replace(resource, meta.name, whole, namespace, subresource="status")
            break
        except Conflict:
            created = await client.get(resource, meta.name, namespace)
            if tries == _TRIES or created.metadata.uid != meta.uid:
                raise
    own = (new.content["metadata"].get("annotations") or {}).get(EXECUTOR_SELECTOR)
    body = {"metadata": {"uid": meta.uid, "annotations": {EXECUTOR_SELECTOR: own}}}
    return await client.patch(resource, meta.name, MergePatch(body), namespace)


async def _find_resource(client: Client, content: Mapping[str, Any], key: str) -> DiscoveredResource:
    api_version, kind = str(content["apiVersion"]), str(content["kind"])
    found = await discover_kind(client, api_version, kind)
    if found is None:
        raise CannotRestore(
            f"{key}: found apiVersion and kind {api_version} {kind}, allowed: a version that the "
            "cluster serves; install its CRD, or convert the object to a served version"
        )
    return found


async def _existing_owners(client: Client, content: Content, namespace: str) -> frozenset[str]:
    """Return the UIDs of the owners that still exist."""
    found = set()
    for owner in owners_of(content):
        served = await discover_kind(client, owner.api_version, owner.kind)
        if served is None or not owner.name:
            continue
        try:
            present = await client.get(served.resource, owner.name, namespace or None)
        except NotFound:
            continue
        found.add(present.metadata.uid)
    return frozenset(found)
