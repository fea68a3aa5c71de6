"""Which policy holds for a workload, and whether it takes part at all (3.1 of the reference, P11, B43, B46).

The most specific says: for taking part the pod's label, the workload's annotation, the namespace's label, the mode of
the configuration; for the number the workload's annotation, the namespace's, the first entry of the configuration that
matches, the default. What is written wrong is named, and the last valid value of the workload stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from situate.objects.selection.label_selectors import Selector
from situate.objects.settings.section import shown
from situate.spot.model.pods_nodes_workloads import MIX, ON_DEMAND, PREFIX, Owner, no_labels
from situate.spot.workloads.on_demand_policy import (
    STRATEGIES,
    AllOnDemand,
    BadPolicy,
    Count,
    Default,
    LeastAndShare,
    Policy,
    parse_percent,
    parse_policy,
    target,
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
    """What is read of a namespace."""

    name: str
    labels: Mapping[str, str] = field(default_factory=no_labels)
    annotations: Mapping[str, str] = field(default_factory=no_labels)


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """An entry of the configuration's list: the policy of workloads chosen by labels."""

    namespaces: Selector
    workloads: Selector
    policy: Policy


@dataclass(frozen=True, slots=True)
class Rules:
    """What the configuration says of targets."""

    mode: bool = True
    """Whether workloads take part that say nothing."""
    policies: tuple[PolicyRule, ...] = ()
    """The first that matches holds."""
    safe_deployments: bool = False
    import_keys: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """Something written wrong on an object."""

    object: str
    field: str
    message: str
    """What was found and what is allowed."""

    def __str__(self) -> str:
        return f"{self.object}: {self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class Target:
    """How many pods of a workload must be on demand, and who says so."""

    on_demand: int
    replicas: int
    policy: Policy
    source: str
    """Where the policy stands: such as `annotation spot.situate.dev/on-demand of the Deployment`."""
    faults: tuple[Fault, ...] = ()
    """Values that were passed over."""
    annotated: bool = False
    """Whether an annotation of the workload or its namespace says so."""
    unreadable: bool = False
    """Whether the value cannot be read and no valid one is known: new pods are on demand, and none is moved."""

    @property
    def spot(self) -> int:
        return self.replicas - self.on_demand


@dataclass(frozen=True, slots=True)
class Participation:
    """Whether a workload's pods are ours to class, and who says so."""

    enabled: bool
    source: str
    faults: tuple[Fault, ...] = ()


def participation(
    owner: Owner, namespace: Namespace, rules: Rules, pod_labels: Mapping[str, str] | None = None
) -> Participation:
    """`pod_labels` are those of one pod; without them the template's stand for all."""
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
        faults.append(Fault(thing, source, f"found {shown(value)}, allowed: {' or '.join(words)}"))
    return Participation(rules.mode, "mode of the configuration", tuple(faults))


def resolved(owner: Owner, namespace: Namespace, rules: Rules, last: Policy | None = None) -> Target:
    """The target of a workload. `last` is its last valid policy: it stays where the present one cannot be read.

    Without one all pods are asked for on demand: a value that cannot be read never means the default.
    """
    faults: list[Fault] = []
    said = _said(owner, namespace, rules, faults)
    annotated = said is not None and said[1].startswith(_ANNOTATION)
    policy, source = said or ((last, LAST_VALID) if last is not None else (AllOnDemand(), NONE_VALID))
    number = target(policy, owner.replicas, stateful=owner.stateful, safe_deployments=rules.safe_deployments)
    unreadable = said is None and last is None
    return Target(number, max(0, owner.replicas), policy, source, tuple(faults), annotated, unreadable)


def stricter(one: Policy | None, other: Policy | None, owner: Owner, rules: Rules) -> Policy | None:
    """The policy that asks for more pods on demand; the first of equals, and the one that is known."""
    if one is None or other is None:
        return one if other is None else other

    def asked(policy: Policy) -> int:
        return target(policy, owner.replicas, stateful=owner.stateful, safe_deployments=rules.safe_deployments)

    return one if asked(one) >= asked(other) else other


def _said(owner: Owner, namespace: Namespace, rules: Rules, faults: list[Fault]) -> tuple[Policy, str] | None:
    """The policy and its source; None where the value that decides cannot be read."""
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
            imported = _imported(thing, given, faults)
            if imported is not None:
                return imported
            if faults:
                return None
    for number, rule in enumerate(rules.policies):
        if rule.namespaces.matches(namespace.labels) and rule.workloads.matches(owner.labels):
            return rule.policy, f"policies[{number}] of the configuration"
    return Default(), "the default"


def _imported(thing: str, annotations: Mapping[str, str], faults: list[Fault]) -> tuple[Policy, str] | None:
    """What the annotations of other tools say (B43)."""
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
        return _spotalis(thing, annotations, faults)
    return None


def _spotalis(thing: str, annotations: Mapping[str, str], faults: list[Fault]) -> tuple[Policy, str] | None:
    least, share = annotations.get(_SPOTALIS_LEAST, "0"), annotations.get(_SPOTALIS_SHARE, "0")
    key = _SPOTALIS_LEAST
    try:
        count = parse_policy(least)
        if not isinstance(count, Count):
            raise BadPolicy(least, "a number of pods here")
        key = _SPOTALIS_SHARE
        digits = share.removesuffix("%")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= 18):
            raise BadPolicy(share, "a percentage here")
        return LeastAndShare(count.pods, parse_percent(share, digits)), f"{_ANNOTATION}{key}"
    except BadPolicy as problem:
        faults.append(Fault(thing, key, str(problem)))
        return None


def unchanged(before: Target | None, after: Target) -> bool:
    """Whether nothing follows from a change: results are compared, not texts (P11)."""
    return before is not None and (before.on_demand, before.replicas) == (after.on_demand, after.replicas)


def known_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Those of a workload or namespace that anything here reads."""
    return {key: value for key, value in annotations.items() if key.startswith(PREFIX) or key in IMPORT_KEYS}
