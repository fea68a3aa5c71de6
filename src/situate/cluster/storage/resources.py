"""What is served: one `Resource` for each group, version and plural, and the catalog that finds them.

The built-in rows are in `situate.cluster.storage.builtin_resources`; CustomResourceDefinitions add theirs while the
server runs (`situate.cluster.kinds.custom_resources`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

Converter = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns an object of one version into another's; may change what it is given."""

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Origin(Enum):
    BUILT_IN = "built-in"
    CUSTOM = "custom"
    """From a CustomResourceDefinition."""
    REVIEW = "review"
    """Answered at once and never stored, such as a SubjectAccessReview."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """A path below an object."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    """Of the kind, where it differs from the resource's."""
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
    """The group it is stored under: two groups may show the same objects, as those of Events do."""
    stored_version: str = ""
    selectable: tuple[str, ...] = ()
    """Fields besides metadata.name and metadata.namespace that a field selector may name."""
    from_stored: Converter | None = None
    """None: only the apiVersion differs."""
    to_stored: Converter | None = None
    definition: Mapping[str, Any] | None = field(default=None, compare=False)
    """The CustomResourceDefinition; None for built-in resources."""
    api_version: str = field(init=False)
    stored_api_version: str = field(init=False)
    id: str = field(init=False)
    """Plural and group, as upstream writes a GroupResource: `pods`, `deployments.apps`."""
    table: str = field(init=False)
    """The id of the resource whose objects these are."""

    def __post_init__(self) -> None:
        # every request asks for these, so they are not put together each time
        set_once = partial(object.__setattr__, self)
        set_once("api_version", _joined(self.group, self.version))
        set_once("stored_api_version", _joined(self.stored_group, self.stored_version))
        set_once("id", f"{self.plural}.{self.group}" if self.group else self.plural)
        set_once("table", f"{self.plural}.{self.stored_group}" if self.stored_group else self.plural)

    def subresource(self, name: str) -> Subresource | None:
        """The subresource of that name."""
        for sub in self.subresources:
            if sub.name == name:
                return sub
        return None


def _joined(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


class Catalog:
    """All served resources. `generation` changes with each change, so that documents can be kept until then."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.generation = 0
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        self._versions: dict[str, dict[str, None]] = {}
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serves a resource from now on, in place of one at the same path."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self._by_kind[resource.api_version, resource.kind] = resource
        self._versions.setdefault(resource.group, {})[resource.version] = None
        self.generation += 1

    def remove(self, resource: Resource) -> None:
        """Stops serving it."""
        del self._by_path[resource.group, resource.version, resource.plural]
        self._by_kind.pop((resource.api_version, resource.kind), None)
        if not any(key[:2] == (resource.group, resource.version) for key in self._by_path):
            del self._versions[resource.group][resource.version]
            if not self._versions[resource.group]:
                del self._versions[resource.group]
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource at a path."""
        return self._by_path.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of an object's apiVersion and kind."""
        return self._by_kind.get((api_version, kind))

    def groups(self) -> list[str]:
        """The served groups, the core group (empty) first, in the order in which they were added."""
        return list(self._versions)

    def versions(self, group: str) -> list[str]:
        """The served versions of a group, the preferred one first."""
        return list(self._versions.get(group, ()))

    def versions_of(self, group: str, plural: str) -> frozenset[str]:
        """The served versions of one resource."""
        return frozenset(key[1] for key in self._by_path if key[0] == group and key[2] == plural)

    def versions_by_priority(self, group: str, plural: str) -> list[str]:
        """The served versions of one resource, the preferred one first."""
        return [version for version in self.versions(group) if (group, version, plural) in self._by_path]

    def of(self, group: str, version: str) -> list[Resource]:
        """The resources of one group and version, by plural."""
        rows = [row for key, row in self._by_path.items() if key[:2] == (group, version)]
        return sorted(rows, key=lambda row: row.plural)

    def stored(self) -> Iterator[Resource]:
        """Each stored resource once, at its preferred version."""
        seen: set[str] = set()
        for resource in self._by_path.values():
            if resource.origin is not Origin.REVIEW and resource.table == resource.id and resource.table not in seen:
                seen.add(resource.table)
                yield resource
