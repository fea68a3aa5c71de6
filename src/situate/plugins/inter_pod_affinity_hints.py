"""Queueing hints of InterPodAffinity (upstream interpodaffinity/plugin.go).

Here a term with a namespace selector matches every namespace. A hint that matches too often costs one attempt; a hint
that matches too rarely leaves a Pod pending.
"""

from __future__ import annotations

from collections.abc import Iterable

from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.pod.pods import PodInfo
from situate.framework.pod.terms import AffinityTerm
from situate.objects.kinds.nodes import Node


def hints() -> tuple[EventHint, ...]:
    """Return hints for Pods that terms select, the Pod's own labels, and nodes with a new or changed topology key."""
    return (
        EventHint(Subject.ASSIGNED_POD, Change.ADD | Change.LABELS | Change.DELETE, _hint_after_pod),
        EventHint(Subject.POD, Change.LABELS),
        EventHint(Subject.NODE, Change.ADD | Change.LABELS, _hint_after_node),
    )


def _hint_after_pod(pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
    """Queue if a Pod now matches all affinity terms, or no longer an anti-affinity term in either direction."""
    template = pod.template
    if template.affinity and _all_select(template.affinity, new) and not _all_select(template.affinity, old):
        return Hint.QUEUE
    if old is None:
        return Hint.SKIP
    if any(_selects(term, old) and not _selects(term, new) for term in template.anti_affinity):
        return Hint.QUEUE
    if new is None and any(_selects(term, pod) for term in old.template.anti_affinity):
        return Hint.QUEUE
    return Hint.SKIP


def _hint_after_node(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    """Queue if a new node has a needed key or the Pod has anti-affinity, or if a node changes its domain."""
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
    # anti-affinity of placed Pods may use any key
    keys = [term.topology_key for term in template.anti_affinity] if template.anti_affinity else list(before)
    return _queue_if(any(key in before and before[key] != after.get(key) for key in keys))


def _all_select(terms: Iterable[AffinityTerm], pod: PodInfo | None) -> bool:
    return all(_selects(term, pod) for term in terms)


def _selects(term: AffinityTerm, pod: PodInfo | None) -> bool:
    if pod is None or not term.pods.selector.matches(pod.labels):
        return False
    return pod.namespace in term.pods.namespaces or not term.pods.namespace_selector.nothing


def _queue_if(helps: bool) -> Hint:
    return Hint.QUEUE if helps else Hint.SKIP
