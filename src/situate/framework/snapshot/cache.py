"""The known Nodes and placed Pods, and the newest snapshot of them (upstream pkg/scheduler/backend/cache).

A Pod counts on its node as soon as it is *assumed* there, before the API server has confirmed it. The watch takes
precedence: a Pod confirmed on another node moves there, and a deleted Pod is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum

import msgspec

from situate.framework.pod.interning import SharedParts
from situate.framework.pod.pods import PodInfo, PodReader
from situate.framework.results.verdict import Indices
from situate.framework.snapshot.node_table import NodeRow, Vocabulary, alternate_zones, node_row, node_table
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.catalog import EMPTY_CATALOG, Catalog
from situate.framework.volumes.storage import Promises, Reservation
from situate.objects.kinds.nodes import Node


class CachedPod(msgspec.Struct, frozen=True, gc=False):
    """A Pod and its node."""

    info: PodInfo
    node: str
    assumed: bool
    """Whether the API server has not confirmed the placement yet."""


class _PlacementMark(Enum):
    """Marks a Pod for which the snapshot holds all known data."""

    ASSUMED = "assumed"
    CONFIRMED = "confirmed"


class Cache:
    """Nodes and Pods of one scheduler; mutable. `snapshot` returns immutable values."""

    def __init__(self, annotations: Iterable[str] = (), allotments: Iterable[str] = ()) -> None:
        """Take two kinds of annotation keys.

        `annotations` are the keys that plugins read on Pods to place. `allotments` are the keys that record allocated
        units.
        """
        self.vocabulary = Vocabulary.create()
        self.reader = PodReader(self.vocabulary.resources, annotations)
        self._allotments = tuple(allotments)
        self._nodes: dict[str, Node] = {}
        self._rows: dict[str, NodeRow] = {}
        self._shared = SharedParts()
        self._changed: set[str] = set()
        self._rebuild = False
        self._pods: dict[str, CachedPod | _PlacementMark] = {}
        """By uid. Pods placed by this cache have a mark instead of an entry, because the snapshot holds their data."""
        self._pods_without_node: dict[str, dict[str, PodInfo]] = {}
        """By the name of an unknown node: the Pods assigned to it."""
        self._snapshot = Snapshot(node_table(self.vocabulary, ()))

    def snapshot(self) -> Snapshot:
        """Return the newest snapshot."""
        if self._rebuild:
            table = node_table(self.vocabulary, alternate_zones(self._rows.values()))
            self._snapshot = self._snapshot.with_nodes(table)
            for name in [name for name in self._pods_without_node if name in table.index]:
                for info in self._pods_without_node.pop(name).values():
                    self._snapshot = self._snapshot.assume(info, table.index[name])
        elif self._changed:
            nodes = self._snapshot.nodes
            changed = {nodes.index[name]: self._rows[name] for name in self._changed}
            self._snapshot = self._snapshot.with_changed_nodes(nodes.with_rows(changed))
        self._rebuild = False
        self._changed.clear()
        return self._snapshot

    def branch(self) -> Cache:
        """Return an independent cache with the same contents. Changes to it do not affect this cache."""
        twin = Cache((), self._allotments)
        twin.vocabulary, twin.reader = self.vocabulary, self.reader  # these tables only grow
        twin._snapshot = self.snapshot().branch()
        twin._nodes, twin._rows = dict(self._nodes), dict(self._rows)
        twin._pods = dict(self._pods)
        twin._pods_without_node = {name: dict(pods) for name, pods in self._pods_without_node.items()}
        return twin

    # Nodes

    def node(self, name: str) -> Node | None:
        return self._nodes.get(name)

    @property
    def nodes(self) -> Sequence[str]:
        return list(self._nodes)

    def set_node(self, node: Node) -> None:
        """Add or update a Node. Most updates are heartbeats, which change nothing here."""
        name = node.metadata.name
        row = node_row(node, self.vocabulary)
        known = self._rows.get(name)
        self._nodes[name] = self._shared.share_parts(node)
        if row == known:
            return
        self._rows[name] = row
        if known is None or known.zone != row.zone:
            self._rebuild = True
        else:
            self._changed.add(name)

    def remove_node(self, name: str) -> None:
        """Remove a Node. Its Pods count nowhere until they are deleted or the Node returns."""
        self._nodes.pop(name, None)
        if self._rows.pop(name, None) is None:
            return
        index = self._snapshot.nodes.index.get(name)
        if index is not None:
            homeless = self._snapshot.pods_on(index)
            for info in homeless:
                if isinstance(known := self._pods.get(info.uid), _PlacementMark):
                    self._pods[info.uid] = CachedPod(info, name, known is _PlacementMark.ASSUMED)
                self._snapshot = self._snapshot.forget(info)
            self._pods_without_node[name] = {info.uid: info for info in homeless}
        self._changed.discard(name)
        self._rebuild = True

    # Pods

    def pod(self, uid: str) -> CachedPod | None:
        known = self._pods.get(uid)
        if not isinstance(known, _PlacementMark):
            return known
        found = self._snapshot.placed.get(uid)
        assert found is not None
        return CachedPod(found[0], self._snapshot.nodes.names[found[1]], known is _PlacementMark.ASSUMED)

    def __len__(self) -> int:
        """The number of placed Pods."""
        return len(self._pods)

    def assume(self, info: PodInfo, node: str) -> None:
        """Count the Pod on the node from now on; `ValueError` if the Pod counts on a node already."""
        self._check_new(info)
        placed = self._place(info, node)
        self._pods[info.uid] = _PlacementMark.ASSUMED if placed else CachedPod(info, node, assumed=True)

    def assume_equal(self, infos: Sequence[PodInfo], nodes: Indices) -> None:
        """Assume many Pods, each on the node at the same position.

        The Pods have one template, one labels object, one priority and equal volumes.
        """
        self._snapshot = self.snapshot().assume_equal(infos, nodes)
        self._pods.update(dict.fromkeys([info.uid for info in infos], _PlacementMark.ASSUMED))

    def assume_at(self, info: PodInfo, node: int) -> Snapshot:
        """Assume the Pod on the node at this index of the newest snapshot, and return the new snapshot."""
        self._check_new(info)
        self._pods[info.uid] = _PlacementMark.ASSUMED
        self._snapshot = self._snapshot.assume(info, node)
        return self._snapshot

    def _check_new(self, info: PodInfo) -> None:
        if info.uid in self._pods:
            known = self.pod(info.uid)
            raise ValueError(f"pod {info} is already placed, on node {known.node if known else ''}")

    def forget(self, uid: str) -> CachedPod | None:
        """Remove a Pod whose binding failed. A confirmed Pod stays; the result is then None."""
        known = self.pod(uid)
        if known is None or not known.assumed:
            return None
        return self.remove_pod(uid)

    def confirm(self, uid: str) -> None:
        """Record that the API server accepted the binding."""
        known = self._pods.get(uid)
        if known is _PlacementMark.ASSUMED:
            self._pods[uid] = _PlacementMark.CONFIRMED
        elif isinstance(known, CachedPod):
            self._pods[uid] = CachedPod(known.info, known.node, assumed=False)

    def set_pod(self, info: PodInfo, node: str) -> CachedPod | None:
        """Apply the watch's state of a placed Pod, and return the previous entry."""
        known = self.pod(info.uid)
        self._pods[info.uid] = CachedPod(info, node, assumed=False)
        if known is not None and known.node == node:
            if self._counts_alike(known.info, info):
                return known
            if self._takes_alike(known.info, info) and not info.volumes and info.uid in self._snapshot.placed:
                self._snapshot = self._snapshot.with_updated_pod(info)
                return known
        if known is not None:
            self._displace(known)
        self._place(info, node)
        return known

    def remove_pod(self, uid: str) -> CachedPod | None:
        """Remove a Pod that was deleted or has ended."""
        known = self.pod(uid)
        if known is not None:
            del self._pods[uid]
            self._displace(known)
        return known

    def set_catalog(self, catalog: Catalog = EMPTY_CATALOG) -> None:
        """Replace the other objects. Storage reservations stay."""
        self._set_promises(catalog, self.catalog.storage.promises)

    def reserve_storage(self, uid: str, reservation: Reservation) -> None:
        """Reserve this storage for the Pod with this uid, together with its node."""
        self._set_promises(self.catalog, self.catalog.storage.promises.with_reservation(uid, reservation))

    def release(self, uid: str) -> Reservation:
        """Drop and return the Pod's storage reservation: the storage has been written, or never will be."""
        storage = self.catalog.storage
        reservation = storage.reservation(uid)
        if reservation:
            self._set_promises(self.catalog, storage.promises.without_reservation(uid))
        return reservation

    def release_if_shown(self, uid: str) -> None:
        """Drop the Pod's storage reservation if the API server has shown all of it."""
        storage = self.catalog.storage
        reservation = storage.reservation(uid)
        if reservation and storage.has_written(reservation):
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
        """Return False if the node is unknown."""
        index = self._snapshot.nodes.index.get(node)
        if index is None or node not in self._rows:
            self._pods_without_node.setdefault(node, {})[info.uid] = info
            return False
        self._snapshot = self._snapshot.assume(info, index)
        return True

    def _displace(self, known: CachedPod) -> None:
        homeless = self._pods_without_node.get(known.node)
        if homeless is not None and homeless.pop(known.info.uid, None) is not None:
            if not homeless:
                del self._pods_without_node[known.node]
        elif known.info.uid in self._snapshot.placed:
            self._snapshot = self._snapshot.forget(known.info)

    def _counts_alike(self, one: PodInfo, other: PodInfo) -> bool:
        """Return whether no decision about other Pods distinguishes the two."""
        return (
            self._takes_alike(one, other)
            and one.labels == other.labels
            and one.terminating == other.terminating
            and one.started == other.started
        )

    def _takes_alike(self, one: PodInfo, other: PodInfo) -> bool:
        """Return whether both take the same from a node, and have equal terms for other Pods there."""
        given, known = one.pod.metadata.annotations, other.pod.metadata.annotations
        return (
            one.template is other.template
            and one.priority == other.priority
            and one.volumes == other.volumes
            and all(given.get(key) == known.get(key) for key in self._allotments)
        )
