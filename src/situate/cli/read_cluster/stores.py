"""Fill the stores of a product's watches once, and read the Lease of its leader."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from situate.cli.terminal.failures import NotAllowed
from situate.cli.terminal.options import ClusterOptions
from situate.kube.client import Client
from situate.kube.errors import Forbidden, KubeError, NotFound
from situate.kube.watch.reflector import Reflector
from situate.objects.kinds.leases import Lease
from situate.objects.resources import LEASES


@dataclass(slots=True)
class ReadRemarks:
    """Sentences about input that cannot be read, and its consequences."""

    sentences: list[str] = field(default_factory=list)
    missing_permissions: list[str] = field(default_factory=list)
    """Sentences about resources without which nothing can be counted."""

    def raise_if_forbidden(self) -> None:
        if self.missing_permissions:
            raise NotAllowed("\n".join(self.missing_permissions))


async def fill_store(
    client: Client, reflector: Reflector[Any], remarks: ReadRemarks, required: Collection[str], absent: str
) -> None:
    """Fill the store of a reflector as its first list would.

    `required` are the resources without which nothing can be counted. A resource that is not served counts as empty.
    `absent` continues the sentence about it; empty: that is not reported.
    """
    scope = reflector.scope
    resource = scope.resource.group_resource
    try:
        page = await client.list_all(
            scope.resource, scope.namespace, label_selector=scope.label_selector, field_selector=scope.field_selector
        )
    except Forbidden as problem:
        needed = resource in required
        said = f"no permission to list {resource}{', so nothing can be counted' if needed else ''}: {problem}"
        (remarks.missing_permissions if needed else remarks.sentences).append(said)
        return
    except NotFound:
        if absent:
            remarks.sentences.append(f"the cluster does not serve {resource}{absent}")
        return
    remarks.sentences += [f"left out: {malformed}" for malformed in page.malformed]
    for each in page.items:
        reflector.store.put(each)


async def read_lease(
    client: Client, where: ClusterOptions, name: str, remarks: ReadRemarks, *, absent: str, unknown: str
) -> Lease | None:
    """Return the leader's Lease; None if it does not exist or may not be read.

    `absent` says that the cluster does not have it, and `unknown` what is unknown if the files do not have it.
    """
    try:
        return await client.get(LEASES, name, where.installation)
    except NotFound:
        said = f"the files have no Lease {where.installation}/{name}, so {unknown}" if where.objects else absent
        remarks.sentences.append(f"{said}; --installation-namespace selects another namespace")
    except KubeError as problem:
        remarks.sentences.append(f"the leader is not known: {problem}")
    return None
