"""All that a decision looks at: frozen columns over nodes, and the pods on them.

A snapshot never changes. `assume` and `forget` return another one, which takes the columns over and alters the entries
of one node; the older snapshot remembers how to undo that, and makes itself a copy should anyone still ask it. So the
usual chain of decisions costs a few entries each, and a branch ("what if") costs one copy (after Baker, "Shallow
binding makes functional arrays fast", 1991).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from situate.framework.pod.pods import HostPort, PodInfo
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.derived_columns import Derived, Load, Numbers
from situate.framework.snapshot.device_allocations import Holding, Units
from situate.framework.snapshot.labels import Domains, Ids
from situate.framework.snapshot.node_load import Amounts, Ledger, Shares, Step, Version
from situate.framework.snapshot.node_subset import Part
from situate.framework.snapshot.node_table import NodeTable, take
from situate.framework.snapshot.nominated_pods import Promised
from situate.framework.snapshot.placed_pods import NOWHERE, PlacedPods
from situate.framework.snapshot.pod_affinity_index import LiveTerms
from situate.framework.snapshot.topology_counts import Question
from situate.framework.volumes.catalog import EMPTY, Catalog
from situate.framework.volumes.volume_use import VolumeUse

A = TypeVar("A", bound=np.generic)
P = TypeVar("P")


class Snapshot:
    """Columns over some nodes. Arrays that it gives must not be written to."""

    __slots__ = ("_chosen", "_part", "_version", "catalog", "nodes")

    def __init__(
        self,
        nodes: NodeTable,
        catalog: Catalog = EMPTY,
        version: Version | None = None,
        chosen: Indices | None = None,
        part: Part | None = None,
    ) -> None:
        """No pods are in place yet; `version`, `chosen` and `part` are for this module."""
        self.nodes = nodes
        self.catalog = catalog
        self._version = version or Version(Ledger.empty(nodes))
        self._chosen = chosen
        self._part = part

    # Static columns

    @property
    def count(self) -> int:
        """So many nodes."""
        return len(self.nodes) if self._chosen is None else len(self._chosen)

    @property
    def chosen(self) -> Indices | None:
        """Which nodes of `nodes` this is about; None is all of them."""
        return self._chosen

    def name(self, index: int) -> str:
        return self.nodes.names[index if self._chosen is None else int(self._chosen[index])]

    def allocatable(self, column: int) -> Amounts:
        """Of the resource with this column (`ResourceColumns`)."""
        columns = self.nodes.allocatable
        if column >= len(columns):
            return np.zeros(self.count, dtype=np.int64)
        return take(columns[column], self._chosen)

    def room(self, columns: tuple[int, ...]) -> Shares:
        """`allocatable` of these resources, (resources, nodes), as floats, which are exact up to 2^53."""
        room = self.nodes.room(columns)
        return room if self._chosen is None else room.take(self._chosen, axis=1)

    @property
    def allowed_pods(self) -> Amounts:
        return take(self.nodes.allowed_pods, self._chosen)

    @property
    def unschedulable(self) -> Mask:
        return take(self.nodes.unschedulable, self._chosen)

    def static(self, key: Hashable, build: Callable[[NodeTable], NDArray[A]]) -> NDArray[A]:
        """(nodes,): what depends on labels, taints, names and images alone; built once for each key and table.

        `key` begins with the plugin's name and holds all that `build` depends on besides the table.
        """
        return take(self.nodes.static(key, build), self._chosen)

    @property
    def remembers(self) -> bool:
        """Whether `plan` gives again what it has given."""
        return self._part is not None or self._chosen is None

    def plan(self, key: Hashable, build: Callable[[], P]) -> P:
        """What depends on which nodes these are and on their static columns alone.

        Made once for each key where `at` was given a part, or nothing is left out; whatever a key names by `id` has to
        be kept by the result.
        """
        if self._part is not None:
            return self._part.plan(key, build)
        return self.nodes.plan(key, build) if self._chosen is None else build()

    def domains(self, key: str) -> Domains:
        """The domains of a topology key, over all nodes."""
        return self.nodes.labels.domains(key)

    def domain_of_node(self, key: str) -> Ids:
        """(nodes,): each node's domain; -1 where it lacks the key."""
        return take(self.nodes.labels.domains(key).of_node, self._chosen)

    def over_nodes(self, key: str, values: NDArray[A], missing: float) -> NDArray[A]:
        """(nodes,): of each node's domain the entry of `values`, (domains,); `missing` where it lacks the key.

        Not to be written to: it may be `values` itself.
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
        """(nodes,): each node's domain; where it lacks the key the number behind the last one."""
        domains = self.nodes.labels.domains(key)

        def build() -> Indices:
            of_node = take(domains.of_node, self._chosen)
            return np.where(of_node < 0, domains.count, of_node).astype(np.intp)

        return self.plan(("place", key), build)

    def present(self, key: str) -> Mask:
        """(domains + 1,): which of the entries of `place_of_node` there are."""

        def build() -> Mask:
            there = np.zeros(self.nodes.labels.domains(key).count + 1, dtype=np.bool_)
            there[self.place_of_node(key)] = True
            return there

        return self.plan(("present", key), build)

    # Dynamic columns

    def requested(self, column: int) -> Amounts:
        """What the pods in place ask for of the resource with this column."""
        columns = self._version.now().requested
        if column >= len(columns):
            return np.zeros(self.count, dtype=np.int64)
        return self._local(columns[column])

    def scored_requested(self, column: int) -> Amounts:
        """The same with the defaults of containers that name no request; cpu (0) and memory (1) only."""
        return self._local(self._version.now().scored[column])

    def in_use(self, columns: tuple[int, ...], *, scored: bool) -> Shares:
        """`requested`, (resources, nodes), as floats, which are exact up to 2^53; `scored_requested` if that is wanted,
        of cpu and memory."""
        ledger = self._version.now()
        used = ledger.in_use(columns, scored=scored)
        return used if self._chosen is None or ledger.alone else used.take(self._chosen, axis=1)

    @property
    def pod_count(self) -> Amounts:
        return self._local(self._version.now().pod_count)

    def port_in_use(self, wanted: HostPort) -> Mask:
        """(nodes,): whether a pod there has that port, at that address or at any."""
        return self._local(self._version.now().port_in_use(wanted))

    @property
    def volume_use(self) -> VolumeUse:
        """Which pods in place use which volumes, to be read only; its rows are those of `row_names`."""
        return self._version.now().volumes

    @property
    def row_names(self) -> Sequence[str]:
        """The nodes of the rows on which pods are counted: those of the table, or of a snapshot that is cut off."""
        return [self.name(index) for index in range(self.count)] if self._version.now().alone else self.nodes.names

    def of_rows(self, column: NDArray[A]) -> NDArray[A]:
        """(nodes,): the entries of a column over the rows."""
        return self._local(column)

    def tally(self, question: Question) -> NDArray[np.int64]:
        """(domains,): the pods that a question is about, over all nodes; copy what is to be kept.

        Only of a snapshot of all nodes.
        """
        ledger = self._version.now()
        return ledger.tallies.get(question, self.domains(question.topology_key), lambda: ledger.placed)

    def derived(self, derived: Derived) -> Numbers:
        """(width, nodes): columns that follow from what is on a node; of all nodes they are kept."""
        ledger = self._version.now()
        if ledger.alone or self._chosen is not None:
            return derived.of(self)
        return ledger.derived.get(derived, self, ledger, ledger.log_end, ledger.changed_since)

    @property
    def load(self) -> Load:
        """What is on all the nodes, to be read only, at once."""
        return self._version.now()

    def held(self, holding: Holding, width: int) -> Units:
        """(width, nodes): what the pods on each node hold of its first units; not to be written to."""
        ledger = self._version.now()
        held = ledger.holdings.get(holding, width, len(ledger.pod_count), lambda: ledger.placed)
        return held if ledger.alone or self._chosen is None else held.take(self._chosen, axis=1)

    @property
    def live_terms(self) -> LiveTerms:
        """What the pods in place say about others, to be read only."""
        return self._version.now().live_terms

    def pods_on(self, index: int) -> list[PodInfo]:
        """The pods on the node at this index."""
        ledger = self._version.now()
        return ledger.placed.on(index if self._chosen is None or ledger.alone else int(self._chosen[index]))

    @property
    def placed(self) -> PlacedPods:
        """All pods in place, to be read only."""
        return self._version.now().placed

    # Others like it

    def branch(self) -> Snapshot:
        """The same over columns of its own: what is tried there costs this one and its successors nothing."""
        return Snapshot(self.nodes, self.catalog, Version(self._version.now().copy()), self._chosen)

    def at(self, nodes: Indices | Part) -> Snapshot:
        """Of these nodes alone. A part is of the whole table."""
        if isinstance(nodes, Part):
            return Snapshot(self.nodes, self.catalog, self._version, nodes.nodes, nodes)
        chosen = nodes if self._chosen is None else self._chosen[nodes]
        return Snapshot(self.nodes, self.catalog, self._version, chosen)

    def alone(self, index: int) -> Snapshot:
        """One node with its pods, cut off from the others: for trying which of its pods would have to go."""
        node = index if self._chosen is None else int(self._chosen[index])
        cut = Version(self._version.now().alone_at(node))
        return Snapshot(self.nodes, self.catalog, cut, np.array([node], dtype=np.intp))

    def loaded(self, info: PodInfo, nodes: Indices, further: Amounts) -> Snapshot:
        """These nodes, which may repeat, each with so many further pods like `info` on it.

        It knows amounts and pod counts, not which pods are there, which ports they have or which units they would be
        given. Only of all nodes.
        """
        laden = self._version.now().loaded_at(info, nodes, further)
        return Snapshot(self.nodes, self.catalog, Version(laden), nodes)

    def with_promised(self, promised: Promised, nodes: Indices) -> Snapshot:
        """These nodes with the pods that they are promised to on them; it knows no more of them than `loaded` does."""
        crowded = self._version.now().with_promised(promised, nodes)
        return Snapshot(self.nodes, self.catalog, Version(crowded), nodes)

    def assume(self, info: PodInfo, index: int) -> Snapshot:
        """With the pod on the node at this index."""
        return self._after(Step((info,), (self._row(index),), 1))

    def forget(self, info: PodInfo) -> Snapshot:
        """Without the pod; `KeyError` if it is not in place."""
        found = self._version.now().placed.get(info.uid)
        if found is None:
            raise KeyError(str(info))
        return self._after(Step((found[0],), (found[1],), -1))

    def retold(self, info: PodInfo) -> Snapshot:
        """With a pod that is in place said anew: with other labels, begun or ending, and nothing else that counts.

        Most pods are once, as soon as they are bound: kube-apiserver gives them labels of their nodes then. It comes to
        what `forget` and `assume` would, and the amounts of the node stay as they are.
        """
        known = self._version.now().placed.get(info.uid)
        if known is None:
            raise KeyError(str(info))
        return self._after(Step((known[0], info), (known[1],), 0))

    def assume_equal(self, infos: Sequence[PodInfo], nodes: Indices) -> Snapshot:
        """With pods of one template, one labels object, one priority and equal volumes, each on the node beside it."""
        return self._after(Step(tuple(infos), nodes, 1))

    def with_catalog(self, catalog: Catalog) -> Snapshot:
        """With other objects around it."""
        return Snapshot(self.nodes, catalog, self._version, self._chosen, self._part)

    def with_changed_nodes(self, nodes: NodeTable) -> Snapshot:
        """Over a table of the same nodes in the same order, some of which have changed."""
        self._version.now().tallies.clear()
        return Snapshot(nodes, self.catalog, self._version, self._chosen)

    def with_nodes(self, nodes: NodeTable) -> Snapshot:
        """Over another table; pods on nodes that it lacks are not in place any more. Only of all nodes."""
        old = self.nodes
        moved = np.full(len(old) + 1, NOWHERE, dtype=np.int32)  # the last entry is for NOWHERE itself
        moved[:-1] = [nodes.index.get(name, NOWHERE) for name in old.names]
        return Snapshot(nodes, self.catalog, Version(self._version.now().moved(moved, len(nodes))))

    def changed_since(self, position: int) -> list[int] | None:
        """Rows that changed since `position` was `log_position`, with repetitions; None if that is forgotten."""
        return self._version.now().changed_since(position)

    @property
    def log_position(self) -> int:
        return self._version.now().log_end

    @property
    def lineage(self) -> object:
        """The same object for snapshots whose log positions can be compared."""
        return self._version.now()

    def _row(self, index: int) -> int:
        """Where the ledger keeps the node at this index."""
        return index if self._chosen is None or self._version.now().alone else int(self._chosen[index])

    def _local(self, column: NDArray[A]) -> NDArray[A]:
        return column if self._version.now().alone else take(column, self._chosen)

    def _after(self, step: Step) -> Snapshot:
        return Snapshot(self.nodes, self.catalog, self._version.after(step), self._chosen)


def snapshot_of(nodes: NodeTable, placed: Iterable[tuple[PodInfo, int]], catalog: Catalog = EMPTY) -> Snapshot:
    """A snapshot with these pods in place."""
    snapshot = Snapshot(nodes, catalog)
    for info, index in placed:
        snapshot = snapshot.assume(info, index)
    return snapshot
