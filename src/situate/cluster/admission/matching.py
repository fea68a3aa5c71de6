"""Match writes with webhooks and policies: rules by resource, and selectors of namespaces and objects.

After apiserver's pkg/admission/plugin/webhook/predicates and policy/matching.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from situate.cluster.admission.attributes import Attributes
from situate.cluster.storage.selection import LabelTest, object_selector
from situate.cluster.storage.store import Store


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of `rules`, `resourceRules` or `excludeResourceRules`."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[tuple[str, str]]
    """Plural and subresource; `*` for any."""
    scope: str
    names: frozenset[str]
    """Names of the objects; empty for any."""

    def matches(self, attributes: Attributes, versions: frozenset[str]) -> bool:
        """Return whether the rule covers the write. `versions` are the versions in which the resource can be shown."""
        resource = attributes.resource
        if "*" not in self.operations and attributes.operation not in self.operations:
            return False
        if "*" not in self.groups and resource.group not in self.groups:
            return False
        if "*" not in self.versions and not (versions & self.versions):
            return False
        if self.scope == "Namespaced" and not resource.namespaced:
            return False
        if self.scope == "Cluster" and resource.namespaced:
            return False
        if self.names and attributes.name not in self.names:
            return False
        sub = attributes.subresource
        return bool({(resource.plural, sub), (resource.plural, "*"), ("*", sub), ("*", "*")} & self.resources)


@dataclass(frozen=True, slots=True)
class MatchCriteria:
    """Match criteria of a webhook, a policy or a binding."""

    rules: tuple[Rule, ...] | None
    """None: any resource."""
    excluded: tuple[Rule, ...]
    namespaces: LabelTest | None
    """None: any namespace."""
    objects: LabelTest | None
    equivalent: bool
    """True if other versions of a resource in a rule match as well (matchPolicy)."""

    @staticmethod
    def compile(given: Mapping[str, Any], rules: Sequence[Mapping[str, Any]] | None) -> MatchCriteria:
        """Compile the criteria of a webhook, of matchConstraints or of matchResources."""
        namespaces, objects = given.get("namespaceSelector"), given.get("objectSelector")
        return MatchCriteria(
            rules=None if rules is None else tuple(map(_compile_rule, rules)),
            excluded=tuple(map(_compile_rule, given.get("excludeResourceRules") or ())),
            namespaces=object_selector(namespaces) if namespaces else None,
            objects=object_selector(objects) if objects else None,
            equivalent=given.get("matchPolicy", "Equivalent") == "Equivalent",
        )


class Matcher:
    """Matcher of criteria and writes for one store."""

    def __init__(self, store: Store, versions_of: Callable[[str, str], frozenset[str]]) -> None:
        """Remember the store. `versions_of` returns the served versions of a group's plural."""
        self._store = store
        self._versions_of = versions_of

    def matches_rules(self, criteria: MatchCriteria, attributes: Attributes) -> bool:
        """Return whether a rule covers the write and none excludes it."""
        resource = attributes.resource
        versions = frozenset((resource.version,))
        if criteria.equivalent:
            versions |= self._versions_of(resource.group, resource.plural)
        if any(rule.matches(attributes, versions) for rule in criteria.excluded):
            return False
        return criteria.rules is None or any(rule.matches(attributes, versions) for rule in criteria.rules)

    def matches_selectors(self, criteria: MatchCriteria, attributes: Attributes) -> bool:
        """Return whether the selectors match namespace and object.

        For an update, either the old or the new object suffices.
        """
        if criteria.namespaces is not None and not self._matches_namespace(criteria.namespaces, attributes):
            return False
        return criteria.objects is None or (
            _labels_match(criteria.objects, attributes.object) or _labels_match(criteria.objects, attributes.old)
        )

    def _matches_namespace(self, test: LabelTest, attributes: Attributes) -> bool:
        about_namespace = attributes.resource.table == "namespaces"
        if not attributes.namespace and not about_namespace:
            return True
        if about_namespace and not attributes.subresource and attributes.object is not None:
            return test(attributes.object["metadata"].get("labels") or {})
        found = self._store.get("namespaces", "", attributes.namespace or attributes.name)
        return found is not None and test(found.labels)


def _labels_match(test: LabelTest, obj: Mapping[str, Any] | None) -> bool:
    return obj is not None and test(obj["metadata"].get("labels") or {})


def _compile_rule(rule: Mapping[str, Any]) -> Rule:
    pairs = [name.partition("/") for name in rule.get("resources") or ()]
    return Rule(
        operations=frozenset(rule.get("operations") or ()),
        groups=frozenset(rule.get("apiGroups") or ()),
        versions=frozenset(rule.get("apiVersions") or ()),
        resources=frozenset((plural, sub) for plural, _, sub in pairs),
        scope=rule.get("scope") or "*",
        names=frozenset(rule.get("resourceNames") or ()),
    )
