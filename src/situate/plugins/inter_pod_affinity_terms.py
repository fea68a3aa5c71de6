"""Questions about the placed Pods that the terms of InterPodAffinity select, compiled once and cached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from situate.framework.pod.keys import Key
from situate.framework.pod.pods import PodInfo, PodTemplate
from situate.framework.pod.terms import AffinityTerm, NamespaceLabels
from situate.framework.snapshot.pod_affinity_index import PodAffinityIndex
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.snapshot.topology_counts import TallyDefinition
from situate.framework.volumes.catalog import Catalog

NAME: Final = "InterPodAffinity"

Kind = Literal["affinity", "anti_affinity", "preferred_affinity", "preferred_anti_affinity"]
"""The kind of a term, as a field name of `PodTemplate`."""

Namespaces = Mapping[str, Mapping[str, str]] | None


@dataclass(frozen=True, slots=True, eq=False)
class PodTallies:
    """A Pod's questions about placed Pods."""

    affinity: tuple[TallyDefinition, ...]
    """One question for each topology key: Pods that match all required terms."""
    anti_affinity: tuple[TallyDefinition, ...]
    """One question for each required term."""
    preferred: tuple[TallyDefinition, ...]
    """One question for each topology key: the sum of weights, negative for anti-affinity."""
    key_object: Namespaces
    """The object whose id is in the plan's key; None if no term selects namespaces by label."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacedPodTallies:
    """The terms of placed Pods that select Pods of one namespace and one set of labels."""

    repelled: tuple[TallyDefinition, ...]
    """Required anti-affinity: the owners of each term."""
    attracted: tuple[TallyDefinition, ...]
    """Required affinity: the owners of each term."""
    preferred: tuple[tuple[int, TallyDefinition], ...]
    """Preferred terms: a weight, negative for anti-affinity, and the owners of the term."""
    key_objects: tuple[object, ...]
    """The objects whose ids are in the plan's key."""


def pod_tallies(template: PodTemplate, snapshot: Snapshot) -> PodTallies:
    """Return the questions of Pods of this template."""
    catalog = snapshot.catalog
    heeded = catalog.namespaces if template.selects_namespaces else None
    return snapshot.nodes.plan((NAME, template, id(heeded)), lambda: _build_pod_tallies(template, catalog, heeded))


def placed_pod_tallies(pod: PodInfo, snapshot: Snapshot) -> PlacedPodTallies:
    """Return the terms of placed Pods that select this Pod."""
    live, catalog = snapshot.live_terms, snapshot.catalog
    heeded = catalog.namespaces if live.select_namespaces else None
    key = (NAME, pod.namespace, id(pod.labels), id(heeded))
    return live.plan(key, lambda: _build_placed_pod_tallies(pod.namespace, pod.labels, live, catalog, heeded))


def matches_all(terms: Iterable[AffinityTerm], pod: PodInfo, namespaces: NamespaceLabels) -> bool:
    """Return whether each of the terms selects the Pod."""
    return all(term.pods.selects(pod.namespace, pod.labels, namespaces) for term in terms)


def _build_pod_tallies(template: PodTemplate, catalog: Catalog, heeded: Namespaces) -> PodTallies:
    terms = template.affinity
    asker = template, id(heeded)

    def all_match(pod: PodInfo) -> int:
        return int(matches_all(terms, pod, catalog.namespace_labels))

    affinity = tuple(TallyDefinition((NAME, "all", *asker, key), key, all_match) for key in _keys(terms))
    anti_affinity = tuple(
        _weight_tally((NAME, "anti", *asker, place), term.topology_key, ((1, term),), catalog)
        for place, term in enumerate(template.anti_affinity)
    )
    wishes = [(term.weight, term) for term in template.preferred_affinity]
    wishes += [(-term.weight, term) for term in template.preferred_anti_affinity]
    preferred = tuple(
        _weight_tally(
            (NAME, "preferred", *asker, key),
            key,
            tuple(each for each in wishes if each[1].topology_key == key),
            catalog,
        )
        for key in _keys(term for _, term in wishes)
    )
    return PodTallies(affinity, anti_affinity, preferred, heeded)


def _weight_tally(
    identity: tuple[object, ...], key: str, wishes: tuple[tuple[int, AffinityTerm], ...], catalog: Catalog
) -> TallyDefinition:
    """Return a question that sums the weights of all terms that select a Pod."""

    def weight(pod: PodInfo) -> int:
        return sum(
            weight for weight, term in wishes if term.pods.selects(pod.namespace, pod.labels, catalog.namespace_labels)
        )

    return TallyDefinition(identity, key, weight)


def _build_placed_pod_tallies(
    namespace: str, labels: Mapping[str, str], live: PodAffinityIndex, catalog: Catalog, heeded: Namespaces
) -> PlacedPodTallies:
    def concerning(kind: Kind) -> list[AffinityTerm]:
        return [
            term
            for term in _terms_for_namespace(live, kind, namespace)
            if term.pods.selects(namespace, labels, catalog.namespace_labels)
        ]

    liked = [(term.weight, _owner_tally(term, "preferred_affinity")) for term in concerning("preferred_affinity")]
    liked += [
        (-term.weight, _owner_tally(term, "preferred_anti_affinity")) for term in concerning("preferred_anti_affinity")
    ]
    return PlacedPodTallies(
        tuple(_owner_tally(term, "anti_affinity") for term in concerning("anti_affinity")),
        tuple(_owner_tally(term, "affinity") for term in concerning("affinity")),
        tuple(liked),
        (labels, heeded),
    )


def _terms_for_namespace(live: PodAffinityIndex, kind: Kind, namespace: str) -> list[AffinityTerm]:
    """Return the distinct terms of placed Pods that may select Pods of this namespace."""
    by_namespace = live.plan((NAME, kind), lambda: _group_by_namespace(live, kind))
    return by_namespace.get(namespace, []) + by_namespace.get(None, [])


def _group_by_namespace(live: PodAffinityIndex, kind: Kind) -> dict[str | None, list[AffinityTerm]]:
    """Group the distinct terms by the namespaces that they name, or under None if they select namespaces by label."""
    found: dict[str | None, list[AffinityTerm]] = {}
    distinct = {term: None for template in live.templates for term in _terms(template, kind)}
    for term in distinct:
        selects = not term.pods.namespace_selector.nothing
        for namespace in (None,) if selects else sorted(term.pods.namespaces):
            found.setdefault(namespace, []).append(term)
    return found


def _owner_tally(term: AffinityTerm, kind: Kind) -> TallyDefinition:
    """Return a question that counts the owners of a term; an owner that repeats the term counts repeatedly."""

    def weight(pod: PodInfo) -> int:
        return _terms(pod.template, kind).count(term)

    return TallyDefinition(Key(NAME, kind, term), term.topology_key, weight)


def _terms(template: PodTemplate, kind: Kind) -> tuple[AffinityTerm, ...]:
    terms: tuple[AffinityTerm, ...] = getattr(template, kind)
    return terms


def _keys(terms: Iterable[AffinityTerm]) -> tuple[str, ...]:
    """Return the distinct topology keys, in the order of the terms."""
    return tuple(dict.fromkeys(term.topology_key for term in terms))
