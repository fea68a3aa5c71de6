"""Evaluate ValidatingAdmissionPolicies and their bindings: matching, parameters and actions.

After apiserver's pkg/admission/plugin/policy/generic and policy/validating. `cel.policies` evaluates the expressions.
Policies and bindings run in the order of their names; upstream's order is random.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from situate.cluster.admission.admission_review import review_request
from situate.cluster.admission.attributes import Attributes
from situate.cluster.admission.matching import MatchCriteria, Matcher
from situate.cluster.cel.policies import Violation, evaluate_policy
from situate.cluster.errors.field_errors import Refused
from situate.cluster.errors.refusals import RequestRefused, forbidden
from situate.cluster.read.negotiation import decode_whole
from situate.cluster.storage.resources import Catalog, Resource
from situate.cluster.storage.selection import object_selector
from situate.cluster.storage.store import Event, Store

_Map = Mapping[str, Any]

_POLICIES: Final = "validatingadmissionpolicies.admissionregistration.k8s.io"
_BINDINGS: Final = "validatingadmissionpolicybindings.admissionregistration.k8s.io"


class _UnconfiguredError(Exception):
    """An object that a policy or a binding refers to is unavailable; failurePolicy decides."""


@dataclass(frozen=True, slots=True)
class _Binding:
    name: str
    spec: _Map
    criteria: MatchCriteria | None
    """None: all writes that the policy matches."""


@dataclass(frozen=True, slots=True)
class _Policy:
    content: _Map
    criteria: MatchCriteria
    bindings: tuple[_Binding, ...]

    @property
    def name(self) -> str:
        return str(self.content["metadata"]["name"])

    @property
    def spec(self) -> _Map:
        spec: _Map = self.content["spec"]
        return spec


class Policies:
    """All validating policies of one store that have a binding."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self._store = store
        self._catalog = catalog
        self._matcher = Matcher(store, catalog.versions_of)
        self._compiled: list[_Policy] | None = None
        store.subscribe(self._observe)

    @property
    def configured(self) -> bool:
        """True if there are any."""
        return bool(self._compiled_policies())

    def validate(self, attributes: Attributes) -> None:
        """Evaluate all policies and raise `RequestRefused` with the first denial.

        Warnings are added to the attributes.
        """
        policies = self._compiled_policies()
        if not policies or attributes.resource.table in (_POLICIES, _BINDINGS):
            return
        denials = [denial for policy in policies for denial in self._violations(policy, attributes)]
        if denials:
            raise RequestRefused(_refusal(attributes, denials[0]))

    def _violations(self, policy: _Policy, attributes: Attributes) -> Iterator[Violation]:
        if not self._matches(policy.criteria, attributes):
            return
        strict = policy.spec.get("failurePolicy", "Fail") == "Fail"
        try:
            kind = self._parameter_resource(policy.spec)
        except _UnconfiguredError as problem:
            if strict:
                yield Violation(policy.name, "", f"failed to configure policy: {problem}", "Invalid")
            return
        variables = {
            "object": attributes.object,
            "oldObject": attributes.old,
            "request": review_request("", attributes),
            "namespaceObject": self._namespace(attributes),
        }
        for binding in policy.bindings:
            if binding.criteria is not None and not self._matches(binding.criteria, attributes):
                continue
            try:
                parameters = self._parameters(kind, binding.spec.get("paramRef"), attributes.namespace)
            except _UnconfiguredError as problem:
                if strict:
                    yield Violation(policy.name, binding.name, f"failed to configure binding: {problem}", "Invalid")
                continue
            actions = binding.spec.get("validationActions") or ()
            for parameter in parameters:
                for violation in evaluate_policy(policy.content, binding.name, {**variables, "params": parameter}):
                    if "Warn" in actions:
                        attributes.warnings.append(violation.warning())
                    if "Deny" in actions:
                        yield violation

    def _matches(self, criteria: MatchCriteria, attributes: Attributes) -> bool:
        return self._matcher.matches_selectors(criteria, attributes) and self._matcher.matches_rules(
            criteria, attributes
        )

    def _namespace(self, attributes: Attributes) -> _Map | None:
        found = self._store.get("namespaces", "", attributes.namespace) if attributes.namespace else None
        return None if found is None else found.object()

    def _parameter_resource(self, spec: _Map) -> Resource | None:
        kind = spec.get("paramKind")
        if kind is None:
            return None
        found = self._catalog.find_kind(kind["apiVersion"], kind["kind"])
        if found is None:
            shown = f"'{kind['apiVersion']}, Kind={kind['kind']}'"
            raise _UnconfiguredError(f"failed to find resource referenced by paramKind: {shown}")
        return found

    def _parameters(self, kind: Resource | None, reference: _Map | None, namespace: str) -> Sequence[_Map | None]:
        """Return the values for `params`; one None if the policy or the binding names no parameter."""
        if kind is None or reference is None:
            return (None,)
        place = ""
        if kind.namespaced:
            place = reference.get("namespace") or namespace
            if not place:
                raise _UnconfiguredError(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                )
        elif reference.get("namespace"):
            raise _UnconfiguredError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        if reference.get("name"):
            named = self._store.get(kind.table, place, reference["name"])
            found = [] if named is None else [named]
        else:
            test = object_selector(reference.get("selector"))
            found = [stored for stored in self._store.table(kind.table).sorted_objects(place) if test(stored.labels)]
        if not found and reference.get("parameterNotFoundAction") == "Deny":
            raise _UnconfiguredError("no params found for policy binding with `Deny` parameterNotFoundAction")
        return [decode_whole(kind, stored) for stored in found]

    def _compiled_policies(self) -> list[_Policy]:
        if self._compiled is None:
            bindings: dict[str, list[_Binding]] = {}
            for binding in (stored.object() for stored in self._store.table(_BINDINGS).sorted_objects()):
                spec = binding["spec"]
                scope = spec.get("matchResources")
                criteria = None if scope is None else MatchCriteria.compile(scope, scope.get("resourceRules") or None)
                made = _Binding(binding["metadata"]["name"], spec, criteria)
                bindings.setdefault(spec["policyName"], []).append(made)
            self._compiled = [
                _Policy(
                    whole,
                    MatchCriteria.compile(scope, scope["resourceRules"]),
                    tuple(bindings[whole["metadata"]["name"]]),
                )
                for whole in (stored.object() for stored in self._store.table(_POLICIES).sorted_objects())
                if whole["metadata"]["name"] in bindings
                for scope in (whole["spec"]["matchConstraints"],)
            ]
        return self._compiled

    def _observe(self, event: Event) -> None:
        if event.resource in (_POLICIES, _BINDINGS):
            self._compiled = None


def _refusal(attributes: Attributes, denial: Violation) -> Refused:
    """Return a refusal with the code and reason of the policy."""
    metadata = (attributes.object or {}).get("metadata", {})
    name = attributes.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
    text = denial.denial()
    refused = forbidden(attributes.resource, name, text)
    details = {**refused.details, "causes": [{"message": text}]}
    return Refused(denial.code, denial.reason, refused.message, details)
