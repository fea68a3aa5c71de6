"""The complete input of a decision: immutable columns over nodes, and the Pods on them.

A snapshot never changes. `assume` and `forget` return another snapshot, which takes the columns over and changes the
entries of one node. The older snapshot records how to undo that change, and rebuilds its columns if it is read again.
Each decision of the usual chain therefore costs a few entries, and a branch costs one copy. The method follows Baker,
"Shallow binding makes functional arrays fast", 1991.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from situate.framework.pod.pods import HostPort, PodInfo
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.derived_columns import ColumnDefinition, Load, Numbers
from situate.framework.snapshot.device_allocations import AllocationDefinition, Units
from situate.framework.snapshot.labels import Domains, Ids
from situate.framework.snapshot.node_load import Amounts, LoadChange, LoadVersion, NodeLoad, Shares
from situate.framework.snapshot.node_subset import NodeSubset
from situate.framework.snapshot.node_table import NodeTable, take
from situate.framework.snapshot.nominated_pods import NominatedPods
from situate.framework.snapshot.placed_pods import NO_NODE, PlacedPods
from situate.framework.snapshot.pod_affinity_index import PodAffinityIndex
from situate.framework.snapshot.topology_counts import TallyDefinition
from situate.framework.volumes.catalog import EMPTY_CATALOG, Catalog
from situate.framework.volumes.volume_use import VolumeUse

A = TypeVar("A", bound=np.generic)
P = TypeVar("P")


class Snapshot:
    """Columns over some nodes. Callers must not modify the arrays that it returns."""

    __slots__ = ("_chosen", "_part", "_version", "catalog", "nodes")

    def __init__(
        self,
        nodes: NodeTable,
        catalog: Catalog = EMPTY_CATALOG,
        version: LoadVersion | None = None,
        chosen: Indices | None = None,
        part: NodeSubset | None = None,
    ) -> None:
        """Create a snapshot without placed Pods. `version`, `chosen` and `part` are for this module."""
        self.nodes = nodes
        self.catalog = catalog
        self._version = version or LoadVersion(NodeLoad.for_nodes(nodes))
        self._chosen = chosen
        self._part = part

    # Static columns

    @property
    def count(self) -> int:
        """The number of nodes."""
        return len(self.nodes) if self._chosen is None else len(self._chosen)

    @property
    def chosen(self) -> Indices | None:
        """The indices of this snapshot's nodes in `nodes`; None means all nodes."""
        return self._chosen

    def name(self, index: int) -> str:
        return self.nodes.names[index if self._chosen is None else int(self._chosen[index])]

    def allocatable(self, column: int) -> Amounts:
        """Return the allocatable amounts of the resource with this column (`ResourceColumns`)."""
        columns = self.nodes.allocatable
        if column >= len(columns):
            return np.zeros(self.count, dtype=np.int64)
        return take(columns[column], self._chosen)

    def allocatable_floats(self, columns: tuple[int, ...]) -> Shares:
        """Return `allocatable` of these resources, (resources, nodes), as floats, which are exact up to 2^53."""
        room = self.nodes.allocatable_floats(columns)
        return room if self._chosen is None else room.take(self._chosen, axis=1)

    @property
    def allowed_pods(self) -> Amounts:
        return take(self.nodes.allowed_pods, self._chosen)

    @property
    def unschedulable(self) -> Mask:
        return take(self.nodes.unschedulable, self._chosen)

    def static(self, key: Hashable, build: Callable[[NodeTable], NDArray[A]]) -> NDArray[A]:
        """Return (nodes,): a column that depends only on labels, taints, names and images.

        It is built once for each key and table. `key` starts with the plugin's name and holds every other input of
        `build`.
        """
        return take(self.nodes.static(key, build), self._chosen)

    @property
    def caches_plans(self) -> bool:
        """Whether `plan` caches its results."""
        return self._part is not None or self._chosen is None

    def plan(self, key: Hashable, build: Callable[[], P]) -> P:
        """Return a result that depends only on the selection of nodes and on their static columns.

        It is computed once for each key if `select_nodes` was given a part, or if the snapshot has all nodes. The
        result must reference each object that the key names by `id`.
        """
        if self._part is not None:
            return self._part.plan(key, build)
        return self.nodes.plan(key, build) if self._chosen is None else build()

    def domains(self, key: str) -> Domains:
        """Return the domains of a topology key, over all nodes."""
        return self.nodes.labels.domains(key)

    def domain_of_node(self, key: str) -> Ids:
        """Return (nodes,): each node's domain; -1 if the node lacks the key."""
        return take(self.nodes.labels.domains(key).of_node, self._chosen)

    def over_nodes(self, key: str, values: NDArray[A], missing: float) -> NDArray[A]:
        """Return (nodes,): the entry of `values`, (domains,), for each node's domain.

        A node without the key gets `missing`. Callers must not modify the result, which may be `values` itself.
        """
        domains = self.nodes.labels.domains(key)
        if domains.own:
            return take(values, self._chosen)
        if domains.complete:
            return values.take(self.place_of_node(key))
        padded = np.empty(len(values) + 1, dtype=values.dtype)
        padded[:-1] = values
        padded[-1] = missing
        return padded.take(self.place_of_node(key))

    def place_of_node(self, key: str) -> Indices:
        """Return (nodes,): each node's domain; for a node without the key, the number after the last domain."""
        domains = self.nodes.labels.domains(key)

        def build() -> Indices:
            of_node = take(domains.of_node, self._chosen)
            return np.where(of_node < 0, domains.count, of_node).astype(np.intp)

        return self.plan(("place", key), build)

    def present_domains(self, key: str) -> Mask:
        """Return (domains + 1,): which values occur in `place_of_node`."""

        def build() -> Mask:
            there = np.zeros(self.nodes.labels.domains(key).count + 1, dtype=np.bool_)
            there[self.place_of_node(key)] = True
            return there

        return self.plan(("present", key), build)

    # Dynamic columns

    def requested(self, column: int) -> Amounts:
        """Return the placed Pods' requests of the resource with this column."""
        columns = self._version.current_load().requested
        if column >= len(columns):
            return np.zeros(self.count, dtype=np.int64)
        return self._take_chosen(columns[column])

    def scored_requested(self, column: int) -> Amounts:
        """Return the same for cpu (0) or memory (1), with the defaults of containers without a request."""
        return self._take_chosen(self._version.current_load().scored[column])

    def requested_floats(self, columns: tuple[int, ...], *, scored: bool) -> Shares:
        """Return `requested`, (resources, nodes), as floats, which are exact up to 2^53.

        With `scored`, cpu and memory come from `scored_requested`.
        """
        ledger = self._version.current_load()
        used = ledger.requested_floats(columns, scored=scored)
        return used if self._chosen is None or ledger.alone else used.take(self._chosen, axis=1)

    @property
    def pod_count(self) -> Amounts:
        return self._take_chosen(self._version.current_load().pod_count)

    def port_in_use(self, wanted: HostPort) -> Mask:
        """Return (nodes,): whether a Pod uses this port, at this address or where one of the two is the wildcard."""
        return self._take_chosen(self._version.current_load().port_in_use(wanted))

    @property
    def volume_use(self) -> VolumeUse:
        """The volumes that placed Pods use; read-only. Its rows are those of `row_names`."""
        return self._version.current_load().volumes

    @property
    def row_names(self) -> Sequence[str]:
        """The nodes of the rows that count Pods: those of the table, or of a snapshot with separate rows."""
        return (
            [self.name(index) for index in range(self.count)]
            if self._version.current_load().alone
            else self.nodes.names
        )

    def take_rows(self, column: NDArray[A]) -> NDArray[A]:
        """Return (nodes,): the entries of a column over the rows."""
        return self._take_chosen(column)

    def tally(self, question: TallyDefinition) -> NDArray[np.int64]:
        """Return (domains,): the Pod counts that the question defines, over all nodes; copy them to keep them.

        Only for a snapshot of all nodes.
        """
        ledger = self._version.current_load()
        return ledger.tallies.get(question, self.domains(question.topology_key), lambda: ledger.placed)

    def derived_columns(self, derived: ColumnDefinition) -> Numbers:
        """Return (width, nodes): columns derived from the load of a node; cached if the snapshot has all nodes."""
        ledger = self._version.current_load()
        if ledger.alone or self._chosen is not None:
            return derived.compute_columns(self)
        return ledger.derived.get(derived, self, ledger, ledger.log_end, ledger.rows_changed_since)

    @property
    def load(self) -> Load:
        """The current load of all nodes, read-only. Later steps change it."""
        return self._version.current_load()

    def allocated_units(self, holding: AllocationDefinition, width: int) -> Units:
        """Return (width, nodes): the first units that the Pods on each node hold; read-only."""
        ledger = self._version.current_load()
        held = ledger.holdings.get(holding, width, len(ledger.pod_count), lambda: ledger.placed)
        return held if ledger.alone or self._chosen is None else held.take(self._chosen, axis=1)

    @property
    def live_terms(self) -> PodAffinityIndex:
        """The affinity terms of the placed Pods, read-only."""
        return self._version.current_load().live_terms

    def pods_on(self, index: int) -> list[PodInfo]:
        """Return the Pods on the node at this index."""
        ledger = self._version.current_load()
        return ledger.placed.pods_on(index if self._chosen is None or ledger.alone else int(self._chosen[index]))

    @property
    def placed(self) -> PlacedPods:
        """All placed Pods, read-only."""
        return self._version.current_load().placed

    # Derived snapshots

    def branch(self) -> Snapshot:
        """Return an equal snapshot with separate columns. Changes to it do not slow this one or its successors."""
        return Snapshot(self.nodes, self.catalog, LoadVersion(self._version.current_load().copy()), self._chosen)

    def select_nodes(self, nodes: Indices | NodeSubset) -> Snapshot:
        """Return a snapshot of these nodes only. A part refers to the whole table."""
        if isinstance(nodes, NodeSubset):
            return Snapshot(self.nodes, self.catalog, self._version, nodes.nodes, nodes)
        chosen = nodes if self._chosen is None else self._chosen[nodes]
        return Snapshot(self.nodes, self.catalog, self._version, chosen)

    def single_node(self, index: int) -> Snapshot:
        """Return one node with its Pods, separate from the others, to find the Pods to evict from it."""
        node = index if self._chosen is None else int(self._chosen[index])
        cut = LoadVersion(self._version.current_load().single_row(node))
        return Snapshot(self.nodes, self.catalog, cut, np.array([node], dtype=np.intp))

    def with_further_pods(self, info: PodInfo, nodes: Indices, further: Amounts) -> Snapshot:
        """Return these nodes, which may repeat, each with this number of further Pods like `info`.

        The result has amounts and Pod counts. It has no Pods, host ports or allocated units. Only for a snapshot of all
        nodes.
        """
        laden = self._version.current_load().with_further_pods(info, nodes, further)
        return Snapshot(self.nodes, self.catalog, LoadVersion(laden), nodes)

    def with_nominated_pods(self, promised: NominatedPods, nodes: Indices) -> Snapshot:
        """Return these nodes with their nominated Pods counted.

        The result has the same limits as that of `with_further_pods`.
        """
        crowded = self._version.current_load().with_nominated_pods(promised, nodes)
        return Snapshot(self.nodes, self.catalog, LoadVersion(crowded), nodes)

    def assume(self, info: PodInfo, index: int) -> Snapshot:
        """Return the snapshot with the Pod on the node at this index."""
        return self._next_snapshot(LoadChange((info,), (self._row(index),), 1))

    def forget(self, info: PodInfo) -> Snapshot:
        """Return the snapshot without the Pod; `KeyError` if it is not placed."""
        found = self._version.current_load().placed.get(info.uid)
        if found is None:
            raise KeyError(str(info))
        return self._next_snapshot(LoadChange((found[0],), (found[1],), -1))

    def with_updated_pod(self, info: PodInfo) -> Snapshot:
        """Return the snapshot with a new state of a placed Pod: its labels, its start or its deletion.

        Most Pods change in this way once: kube-apiserver adds labels of the node when it binds them. The result is that
        of `forget` and `assume`, but the amounts of the node are not touched.
        """
        known = self._version.current_load().placed.get(info.uid)
        if known is None:
            raise KeyError(str(info))
        return self._next_snapshot(LoadChange((known[0], info), (known[1],), 0))

    def assume_equal(self, infos: Sequence[PodInfo], nodes: Indices) -> Snapshot:
        """Return the snapshot with these Pods, each on the node at the same position.

        The Pods have one template, one labels object, one priority and equal volumes.
        """
        return self._next_snapshot(LoadChange(tuple(infos), nodes, 1))

    def with_catalog(self, catalog: Catalog) -> Snapshot:
        """Return the snapshot with other cluster objects."""
        return Snapshot(self.nodes, catalog, self._version, self._chosen, self._part)

    def with_changed_nodes(self, nodes: NodeTable) -> Snapshot:
        """Return the snapshot over a table with the same nodes in the same order, some of them changed."""
        self._version.current_load().tallies.clear()
        return Snapshot(nodes, self.catalog, self._version, self._chosen)

    def with_nodes(self, nodes: NodeTable) -> Snapshot:
        """Return the snapshot over another table, without the Pods on nodes that it lacks. Only for all nodes."""
        old = self.nodes
        moved = np.full(len(old) + 1, NO_NODE, dtype=np.int32)  # the last entry is for NOWHERE itself
        moved[:-1] = [nodes.index.get(name, NO_NODE) for name in old.names]
        return Snapshot(nodes, self.catalog, LoadVersion(self._version.current_load().remap_rows(moved, len(nodes))))

    def rows_changed_since(self, position: int) -> list[int] | None:
        """Return rows changed since this `log_position`, with repetitions; None if the log no longer has them."""
        return self._version.current_load().rows_changed_since(position)

    @property
    def log_position(self) -> int:
        return self._version.current_load().log_end

    @property
    def lineage(self) -> object:
        """The same object for snapshots whose log positions are comparable."""
        return self._version.current_load()

    def _row(self, index: int) -> int:
        """Return the ledger's row for the node at this index."""
        return index if self._chosen is None or self._version.current_load().alone else int(self._chosen[index])

    def _take_chosen(self, column: NDArray[A]) -> NDArray[A]:
        return column if self._version.current_load().alone else take(column, self._chosen)

    def _next_snapshot(self, step: LoadChange) -> Snapshot:
        return Snapshot(self.nodes, self.catalog, self._version.next_version(step), self._chosen)


def snapshot_of(nodes: NodeTable, placed: Iterable[tuple[PodInfo, int]], catalog: Catalog = EMPTY_CATALOG) -> Snapshot:
    """Return a snapshot with these placed Pods."""
    snapshot = Snapshot(nodes, catalog)
    for info, index in placed:
        snapshot = snapshot.assume(info, index)
    return snapshot
