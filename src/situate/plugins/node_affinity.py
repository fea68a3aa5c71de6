"""NodeAffinity: required and preferred labels and names of nodes (upstream plugins/nodeaffinity)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np

from situate.framework.cycle.cycle import PluginFailed
from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.plugin_api.plugin import PASSED, SKIPPED, PreFiltered, PreScored, Reads, Scores
from situate.framework.pod.node_selection import Term
from situate.framework.pod.pods import PodInfo, PodTemplate
from situate.framework.results.status import Code, unresolvable_status
from situate.framework.results.verdict import Mask, Verdict, refuse_in_turn
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import NodeAffinity as NodeAffinityWire
from situate.objects.settings.section import Mistake
from situate.plugins.node_term_mistakes import term_mistakes
from situate.plugins.normalization import default_normalize

_MISMATCH: Final = "node(s) didn't match Pod's node affinity/selector"
_CONFLICT: Final = "pod affinity terms conflict"
_ENFORCED: Final = "node(s) didn't match scheduler-enforced node affinity"


class NodeAffinityArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Upstream's NodeAffinityArgs."""

    added_affinity: NodeAffinityWire | None = None
    """Applies to every Pod of the profile, in addition to the Pod's own affinity."""

    def mistakes(self) -> Iterable[Mistake]:
        if self.added_affinity is None:
            return
        required, preferred = self.added_affinity.required, self.added_affinity.preferred
        path = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for number, term in enumerate(required.node_selector_terms if required is not None else ()):
            yield from term_mistakes(term, f"{path}[{number}]")
        path = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
        for number, wish in enumerate(preferred):
            yield from term_mistakes(wish.preference, f"{path}[{number}].preference")


class NodeAffinity:
    """A Filter and Score plugin for a Pod's selector and terms, and for the profile's own terms."""

    name = "NodeAffinity"
    reads = Reads.NODE
    heeds_requests = False
    arguments = NodeAffinityArgs

    def __init__(self, arguments: NodeAffinityArgs = NodeAffinityArgs()) -> None:  # noqa: B008  # frozen
        added = arguments.added_affinity
        self._enforced = (
            None
            if added is None or added.required is None
            else tuple(map(Term.from_selector_term, added.required.node_selector_terms))
        )
        self._preferred = (
            ()
            if added is None
            else tuple((wish.weight, Term.from_selector_term(wish.preference)) for wish in added.preferred)
        )

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:
        """Skip without selector and required terms. If every term names its nodes, admit only these nodes."""
        template = pod.template
        if not template.node_selector and template.node_terms is None and self._enforced is None:
            return SKIPPED
        named = _admitted_names(template.node_terms)
        if named is None:
            return PASSED
        if not named:
            return PreFiltered(unresolvable_status(_CONFLICT))
        only = np.zeros(snapshot.count, dtype=np.bool_)
        index = snapshot.nodes.index
        only[[index[name] for name in named if name in index]] = True
        return PreFiltered(only=only, elsewhere=frozenset(name for name in named if name not in index))

    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:  # noqa: ARG002
        """Check the profile's terms, then the Pod's. Refusals are unresolvable, because preemption changes no label."""
        template = pod.template
        matching = snapshot.static(_affinity_key(template), lambda nodes: _matching_nodes(template, nodes))
        own = (~matching, _MISMATCH, Code.UNRESOLVABLE)
        if self._enforced is None:
            return refuse_in_turn(own)
        terms = self._enforced
        enforced = snapshot.static((self.name, "enforced", terms), lambda nodes: _nodes_matching_any(terms, nodes))
        return refuse_in_turn((~enforced, _ENFORCED, Code.UNRESOLVABLE), own)

    def pre_score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> PreScored:  # noqa: ARG002
        """Skip without preferred terms of Pod and profile. As upstream, an invalid term is an error."""
        problems = [
            f"[{number}]{problem}"
            for number, (_, term) in enumerate(pod.template.preferred_node_terms)
            for problem in term.problems
        ]
        if problems:
            raise PluginFailed(self.name, "PreScore", problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
        if pod.template.preferred_node_terms or self._preferred:
            return PreScored()
        return PreScored(Code.SKIP)

    def score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Scores:  # noqa: ARG002
        """Return the sum of the weights of the matching preferred terms."""
        wishes = (*self._preferred, *pod.template.preferred_node_terms)

        def counted(nodes: NodeTable) -> Scores:
            total = np.zeros(len(nodes), dtype=np.int64)
            for weight, term in wishes:
                if weight:
                    total += weight * _nodes_matching_term(term, nodes)
            return total

        return snapshot.static((self.name, "score", wishes), counted)

    def normalize(self, state: Any, pod: PodInfo, raw: Scores) -> Scores:  # noqa: ARG002
        return default_normalize(raw)

    def events(self) -> tuple[EventHint, ...]:
        """Queue if a new or relabelled node matches, and did not match before."""
        return (EventHint(Subject.NODE, Change.ADD | Change.LABELS, self._hint_after_node),)

    def _hint_after_node(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        helps = self._matches(pod.template, new) and not (old is not None and self._matches(pod.template, old))
        return Hint.QUEUE if helps else Hint.SKIP

    def _matches(self, template: PodTemplate, node: Node) -> bool:
        name, labels = node.metadata.name, node.metadata.labels
        if self._enforced is not None and not any(term.matches(labels, name) for term in self._enforced):
            return False
        return node_matches(template, labels, name)


def node_matches(template: PodTemplate, labels: Mapping[str, str], name: str) -> bool:
    """Return whether the node matches the Pod's selector and required terms (GetRequiredNodeAffinity)."""
    if any(labels.get(key) != value for key, value in template.node_selector.items()):
        return False
    return template.node_terms is None or any(term.matches(labels, name) for term in template.node_terms)


def nodes_matching_affinity(template: PodTemplate, nodes: NodeTable) -> Mask:
    """Return (nodes,): the nodes that match the Pod's selector and required terms."""
    return nodes.static(_affinity_key(template), lambda nodes: _matching_nodes(template, nodes))


def _affinity_key(template: PodTemplate) -> tuple[Any, ...]:
    return NodeAffinity.name, "filter", tuple(sorted(template.node_selector.items())), template.node_terms


def _matching_nodes(template: PodTemplate, nodes: NodeTable) -> Mask:
    selector = template.node_selector
    wanted = np.ones(len(nodes), dtype=np.bool_)
    if selector:
        wanted &= nodes.labels.where(
            selector, lambda labels: all(labels.get(key) == value for key, value in selector.items())
        )
    if template.node_terms is not None:
        wanted &= _nodes_matching_any(template.node_terms, nodes)
    return wanted


def _nodes_matching_any(terms: tuple[Term, ...], nodes: NodeTable) -> Mask:
    found = np.zeros(len(nodes), dtype=np.bool_)
    for term in terms:
        found |= _nodes_matching_term(term, nodes)
    return found


def _nodes_matching_term(term: Term, nodes: NodeTable) -> Mask:
    """Return (nodes,): the nodes that match the term."""
    if not term.expressions and not term.fields:
        return np.zeros(len(nodes), dtype=np.bool_)
    names = term.names
    if names is not None:
        found = np.zeros(len(nodes), dtype=np.bool_)
        for index in (nodes.index[name] for name in names if name in nodes.index):
            found[index] = term.matches(nodes.labels.of(index), nodes.names[index])
        return found
    found = nodes.labels.where(term.keys, term.matches_labels)
    if term.fields:
        found &= np.array([term.matches_name(name) for name in nodes.names], dtype=np.bool_)
    return found


def _admitted_names(terms: tuple[Term, ...] | None) -> frozenset[str] | None:
    """Return the only node names that the terms admit; None if a term has no names."""
    if not terms:
        return None
    named: frozenset[str] = frozenset()
    for term in terms:
        names = term.names
        if names is None:
            return None
        named |= names
    return named
