"""Faults of single nodes: stopped and slow kubelets."""

from __future__ import annotations

from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.tables import NODES

SILENT_ANNOTATION = "silent"
"""Annotation on a Node, with any value: its kubelet is stopped, as if the machine had lost its network."""


class KubeletStates:
    """State of the kubelets that is not stored on objects. A node without an entry works at the usual pace."""

    def __init__(self) -> None:
        self._stopped: set[str] = set()
        self._silent: set[str] = set()
        self._slow: dict[str, float] = {}
        self.addresses: dict[str, str] = {}
        """InternalIP of each node that has one."""
        self.known: set[str] = set()
        """Nodes that exist."""

    def stop(self, node: str) -> None:
        """Stop the kubelet: no heartbeat, no report and no ended pod from this node until `start`."""
        self._stopped.add(node)

    def start(self, node: str) -> None:
        self._stopped.discard(node)

    def slow_down(self, node: str, seconds: float) -> None:
        """Delay every action on this node by this many seconds; 0 for the usual pace."""
        self._slow[node] = seconds

    def is_running(self, node: str) -> bool:
        return node in self.known and node not in self._stopped and node not in self._silent

    def delay_of(self, node: str) -> float:
        """Return the seconds by which every action on the node is delayed."""
        return self._slow.get(node, 0.0)

    def observe(self, change: Change) -> None:
        """Take in a change of a Node."""
        if change.resource != NODES:
            return
        name = change.last.name
        if change.new is None:
            self.known.discard(name)
            self._silent.discard(name)
            self.addresses.pop(name, None)
            return
        self.known.add(name)
        node = change.object
        if SILENT_ANNOTATION in (node["metadata"].get("annotations") or {}):
            self._silent.add(name)
        else:
            self._silent.discard(name)
        for entry in (node.get("status") or {}).get("addresses") or ():
            if entry.get("type") == "InternalIP":
                self.addresses[name] = entry["address"]
