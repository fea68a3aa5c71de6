"""The configured webhooks, compiled once per change, and whether a write concerns one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from situate.cluster.admission.attributes import Attributes
from situate.cluster.admission.conditions import Conditions
from situate.cluster.admission.reviewed import review_request
from situate.cluster.selection import LabelTest, object_selector
from situate.cluster.store import Event, Store

_DEFAULT_TIMEOUT_S: Final = 10

_UNHOOKED: Final = frozenset(
    {
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "mutatingadmissionpolicies.admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        "tokenreviews.authentication.k8s.io",
        "selfsubjectreviews.authentication.k8s.io",
        "subjectaccessreviews.authorization.k8s.io",
        "selfsubjectaccessreviews.authorization.k8s.io",
        "selfsubjectrulesreviews.authorization.k8s.io",
        "localsubjectaccessreviews.authorization.k8s.io",
    }
)
"""What no webhook is asked about, lest it locks itself out."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Which writes a webhook is about."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[tuple[str, str]]
    """Plural and subresource; `*` for any."""
    scope: str

    def matches(self, attributes: Attributes, versions: frozenset[str]) -> bool:
        """`versions` are those in which the resource could be shown."""
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
        sub = attributes.subresource
        return bool({(resource.plural, sub), (resource.plural, "*"), ("*", sub), ("*", "*")} & self.resources)


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of one configuration."""

    id: str
    """Configuration, number and name."""
    name: str
    client_config: Mapping[str, Any]
    rules: tuple[Rule, ...]
    namespaces: LabelTest | None
    """None: namespaces do not matter."""
    objects: LabelTest | None
    conditions: Conditions | None
    ignores_failure: bool
    timeout_s: float
    side_effects: str
    reinvoked: bool
    equivalent: bool
    """Whether other versions of a resource that a rule names count as well (matchPolicy)."""


class Hooks:
    """The webhooks of one kind of configuration, in the order in which they are asked."""

    def __init__(self, store: Store, versions_of: Callable[[str, str], frozenset[str]], table: str) -> None:
        """`versions_of` gives the served versions of a group's plural."""
        self._store = store
        self._versions_of = versions_of
        self._table = table
        self._compiled: list[Hook] | None = None
        store.subscribe(self._observe)

    @property
    def configured(self) -> bool:
        """Whether there are any."""
        return bool(self._hooks())

    def interested(self, attributes: Attributes) -> list[Hook]:
        """Webhooks with a rule for the write; selectors and conditions are not yet looked at."""
        hooks = self._hooks()
        if not hooks or attributes.resource.id in _UNHOOKED:
            return []
        own = frozenset((attributes.resource.version,))
        served = self._versions_of(attributes.resource.group, attributes.resource.plural)
        return [
            hook
            for hook in hooks
            if any(rule.matches(attributes, served if hook.equivalent else own) for rule in hook.rules)
        ]

    def matches(self, hook: Hook, attributes: Attributes) -> bool:
        """Whether namespace, object and conditions are those that the webhook asks for."""
        if hook.namespaces is not None and not self._in_namespace(hook.namespaces, attributes):
            return False
        if hook.objects is not None and not (
            _labels_match(hook.objects, attributes.object) or _labels_match(hook.objects, attributes.old)
        ):
            return False
        return hook.conditions is None or hook.conditions.hold(attributes, review_request("", attributes))

    def _in_namespace(self, test: LabelTest, attributes: Attributes) -> bool:
        about_namespace = attributes.resource.table == "namespaces"
        if not attributes.namespace and not about_namespace:
            return True
        if about_namespace and not attributes.subresource and attributes.object is not None:
            return test(attributes.object["metadata"].get("labels") or {})
        found = self._store.get("namespaces", "", attributes.namespace or attributes.name)
        return found is not None and test(found.labels)

    def _hooks(self) -> list[Hook]:
        if self._compiled is None:
            self._compiled = [
                _hook(configuration["metadata"]["name"], number, webhook)
                for configuration in (stored.object() for stored in self._store.table(self._table).ordered())
                for number, webhook in enumerate(configuration.get("webhooks") or ())
            ]
        return self._compiled

    def _observe(self, event: Event) -> None:
        if event.resource == self._table:
            self._compiled = None


def _labels_match(test: LabelTest, obj: Mapping[str, Any] | None) -> bool:
    return obj is not None and test(obj["metadata"].get("labels") or {})


def _hook(configuration: str, number: int, webhook: Mapping[str, Any]) -> Hook:
    namespaces, objects = webhook.get("namespaceSelector"), webhook.get("objectSelector")
    conditions = webhook.get("matchConditions")
    ignores = webhook.get("failurePolicy", "Fail") == "Ignore"
    return Hook(
        id=f"{configuration}/{number}/{webhook['name']}",
        name=webhook["name"],
        client_config=webhook.get("clientConfig") or {},
        rules=tuple(_rule(rule) for rule in webhook.get("rules") or ()),
        namespaces=object_selector(namespaces) if namespaces else None,
        objects=object_selector(objects) if objects else None,
        conditions=Conditions.of(conditions, fails_closed=not ignores) if conditions else None,
        ignores_failure=ignores,
        timeout_s=float(webhook.get("timeoutSeconds") or _DEFAULT_TIMEOUT_S),
        side_effects=webhook.get("sideEffects", ""),
        reinvoked=webhook.get("reinvocationPolicy") == "IfNeeded",
        equivalent=webhook.get("matchPolicy", "Equivalent") == "Equivalent",
    )


def _rule(rule: Mapping[str, Any]) -> Rule:
    pairs = [name.partition("/") for name in rule.get("resources") or ()]
    return Rule(
        operations=frozenset(rule.get("operations") or ()),
        groups=frozenset(rule.get("apiGroups") or ()),
        versions=frozenset(rule.get("apiVersions") or ()),
        resources=frozenset((plural, sub) for plural, _, sub in pairs),
        scope=rule.get("scope") or "*",
    )
