"""Which pods have been promised which node, without being counted there (upstream backend/queue/nominator.go)."""

from __future__ import annotations

from collections.abc import Mapping

from situate.framework.pods import PodInfo


class Nominations:
    """Mutable, of one scheduler."""

    def __init__(self) -> None:
        self._node: dict[str, str] = {}
        self._pods: dict[str, dict[str, PodInfo]] = {}

    def __bool__(self) -> bool:
        return bool(self._node)

    def branch(self) -> Nominations:
        """Another one with the same promises."""
        twin = Nominations()
        twin._node = dict(self._node)
        twin._pods = {node: dict(pods) for node, pods in self._pods.items()}
        return twin

    def nominate(self, info: PodInfo, node: str) -> None:
        """Promises the node to the pod; an empty name takes its promise back."""
        self.remove(info.uid)
        if node:
            self._node[info.uid] = node
            self._pods.setdefault(node, {})[info.uid] = info

    def remove(self, uid: str) -> PodInfo | None:
        """The pod that had been promised a node; None if it had not."""
        node = self._node.pop(uid, None)
        if node is None:
            return None
        info = self._pods[node].pop(uid)
        if not self._pods[node]:
            del self._pods[node]
        return info

    def node_of(self, uid: str) -> str:
        """Empty if none was promised."""
        return self._node.get(uid, "")

    def on(self, node: str) -> tuple[PodInfo, ...]:
        """The pods that the node is promised to, in the order of the promises."""
        return tuple(self._pods.get(node, {}).values())

    def against(self, pod: PodInfo, index: Mapping[str, int]) -> dict[int, tuple[PodInfo, ...]]:
        """By node's index: other pods of at least this one's priority that it is promised to."""
        found: dict[int, tuple[PodInfo, ...]] = {}
        for node, pods in self._pods.items():
            row = index.get(node)
            others = tuple(each for each in pods.values() if each.priority >= pod.priority and each.uid != pod.uid)
            if row is not None and others:
                found[row] = others
        return found
