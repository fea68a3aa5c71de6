"""Policy that applies to a workload, and whether the workload takes part.

The most specific setting applies. For participation: the pod's label, the workload's annotation, the namespace's label,
the mode of the configuration. For the number: the workload's annotation, the namespace's annotation, the first matching
entry of the configuration, the default. Invalid values are reported, and the workload's last valid value stays in
force. Rules: P11, B43, B46 and "Keys" in docs/spec/spot.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from situate.objects.selection.label_selectors import Selector
from situate.objects.settings.section import format_value
from situate.spot.model.pods_nodes_workloads import MIX, ON_DEMAND, PREFIX, Owner, no_labels
from situate.spot.workloads.on_demand_policy import (
    STRATEGIES,
    AllOnDemand,
    BadPolicy,
    Count,
    Default,
    LeastAndShare,
    Policy,
    on_demand_target,
    parse_percent,
    parse_policy,
)

SWITCH: Final[Mapping[str, bool]] = {"enabled": True, "disabled": False}
_VACANT: Final = "vacant.sh/optimize-scheduling"
_VACANT_STRATEGY: Final = "vacant.sh/optimize-scheduling-strategy"
_VACANT_NUMBER: Final = "vacant.sh/optimize-scheduling-strategy-custom-on-demand"
_SPOTALIS_LEAST: Final = "spotalis.io/min-on-demand"
_SPOTALIS_SHARE: Final = "spotalis.io/spot-percentage"
_ANNOTATION: Final = "annotation "
LAST_VALID: Final = "the last valid value"
NONE_VALID: Final = "no valid value is known"
"""Sources of a target whose value cannot be read."""
IMPORT_KEYS: Final = frozenset((_VACANT, _VACANT_STRATEGY, _VACANT_NUMBER, _SPOTALIS_LEAST, _SPOTALIS_SHARE))


@dataclass(frozen=True, slots=True)
class Namespace:
    """The name, labels and annotations of a namespace."""

    name: str
    labels: Mapping[str, str] = field(default_factory=no_labels)
    annotations: Mapping[str, str] = field(default_factory=no_labels)


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """An entry of the configuration's list: the policy of workloads selected by labels."""

    namespaces: Selector
    workloads: Selector
    policy: Policy


@dataclass(frozen=True, slots=True)
class TargetRules:
    """Settings of targets from the configuration."""

    mode: bool = True
    """Whether workloads without a setting of their own take part."""
    policies: tuple[PolicyRule, ...] = ()
    """The first matching entry applies."""
    safe_deployments: bool = False
    import_keys: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """An invalid value on an object."""

    object: str
    field: str
    message: str
    """The value found and the values allowed."""

    def __str__(self) -> str:
        return f"{self.object}: {self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class Target:
    """The number of pods of a workload that must be on demand, and its source."""

    on_demand: int
    replicas: int
    policy: Policy
    source: str
    """Location of the policy, such as `annotation spot.situate.dev/on-demand of the Deployment`."""
    faults: tuple[Fault, ...] = ()
    """Values that were ignored."""
    annotated: bool = False
    """Whether an annotation of the workload or its namespace gives the policy."""
    unreadable: bool = False
    """Whether the value is unreadable and no valid one is known: new pods are on demand, and none moves."""

    @property
    def spot(self) -> int:
        return self.replicas - self.on_demand


@dataclass(frozen=True, slots=True)
class Participation:
    """Whether spot classifies a workload's pods, and the setting that decides it."""

    enabled: bool
    source: str
    faults: tuple[Fault, ...] = ()


def participation(
    owner: Owner, namespace: Namespace, rules: TargetRules, pod_labels: Mapping[str, str] | None = None
) -> Participation:
    """Return the participation. `pod_labels` are those of one pod; without them the template's labels apply."""
    labels = owner.template_labels if pod_labels is None else pod_labels
    imported = owner.annotations.get(_VACANT) if rules.import_keys else None
    said = (
        ("pod", f"label {MIX} of the pod", labels.get(MIX), SWITCH),
        (str(owner), f"annotation {MIX} of the {owner.kind}", owner.annotations.get(MIX), SWITCH),
        (str(owner), f"annotation {_VACANT} of the {owner.kind}", imported, {"true": True, "false": False}),
        (f"Namespace {namespace.name}", f"label {MIX} of the namespace", namespace.labels.get(MIX), SWITCH),
    )
    faults: list[Fault] = []
    for thing, source, value, words in said:
        if value is None:
            continue
        if value in words:
            return Participation(words[value], source, tuple(faults))
        faults.append(Fault(thing, source, f"found {format_value(value)}, allowed: {' or '.join(words)}"))
    return Participation(rules.mode, "mode of the configuration", tuple(faults))


def resolve_target(owner: Owner, namespace: Namespace, rules: TargetRules, last: Policy | None = None) -> Target:
    """Return the target of a workload. `last` is its last valid policy, used while the current one cannot be read.

    Without a last valid policy all pods must be on demand: an unreadable value never means the default.
    """
    faults: list[Fault] = []
    said = _policy_and_source(owner, namespace, rules, faults)
    annotated = said is not None and said[1].startswith(_ANNOTATION)
    policy, source = said or ((last, LAST_VALID) if last is not None else (AllOnDemand(), NONE_VALID))
    number = on_demand_target(policy, owner.replicas, stateful=owner.stateful, safe_deployments=rules.safe_deployments)
    unreadable = said is None and last is None
    return Target(number, max(0, owner.replicas), policy, source, tuple(faults), annotated, unreadable)


def stricter_policy(one: Policy | None, other: Policy | None, owner: Owner, rules: TargetRules) -> Policy | None:
    """Return the policy that requires more on-demand pods: the first if equal, the other one if one is None."""
    if one is None or other is None:
        return one if other is None else other

    def asked(policy: Policy) -> int:
        return on_demand_target(
            policy, owner.replicas, stateful=owner.stateful, safe_deployments=rules.safe_deployments
        )

    return one if asked(one) >= asked(other) else other


def _policy_and_source(
    owner: Owner, namespace: Namespace, rules: TargetRules, faults: list[Fault]
) -> tuple[Policy, str] | None:
    """Return the policy and its source; None if the deciding value cannot be read."""
    places: list[tuple[str, str, Mapping[str, str]]] = [
        (str(owner), f"of the {owner.kind}", owner.annotations),
        (f"Namespace {namespace.name}", "of the namespace", namespace.annotations),
    ]
    for number, (thing, whose, given) in enumerate(places):
        value = given.get(ON_DEMAND)
        if value is not None:
            source = f"{_ANNOTATION}{ON_DEMAND} {whose}"
            try:
                return parse_policy(value), source
            except BadPolicy as problem:
                faults.append(Fault(thing, ON_DEMAND, str(problem)))
                return None
        if number == 0 and rules.import_keys:
            imported = _imported_policy(thing, given, faults)
            if imported is not None:
                return imported
            if faults:
                return None
    for number, rule in enumerate(rules.policies):
        if rule.namespaces.matches(namespace.labels) and rule.workloads.matches(owner.labels):
            return rule.policy, f"policies[{number}] of the configuration"
    return Default(), "the default"


def _imported_policy(thing: str, annotations: Mapping[str, str], faults: list[Fault]) -> tuple[Policy, str] | None:
    """Return the policy from annotations of other tools."""
    strategy = annotations.get(_VACANT_STRATEGY)
    if strategy is not None:
        key, value = (
            (_VACANT_NUMBER, annotations.get(_VACANT_NUMBER, ""))
            if strategy == "custom"
            else (
                _VACANT_STRATEGY,
                strategy,
            )
        )
        known = strategy == "custom" or strategy in STRATEGIES
        try:
            if not known:
                raise BadPolicy(strategy)
            return parse_policy(value), f"{_ANNOTATION}{key}"
        except BadPolicy as problem:
            faults.append(Fault(thing, key, str(problem)))
            return None
    if _SPOTALIS_LEAST in annotations or _SPOTALIS_SHARE in annotations:
        return _spotalis_policy(thing, annotations, faults)
    return None


def _spotalis_policy(thing: str, annotations: Mapping[str, str], faults: list[Fault]) -> tuple[Policy, str] | None:
    least, share = annotations.get(_SPOTALIS_LEAST, "0"), annotations.get(_SPOTALIS_SHARE, "0")
    key = _SPOTALIS_LEAST
    try:
        count = parse_policy(least)
        if not isinstance(count, Count):
            raise BadPolicy(least, "this annotation allows only a number of pods")
        key = _SPOTALIS_SHARE
        digits = share.removesuffix("%")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= 18):
            raise BadPolicy(share, "this annotation allows only a percentage")
        return LeastAndShare(count.pods, parse_percent(share, digits)), f"{_ANNOTATION}{key}"
    except BadPolicy as problem:
        faults.append(Fault(thing, key, str(problem)))
        return None


def is_target_unchanged(before: Target | None, after: Target) -> bool:
    """Return whether a change has no effect: results are compared, not texts."""
    return before is not None and (before.on_demand, before.replicas) == (after.on_demand, after.replicas)


def known_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations of a workload or namespace that spot reads."""
    return {key: value for key, value in annotations.items() if key.startswith(PREFIX) or key in IMPORT_KEYS}
