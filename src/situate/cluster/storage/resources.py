"""Served resources: one `Resource` for each group, version and plural, and the catalog that finds them.

The built-in rows are in `situate.cluster.storage.builtin_resources`. CustomResourceDefinitions add theirs while the
server runs (`situate.cluster.kinds.custom_resources`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

Converter = Callable[[dict[str, Any]], dict[str, Any]]
"""Converts an object from one version to another; may change the object in place."""

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Origin(Enum):
    BUILT_IN = "built-in"
    CUSTOM = "custom"
    """From a CustomResourceDefinition."""
    REVIEW = "review"
    """Answered without storing an object, such as a SubjectAccessReview."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """A path below an object."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    """Group of the kind, if it differs from the resource's."""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource at one version."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    origin: Origin = Origin.BUILT_IN
    list_kind: str = ""
    stored_group: str = ""
    """Group under which objects are stored. Two groups can show the same objects, as both groups of Events do."""
    stored_version: str = ""
    selectable: tuple[str, ...] = ()
    """Fields besides metadata.name and metadata.namespace that a field selector may name."""
    from_stored: Converter | None = None
    """None if only the apiVersion differs."""
    to_stored: Converter | None = None
    definition: Mapping[str, Any] | None = field(default=None, compare=False)
    """The CustomResourceDefinition; None for built-in resources."""
    api_version: str = field(init=False)
    stored_api_version: str = field(init=False)
    id: str = field(init=False)
    """Plural and group, as upstream writes a GroupResource: `pods`, `deployments.apps`."""
    table: str = field(init=False)
    """The id of the resource that stores these objects."""

    def __post_init__(self) -> None:
        # every request reads these, so they are computed once
        set_once = partial(object.__setattr__, self)
        set_once("api_version", _api_version(self.group, self.version))
        set_once("stored_api_version", _api_version(self.stored_group, self.stored_version))
        set_once("id", f"{self.plural}.{self.group}" if self.group else self.plural)
        set_once("table", f"{self.plural}.{self.stored_group}" if self.stored_group else self.plural)

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource with that name."""
        for sub in self.subresources:
            if sub.name == name:
                return sub
        return None


def _api_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


class Catalog:
    """All served resources. `generation` grows with every change, so callers know when cached documents are stale."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.generation = 0
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        self._versions: dict[str, dict[str, None]] = {}
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve a resource from now on; it replaces one at the same path."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self._by_kind[resource.api_version, resource.kind] = resource
        self._versions.setdefault(resource.group, {})[resource.version] = None
        self.generation += 1

    def remove(self, resource: Resource) -> None:
        """Stop serving a resource."""
        del self._by_path[resource.group, resource.version, resource.plural]
        self._by_kind.pop((resource.api_version, resource.kind), None)
        if not any(key[:2] == (resource.group, resource.version) for key in self._by_path):
            del self._versions[resource.group][resource.version]
            if not self._versions[resource.group]:
                del self._versions[resource.group]
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource at a path."""
        return self._by_path.get((group, version, plural))

    def find_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of an object's apiVersion and kind."""
        return self._by_kind.get((api_version, kind))

    def groups(self) -> list[str]:
        """Return the served groups in the order in which they were added. The core group (empty) is first."""
        return list(self._versions)

    def versions(self, group: str) -> list[str]:
        """Return the served versions of a group, the preferred one first."""
        return list(self._versions.get(group, ()))

    def versions_of(self, group: str, plural: str) -> frozenset[str]:
        """Return the served versions of one resource."""
        return frozenset(key[1] for key in self._by_path if key[0] == group and key[2] == plural)

    def versions_by_priority(self, group: str, plural: str) -> list[str]:
        """Return the served versions of one resource, the preferred one first."""
        return [version for version in self.versions(group) if (group, version, plural) in self._by_path]

    def resources_of_version(self, group: str, version: str) -> list[Resource]:
        """Return the resources of one group and version, sorted by plural."""
        rows = [row for key, row in self._by_path.items() if key[:2] == (group, version)]
        return sorted(rows, key=lambda row: row.plural)

    def stored_resources(self) -> Iterator[Resource]:
        """Yield each stored resource once, at its preferred version."""
        seen: set[str] = set()
        for resource in self._by_path.values():
            if resource.origin is not Origin.REVIEW and resource.table == resource.id and resource.table not in seen:
                seen.add(resource.table)
                yield resource
