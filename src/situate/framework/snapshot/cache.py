"""What is known of nodes and placed pods, and the newest snapshot of it (upstream pkg/scheduler/backend/cache).

A pod counts on its node from the moment it is *assumed* there, before the API server has confirmed it. The watch is
right in the end: a pod confirmed elsewhere moves, one that is gone is taken out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum

import msgspec

from situate.framework.pod.interning import SharedParts
from situate.framework.pod.pods import PodInfo, PodReader
from situate.framework.results.verdict import Indices
from situate.framework.snapshot.node_table import NodeRow, Vocabulary, alternating, node_row, node_table
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.catalog import EMPTY, Catalog
from situate.framework.volumes.storage import Promises, Reservation
from situate.objects.kinds.nodes import Node


class CachedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod and its node."""

    info: PodInfo
    node: str
    assumed: bool
    """Whether it has not been confirmed yet."""


class _InPlace(Enum):
    """Of a pod of which nobody knows more than the snapshot does."""

    ASSUMED = "assumed"
    CONFIRMED = "confirmed"


class Cache:
    """Mutable, of one scheduler; `snapshot` gives frozen values."""

    def __init__(self, annotations: Iterable[str] = (), allotments: Iterable[str] = ()) -> None:
        """Keys of annotations: of those that plugins read of pods to place, and of those that say what was allotted."""
        self.vocabulary = Vocabulary.new()
        self.reader = PodReader(self.vocabulary.resources, annotations)
        self._allotments = tuple(allotments)
        self._nodes: dict[str, Node] = {}
        self._rows: dict[str, NodeRow] = {}
        self._shared = SharedParts()
        self._changed: set[str] = set()
        self._rebuild = False
        self._pods: dict[str, CachedPod | _InPlace] = {}
        """By uid. Pods that were placed here have no entry of their own: they are in the snapshot."""
        self._homeless: dict[str, dict[str, PodInfo]] = {}
        """By name of a node that is not known: the pods that are said to be on it."""
        self._snapshot = Snapshot(node_table(self.vocabulary, ()))

    def snapshot(self) -> Snapshot:
        """The newest one."""
        if self._rebuild:
            table = node_table(self.vocabulary, alternating(self._rows.values()))
            self._snapshot = self._snapshot.with_nodes(table)
            for name in [name for name in self._homeless if name in table.index]:
                for info in self._homeless.pop(name).values():
                    self._snapshot = self._snapshot.assume(info, table.index[name])
        elif self._changed:
            nodes = self._snapshot.nodes
            changed = {nodes.index[name]: self._rows[name] for name in self._changed}
            self._snapshot = self._snapshot.with_changed_nodes(nodes.with_rows(changed))
        self._rebuild = False
        self._changed.clear()
        return self._snapshot

    def branch(self) -> Cache:
        """Another cache that knows the same; what becomes of it is nothing to this one."""
        twin = Cache((), self._allotments)
        twin.vocabulary, twin.reader = self.vocabulary, self.reader  # they only grow
        twin._snapshot = self.snapshot().branch()
        twin._nodes, twin._rows = dict(self._nodes), dict(self._rows)
        twin._pods = dict(self._pods)
        twin._homeless = {name: dict(pods) for name, pods in self._homeless.items()}
        return twin

    # Nodes

    def node(self, name: str) -> Node | None:
        return self._nodes.get(name)

    @property
    def nodes(self) -> Sequence[str]:
        return list(self._nodes)

    def set_node(self, node: Node) -> None:
        """A node is new, or has changed. Most changes are heartbeats, which make no difference here."""
        name = node.metadata.name
        row = node_row(node, self.vocabulary)
        known = self._rows.get(name)
        self._nodes[name] = self._shared.of(node)
        if row == known:
            return
        self._rows[name] = row
        if known is None or known.zone != row.zone:
            self._rebuild = True
        else:
            self._changed.add(name)

    def remove_node(self, name: str) -> None:
        """Its pods count nowhere until they are deleted, or the node is back."""
        self._nodes.pop(name, None)
        if self._rows.pop(name, None) is None:
            return
        index = self._snapshot.nodes.index.get(name)
        if index is not None:
            homeless = self._snapshot.pods_on(index)
            for info in homeless:
                if isinstance(known := self._pods.get(info.uid), _InPlace):
                    self._pods[info.uid] = CachedPod(info, name, known is _InPlace.ASSUMED)
                self._snapshot = self._snapshot.forget(info)
            self._homeless[name] = {info.uid: info for info in homeless}
        self._changed.discard(name)
        self._rebuild = True

    # Pods

    def pod(self, uid: str) -> CachedPod | None:
        known = self._pods.get(uid)
        if not isinstance(known, _InPlace):
            return known
        found = self._snapshot.placed.get(uid)
        assert found is not None
        return CachedPod(found[0], self._snapshot.nodes.names[found[1]], known is _InPlace.ASSUMED)

    def __len__(self) -> int:
        """So many pods are in place."""
        return len(self._pods)

    def assume(self, info: PodInfo, node: str) -> None:
        """Counts the pod on the node from now on; `ValueError` if it counts somewhere already."""
        self._must_be_new(info)
        placed = self._place(info, node)
        self._pods[info.uid] = _InPlace.ASSUMED if placed else CachedPod(info, node, assumed=True)

    def assume_equal(self, infos: Sequence[PodInfo], nodes: Indices) -> None:
        """Many pods of one template, one labels object, one priority and equal volumes, each on the node beside it."""
        self._snapshot = self.snapshot().assume_equal(infos, nodes)
        self._pods.update(dict.fromkeys([info.uid for info in infos], _InPlace.ASSUMED))

    def assume_at(self, info: PodInfo, node: int) -> Snapshot:
        """`assume` on the node at this index of the newest snapshot; the newest one then."""
        self._must_be_new(info)
        self._pods[info.uid] = _InPlace.ASSUMED
        self._snapshot = self._snapshot.assume(info, node)
        return self._snapshot

    def _must_be_new(self, info: PodInfo) -> None:
        if info.uid in self._pods:
            known = self.pod(info.uid)
            raise ValueError(f"pod {info} is in place already, on node {known.node if known else ''}")

    def forget(self, uid: str) -> CachedPod | None:
        """Its binding has failed; None if it is not assumed: a confirmed pod stays."""
        known = self.pod(uid)
        if known is None or not known.assumed:
            return None
        return self.remove_pod(uid)

    def confirm(self, uid: str) -> None:
        """The API server has accepted the binding."""
        known = self._pods.get(uid)
        if known is _InPlace.ASSUMED:
            self._pods[uid] = _InPlace.CONFIRMED
        elif isinstance(known, CachedPod):
            self._pods[uid] = CachedPod(known.info, known.node, assumed=False)

    def set_pod(self, info: PodInfo, node: str) -> CachedPod | None:
        """What the watch says of a pod in place; what was known of it before."""
        known = self.pod(info.uid)
        self._pods[info.uid] = CachedPod(info, node, assumed=False)
        if known is not None and known.node == node:
            if self._counts_alike(known.info, info):
                return known
            if self._takes_alike(known.info, info) and not info.volumes and info.uid in self._snapshot.placed:
                self._snapshot = self._snapshot.retold(info)
                return known
        if known is not None:
            self._displace(known)
        self._place(info, node)
        return known

    def remove_pod(self, uid: str) -> CachedPod | None:
        """The pod is gone, or has ended."""
        known = self.pod(uid)
        if known is not None:
            del self._pods[uid]
            self._displace(known)
        return known

    def set_catalog(self, catalog: Catalog = EMPTY) -> None:
        """The other objects are these from now on; what has been promised of storage stays so."""
        self._set_promises(catalog, self.catalog.storage.promises)

    def promise(self, uid: str, reservation: Reservation) -> None:
        """The pod with this uid gets this with its node, and nobody else."""
        self._set_promises(self.catalog, self.catalog.storage.promises.with_(uid, reservation))

    def release(self, uid: str) -> Reservation:
        """The pod's storage is not promised any more: it is written, or will never be; what it was."""
        storage = self.catalog.storage
        reservation = storage.reservation(uid)
        if reservation:
            self._set_promises(self.catalog, storage.promises.without(uid))
        return reservation

    def settle(self, uid: str) -> None:
        """The pod's storage need not be promised any more if the API server has shown all of it."""
        storage = self.catalog.storage
        reservation = storage.reservation(uid)
        if reservation and storage.shows(reservation):
            self.release(uid)

    def _set_promises(self, catalog: Catalog, promises: Promises) -> None:
        storage = catalog.storage.with_promises(promises)
        self._snapshot = self._snapshot.with_catalog(
            catalog if storage is catalog.storage else replace(catalog, storage=storage)
        )

    @property
    def catalog(self) -> Catalog:
        return self._snapshot.catalog

    def _place(self, info: PodInfo, node: str) -> bool:
        """False if the node is not known."""
        index = self._snapshot.nodes.index.get(node)
        if index is None or node not in self._rows:
            self._homeless.setdefault(node, {})[info.uid] = info
            return False
        self._snapshot = self._snapshot.assume(info, index)
        return True

    def _displace(self, known: CachedPod) -> None:
        homeless = self._homeless.get(known.node)
        if homeless is not None and homeless.pop(known.info.uid, None) is not None:
            if not homeless:
                del self._homeless[known.node]
        elif known.info.uid in self._snapshot.placed:
            self._snapshot = self._snapshot.forget(known.info)

    def _counts_alike(self, one: PodInfo, other: PodInfo) -> bool:
        """Whether no decision about other pods can tell them apart."""
        return (
            self._takes_alike(one, other)
            and one.labels == other.labels
            and one.terminating == other.terminating
            and one.started == other.started
        )

    def _takes_alike(self, one: PodInfo, other: PodInfo) -> bool:
        """Whether they hold the same of a node, and what is said of others there."""
        given, known = one.pod.metadata.annotations, other.pod.metadata.annotations
        return (
            one.template is other.template
            and one.priority == other.priority
            and one.volumes == other.volumes
            and all(given.get(key) == known.get(key) for key in self._allotments)
        )
