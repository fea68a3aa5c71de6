"""Compiled Pod affinity terms and topology spread constraints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from situate.objects.kinds.pods import PodAffinityTerm, TopologySpreadConstraint, WeightedPodAffinityTerm
from situate.objects.selection.label_selectors import NOTHING, Requirement, Selector, selector_of

NamespaceLabels = Callable[[str], Mapping[str, str]]
"""Returns the labels of a namespace; empty for an unknown namespace."""


@dataclass(frozen=True, slots=True)
class PodSelection:
    """A selection of Pods by namespace and labels."""

    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector = NOTHING
    """Selects namespaces by label, in addition to the named ones."""

    def selects(self, namespace: str, labels: Mapping[str, str], namespace_labels: NamespaceLabels) -> bool:
        """Return whether the Pod is selected."""
        return self.covers(namespace, namespace_labels) and self.selector.matches(labels)

    def covers(self, namespace: str, namespace_labels: NamespaceLabels) -> bool:
        """Return whether Pods of this namespace can be selected."""
        if namespace in self.namespaces:
            return True
        chosen = self.namespace_selector
        return not chosen.nothing and chosen.matches(namespace_labels(namespace))


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A Pod affinity or anti-affinity term. The owner's namespace is already in `pods`."""

    topology_key: str
    pods: PodSelection
    weight: int = 0
    """0 for a required term."""


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A topology spread constraint, completed with the labels of its owner."""

    max_skew: int
    topology_key: str
    hard: bool
    selector: Selector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool
    implied: bool = False
    """Whether this is one of the profile's defaults: nodes without the key are then not ignored."""


def affinity_term(wire: PodAffinityTerm, owner_namespace: str, path: str, weight: int = 0) -> AffinityTerm:
    """Compile a term; `BadSelector` names the field below `path`.

    Admission has already merged `matchLabelKeys` into the selector (KEP-3633).
    """
    named = frozenset(wire.namespaces)
    if not named and wire.namespace_selector is None:
        named = frozenset((owner_namespace,))
    pods = PodSelection(
        selector_of(wire.label_selector, f"{path}.labelSelector"),
        named,
        selector_of(wire.namespace_selector, f"{path}.namespaceSelector"),
    )
    return AffinityTerm(wire.topology_key, pods, weight)


def weighted_term(wire: WeightedPodAffinityTerm, owner_namespace: str, path: str) -> AffinityTerm:
    """Compile a weighted term; `BadSelector` names the field below `path`."""
    return affinity_term(wire.pod_affinity_term, owner_namespace, f"{path}.podAffinityTerm", wire.weight)


def spread_constraint(wire: TopologySpreadConstraint, labels: Mapping[str, str], path: str) -> SpreadConstraint:
    """Compile a constraint. `labels` are the Pod's labels, for `matchLabelKeys` (KEP-3243)."""
    selector = selector_of(wire.label_selector, f"{path}.labelSelector")
    return SpreadConstraint(
        wire.max_skew,
        wire.topology_key,
        wire.when_unsatisfiable == "DoNotSchedule",
        _with_own_labels(selector, wire.match_label_keys, labels),
        wire.min_domains or 1,
        wire.node_affinity_policy != "Ignore",
        wire.node_taints_policy == "Honor",
    )


def _with_own_labels(selector: Selector, keys: tuple[str, ...], labels: Mapping[str, str]) -> Selector:
    own = tuple(Requirement(key, "in", frozenset((labels[key],))) for key in keys if key in labels)
    if not own or selector.nothing:
        return selector
    return Selector(selector.requirements + own)
