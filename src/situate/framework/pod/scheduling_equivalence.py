"""*Kin*: the common part of Pods that differ only in their requests.

Pods with different requests have different templates. All other values of the template are computed once per kin.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final, TypeAlias

import msgspec

from situate.framework.pod.node_selection import Term
from situate.framework.pod.terms import AffinityTerm, affinity_term, weighted_term
from situate.objects.kinds.pods import Affinity, Pod

_TABLE_LIMIT: Final = 2**16
"""Number of entries at which the tables are cleared. Equal Pods may then have different kin, which costs time only."""


_FourKinds: TypeAlias = tuple[
    tuple[AffinityTerm, ...], tuple[AffinityTerm, ...], tuple[AffinityTerm, ...], tuple[AffinityTerm, ...]
]


class EquivalenceClass(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The placement constraints of such Pods."""

    number: int
    """Numbered from 0; equal kin have the same number."""
    node_terms: tuple[Term, ...] | None
    """Required node affinity: at least one term must match. None means no requirement."""
    preferred_node_terms: tuple[tuple[int, Term], ...]
    """With weights."""
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    preferred_affinity: tuple[AffinityTerm, ...]
    preferred_anti_affinity: tuple[AffinityTerm, ...]
    has_terms: bool
    """Whether one of these four tuples has a term."""
    selects_namespaces: bool
    """Whether one of these terms selects namespaces by their labels."""
    key_objects: tuple[object, ...]
    """The objects whose identities are in the lookup key. Storing them keeps these identities valid."""


class EquivalenceClasses:
    """The kin of one cluster; mutable."""

    def __init__(self) -> None:
        self._numbers = count()
        self._by_content: dict[tuple[Any, ...], int] = {}
        self._by_parts: dict[tuple[Any, ...], EquivalenceClass] = {}

    def class_of(self, pod: Pod, *more: object) -> EquivalenceClass:
        """Return the kin of the Pod; `BadSelector` names the invalid field.

        `more` are further values that Pods of one kin share.
        """
        spec, namespace = pod.spec, pod.metadata.namespace
        parts = spec.tolerations, spec.node_selector, spec.affinity
        more = (*more, namespace, spec.scheduler_name, spec.host_network, spec.host_users, spec.preemption_policy)
        identity = (*map(id, parts), *more)  # decoded Pods share equal parts, so identity alone usually finds the kin
        known = self._by_parts.get(identity)
        if known is not None:
            return known
        node_terms, preferred = _node_terms(spec.affinity)
        terms = _pod_terms(spec.affinity, namespace)
        if len(self._by_parts) >= _TABLE_LIMIT:
            self._by_parts.clear()
            self._by_content.clear()
        content = (spec.tolerations, tuple(sorted(spec.node_selector.items())), node_terms, preferred, terms, *more)
        number = self._by_content.get(content)
        if number is None:
            number = self._by_content[content] = next(self._numbers)
        selects = any(not term.pods.namespace_selector.nothing for each in terms for term in each)
        known = self._by_parts[identity] = EquivalenceClass(
            number, node_terms, preferred, *terms, any(terms), selects, parts
        )
        return known


def _node_terms(affinity: Affinity) -> tuple[tuple[Term, ...] | None, tuple[tuple[int, Term], ...]]:
    wire = affinity.node_affinity
    if wire is None:
        return None, ()
    required = None if wire.required is None else tuple(map(Term.from_selector_term, wire.required.node_selector_terms))
    return required, tuple((wish.weight, Term.from_selector_term(wish.preference)) for wish in wire.preferred)


def _pod_terms(affinity: Affinity, namespace: str) -> _FourKinds:
    """Return required affinity and anti-affinity, then preferred affinity and anti-affinity."""
    if affinity.pod_affinity is None and affinity.pod_anti_affinity is None:
        return (), (), (), ()
    required = []
    preferred = []
    for name in ("pod_affinity", "pod_anti_affinity"):
        wire = getattr(affinity, name)
        path = f"spec.affinity.{'podAffinity' if name == 'pod_affinity' else 'podAntiAffinity'}"
        here = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
        there = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
        required.append(
            tuple(
                affinity_term(term, namespace, f"{here}[{number}]")
                for number, term in enumerate(wire.required if wire is not None else ())
            )
        )
        preferred.append(
            tuple(
                weighted_term(term, namespace, f"{there}[{number}]")
                for number, term in enumerate(wire.preferred if wire is not None else ())
            )
        )
    return required[0], required[1], preferred[0], preferred[1]
