"""Compile the configured webhooks once per change, and select those that match a write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from situate.cluster.admission.admission_review import review_request
from situate.cluster.admission.attributes import Attributes
from situate.cluster.admission.conditions import MatchConditions
from situate.cluster.admission.matching import MatchCriteria, Matcher
from situate.cluster.storage.store import Event, Store

_DEFAULT_TIMEOUT_S: Final = 10

_EXEMPT_RESOURCES: Final = frozenset(
    {
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
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
"""Resources for which no webhook is called, so that a webhook cannot block its own removal."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of one configuration."""

    id: str
    """Configuration, number and name."""
    name: str
    client_config: Mapping[str, Any]
    criteria: MatchCriteria
    conditions: MatchConditions | None
    ignores_failure: bool
    timeout_s: float
    side_effects: str
    reinvoked: bool


class Hooks:
    """The webhooks of one kind of configuration, in calling order."""

    def __init__(self, store: Store, versions_of: Callable[[str, str], frozenset[str]], table: str) -> None:
        """Subscribe to the store. `versions_of` returns the served versions of a group's plural."""
        self._store = store
        self._matcher = Matcher(store, versions_of)
        self._table = table
        self._compiled: list[Hook] | None = None
        store.subscribe(self._observe)

    @property
    def configured(self) -> bool:
        """True if any webhook is configured."""
        return bool(self._compiled_hooks())

    def hooks_with_rule(self, attributes: Attributes) -> list[Hook]:
        """Return the webhooks with a rule for the write. Selectors and conditions are not evaluated yet."""
        hooks = self._compiled_hooks()
        if not hooks or attributes.resource.id in _EXEMPT_RESOURCES:
            return []
        return [hook for hook in hooks if self._matcher.matches_rules(hook.criteria, attributes)]

    def matches(self, hook: Hook, attributes: Attributes) -> bool:
        """Return whether the webhook's selectors and conditions match the write."""
        if not self._matcher.matches_selectors(hook.criteria, attributes):
            return False
        return hook.conditions is None or hook.conditions.are_met(attributes, review_request("", attributes))

    def _compiled_hooks(self) -> list[Hook]:
        if self._compiled is None:
            self._compiled = [
                _compile_hook(configuration["metadata"]["name"], number, webhook)
                for configuration in (stored.object() for stored in self._store.table(self._table).sorted_objects())
                for number, webhook in enumerate(configuration.get("webhooks") or ())
            ]
        return self._compiled

    def _observe(self, event: Event) -> None:
        if event.resource == self._table:
            self._compiled = None


def _compile_hook(configuration: str, number: int, webhook: Mapping[str, Any]) -> Hook:
    conditions = webhook.get("matchConditions")
    ignores = webhook.get("failurePolicy", "Fail") == "Ignore"
    return Hook(
        id=f"{configuration}/{number}/{webhook['name']}",
        name=webhook["name"],
        client_config=webhook.get("clientConfig") or {},
        criteria=MatchCriteria.compile(webhook, webhook.get("rules") or ()),
        conditions=MatchConditions.compile(conditions, fails_closed=not ignores) if conditions else None,
        ignores_failure=ignores,
        timeout_s=float(webhook.get("timeoutSeconds") or _DEFAULT_TIMEOUT_S),
        side_effects=webhook.get("sideEffects", ""),
        reinvoked=webhook.get("reinvocationPolicy") == "IfNeeded",
    )
