"""Nominated nodes of Pods, which do not count there yet (upstream backend/queue/nominator.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from situate.framework.pod.pods import PodInfo
from situate.framework.snapshot.nominated_pods import NominatedPods


class Nominations:
    """The nominations of one scheduler; mutable."""

    def __init__(self) -> None:
        self._node: dict[str, str] = {}
        self._pods: dict[str, dict[str, PodInfo]] = {}
        self._known: dict[int, tuple[Mapping[str, int], NominatedPods]] = {}
        """By priority: the index of the nodes, and the nominated Pods of at least this priority."""

    def __bool__(self) -> bool:
        return bool(self._node)

    def branch(self) -> Nominations:
        """Return an independent copy."""
        twin = Nominations()
        twin._node = dict(self._node)
        twin._pods = {node: dict(pods) for node, pods in self._pods.items()}
        return twin

    def nominate(self, info: PodInfo, node: str) -> None:
        """Nominate the Pod to the node; an empty name clears its nomination."""
        self.remove(info.uid)
        if node:
            self._node[info.uid] = node
            self._pods.setdefault(node, {})[info.uid] = info
            self._update_columns(node)

    def remove(self, uid: str) -> PodInfo | None:
        """Clear the nomination and return its Pod; None if there was none."""
        node = self._node.pop(uid, None)
        if node is None:
            return None
        info = self._pods[node].pop(uid)
        if not self._pods[node]:
            del self._pods[node]
        self._update_columns(node)
        return info

    def node_of(self, uid: str) -> str:
        """Return the nominated node; empty if there is none."""
        return self._node.get(uid, "")

    def pods_on(self, node: str) -> tuple[PodInfo, ...]:
        """Return the Pods nominated to the node, in order of nomination."""
        return tuple(self._pods.get(node, {}).values())

    def competing_pods(self, pod: PodInfo, index: Mapping[str, int]) -> NominatedPods:
        """Return, by node index, the other nominated Pods of at least this Pod's priority.

        Read the result at once, because later nominations change it.
        """
        known = self._known.get(pod.priority)
        if known is None or known[0] is not index:
            if len(self._known) >= _CACHED_PRIORITIES:
                self._known.clear()
            known = self._known[pod.priority] = index, NominatedPods(len(index))
            for node in self._pods:
                if node in index:
                    known[1].replace_pods(index[node], self._pods_from_priority(node, pod.priority))
        own = index.get(self.node_of(pod.uid))
        return known[1] if own is None else known[1].without_pod(own, pod.uid)

    def _pods_from_priority(self, node: str, priority: int) -> tuple[PodInfo, ...]:
        return tuple(each for each in self._pods.get(node, {}).values() if each.priority >= priority)

    def _update_columns(self, node: str) -> None:
        """Update the cached columns after a change of a node's nominations."""
        for priority, (index, promised) in self._known.items():
            row = index.get(node)
            if row is not None:
                promised.replace_pods(row, self._pods_from_priority(node, priority))


_CACHED_PRIORITIES: Final = 16
"""Number of priorities whose nominations are cached as columns."""
