"""What may make a pod schedulable that InterPodAffinity refused (upstream interpodaffinity/plugin.go).

Terms that select namespaces by their labels count as meaning every namespace here: a hint that is too kind costs one
attempt, one that is too strict leaves a pod waiting.
"""

from __future__ import annotations

from collections.abc import Iterable

from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.pod.pods import PodInfo
from situate.framework.pod.terms import AffinityTerm
from situate.objects.kinds.nodes import Node


def hints() -> tuple[EventHint, ...]:
    """Pods that a term is about, the pod's own labels, and nodes that get or change a topology key."""
    return (
        EventHint(Subject.ASSIGNED_POD, Change.ADD | Change.LABELS | Change.DELETE, _after_pod),
        EventHint(Subject.POD, Change.LABELS),
        EventHint(Subject.NODE, Change.ADD | Change.LABELS, _after_node),
    )


def _after_pod(pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
    """A pod begins to match all that attracts, or ceases to match something that repels, in either direction."""
    template = pod.template
    if template.affinity and _all_mean(template.affinity, new) and not _all_mean(template.affinity, old):
        return Hint.QUEUE
    if old is None:
        return Hint.SKIP
    if any(_means(term, old) and not _means(term, new) for term in template.anti_affinity):
        return Hint.QUEUE
    if new is None and any(_means(term, pod) for term in old.template.anti_affinity):
        return Hint.QUEUE
    return Hint.SKIP


def _after_node(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    """A new node helps a pod that is repelled, or attracted by a key that it has; so does a move between domains."""
    template = pod.template
    if old is None:
        if template.anti_affinity or not template.affinity:
            return Hint.QUEUE
        return _queue_if(any(term.topology_key in new.metadata.labels for term in template.affinity))
    before, after = old.metadata.labels, new.metadata.labels
    for term in template.affinity:
        key = term.topology_key
        if key in after and before.get(key) != after[key]:
            return Hint.QUEUE
    if template.affinity and not template.anti_affinity:
        return Hint.SKIP
    # what pods in place have against this one may be about any key
    keys = [term.topology_key for term in template.anti_affinity] if template.anti_affinity else list(before)
    return _queue_if(any(key in before and before[key] != after.get(key) for key in keys))


def _all_mean(terms: Iterable[AffinityTerm], pod: PodInfo | None) -> bool:
    return all(_means(term, pod) for term in terms)


def _means(term: AffinityTerm, pod: PodInfo | None) -> bool:
    if pod is None or not term.pods.selector.matches(pod.labels):
        return False
    return pod.namespace in term.pods.namespaces or not term.pods.namespace_selector.nothing


def _queue_if(helps: bool) -> Hint:
    return Hint.QUEUE if helps else Hint.SKIP
