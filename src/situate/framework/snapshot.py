"""All that a decision looks at: frozen columns over nodes, and the pods on them.

A snapshot never changes. `assume` and `forget` return another one, which takes the columns over and alters the entries
of one node; the older snapshot remembers how to undo that, and makes itself a copy should anyone still ask it. So the
usual chain of decisions costs a few entries each, and a branch ("what if") costs one copy (after Baker, "Shallow
binding makes functional arrays fast", 1991).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from situate.framework.catalog import EMPTY, Catalog
from situate.framework.gauges import Derived, DerivedColumns, Load, Numbers
from situate.framework.holdings import Holding, Holdings, Units
from situate.framework.labels import Domains, Ids
from situate.framework.live_terms import LiveTerms
from situate.framework.nodes import Columns, NodeTable, take
from situate.framework.parts import Part
from situate.framework.placed import NOWHERE, PlacedPods
from situate.framework.pods import ANY_ADDRESS, HostPort, PodInfo
from situate.framework.promised import Promised
from situate.framework.tallies import Question, Tallies
from situate.framework.verdict import Indices, Mask
from situate.framework.volume_use import VolumeUse

A = TypeVar("A", bound=np.generic)
P = TypeVar("P")
Amounts = NDArray[np.int64]
"""(nodes,)"""
Shares = NDArray[np.float64]
"""(nodes,)"""

SCORED: Final = 2
"""The first so many resources, cpu and memory, have defaults for scores."""
_PORTS: Final = 256
"""Host ports that are looked for before all are looked for anew."""
_LOG: Final = 2**16
"""Changed rows that are remembered for those who rescore only these."""


class Snapshot:
    """Columns over some nodes. Arrays that it gives must not be written to."""

    __slots__ = ("_chosen", "_part", "_version", "catalog", "nodes")

    def __init__(
        self,
        nodes: NodeTable,
        catalog: Catalog = EMPTY,
        version: _Version | None = None,
        chosen: Indices | None = None,
        part: Part | None = None,
    ) -> None:
        """No pods are in place yet; `version`, `chosen` and `part` are for this module."""
        self.nodes = nodes
        self.catalog = catalog
        self._version = version or _Version(_Ledger.empty(nodes))
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
        return Snapshot(self.nodes, self.catalog, _Version(self._version.now().copy()), self._chosen)

    def at(self, nodes: Indices | Part) -> Snapshot:
        """Of these nodes alone. A part is of the whole table."""
        if isinstance(nodes, Part):
            return Snapshot(self.nodes, self.catalog, self._version, nodes.nodes, nodes)
        chosen = nodes if self._chosen is None else self._chosen[nodes]
        return Snapshot(self.nodes, self.catalog, self._version, chosen)

    def alone(self, index: int) -> Snapshot:
        """One node with its pods, cut off from the others: for trying which of its pods would have to go."""
        node = index if self._chosen is None else int(self._chosen[index])
        cut = _Version(self._version.now().alone_at(node))
        return Snapshot(self.nodes, self.catalog, cut, np.array([node], dtype=np.intp))

    def loaded(self, info: PodInfo, nodes: Indices, further: Amounts) -> Snapshot:
        """These nodes, which may repeat, each with so many further pods like `info` on it.

        It knows amounts and pod counts, not which pods are there, which ports they have or which units they would be
        given. Only of all nodes.
        """
        laden = self._version.now().loaded_at(info, nodes, further)
        return Snapshot(self.nodes, self.catalog, _Version(laden), nodes)

    def with_promised(self, promised: Promised, nodes: Indices) -> Snapshot:
        """These nodes with the pods that they are promised to on them; it knows no more of them than `loaded` does."""
        crowded = self._version.now().with_promised(promised, nodes)
        return Snapshot(self.nodes, self.catalog, _Version(crowded), nodes)

    def assume(self, info: PodInfo, index: int) -> Snapshot:
        """With the pod on the node at this index."""
        return self._after(_Step((info,), (self._row(index),), 1))

    def forget(self, info: PodInfo) -> Snapshot:
        """Without the pod; `KeyError` if it is not in place."""
        found = self._version.now().placed.get(info.uid)
        if found is None:
            raise KeyError(str(info))
        return self._after(_Step((found[0],), (found[1],), -1))

    def retold(self, info: PodInfo) -> Snapshot:
        """With a pod that is in place said anew: with other labels, begun or ending, and nothing else that counts.

        Most pods are once, as soon as they are bound: kube-apiserver gives them labels of their nodes then. It comes to
        what `forget` and `assume` would, and the amounts of the node stay as they are.
        """
        known = self._version.now().placed.get(info.uid)
        if known is None:
            raise KeyError(str(info))
        return self._after(_Step((known[0], info), (known[1],), 0))

    def assume_equal(self, infos: Sequence[PodInfo], nodes: Indices) -> Snapshot:
        """With pods of one template, one labels object, one priority and equal volumes, each on the node beside it."""
        return self._after(_Step(tuple(infos), nodes, 1))

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
        return Snapshot(nodes, self.catalog, _Version(self._version.now().moved(moved, len(nodes))))

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

    def _after(self, step: _Step) -> Snapshot:
        return Snapshot(self.nodes, self.catalog, self._version.after(step), self._chosen)


class _Version:
    """What is on the nodes, as one snapshot and the views on it see it."""

    __slots__ = ("ledger", "newer", "step")

    def __init__(self, ledger: _Ledger) -> None:
        self.ledger: _Ledger | None = ledger
        """None once a newer version has taken it over."""
        self.newer: _Version | None = None
        self.step: _Step | None = None
        """What leads to the newer version."""

    def now(self) -> _Ledger:
        """The columns of this version."""
        ledger = self.ledger
        if ledger is None:
            ledger = self.ledger = self._reconstructed()
            self.newer = self.step = None
        return ledger

    def after(self, step: _Step) -> _Version:
        """The version after one more step; it takes the columns over."""
        ledger = self.now()
        ledger.apply(step)
        self.ledger, self.newer, self.step = None, _Version(ledger), step
        return self.newer

    def _reconstructed(self) -> _Ledger:
        steps: list[_Step] = []
        version = self
        while version.ledger is None:
            assert version.newer is not None
            assert version.step is not None
            steps.append(version.step)
            version = version.newer
        ledger = version.ledger.copy()
        for step in reversed(steps):
            ledger.apply(step.undone())
        return ledger


class _Step(msgspec.Struct, frozen=True, gc=False):
    """Pods that come to (+1) or leave (-1) the rows beside them; made for every placement.

    Or a pod that stays on its row (0), as it was and as it is.
    """

    infos: tuple[PodInfo, ...]
    rows: Sequence[int] | Indices
    sign: int

    def undone(self) -> _Step:
        return _Step(self.infos if self.sign else self.infos[::-1], self.rows, -self.sign)


@dataclass(slots=True, eq=False)
class _Ledger:
    """The columns themselves; whoever is the newest snapshot of a chain holds them."""

    requested: Columns
    scored: Columns
    pod_count: Amounts
    ports: dict[tuple[str, int], dict[str, dict[int, int]]] = field(default_factory=dict)
    """By protocol and port, address, row: so many pods."""
    placed: PlacedPods = field(default_factory=PlacedPods)
    tallies: Tallies = field(default_factory=Tallies)
    live_terms: LiveTerms = field(default_factory=LiveTerms)
    volumes: VolumeUse = field(default_factory=VolumeUse)
    holdings: Holdings = field(default_factory=Holdings)
    alone: bool = False
    """Whether its rows are those of the snapshot, whatever their nodes; else they are those of the table."""
    changed: list[int] = field(default_factory=list)
    log_begin: int = 0
    floats: dict[tuple[tuple[int, ...], bool], Shares] = field(default_factory=dict)
    """Columns of `requested`, or of `scored` if the key says so, as floats: those that were asked for together."""
    ports_in_use: dict[HostPort, Mask] = field(default_factory=dict)
    """(rows,): where the port is taken, of those that were asked for."""
    derived: DerivedColumns = field(default_factory=DerivedColumns)

    @classmethod
    def empty(cls, nodes: NodeTable) -> _Ledger:
        count = len(nodes)
        zeros = np.zeros
        return cls(
            zeros((len(nodes.vocabulary.resources), count), np.int64),
            zeros((2, count), np.int64),
            zeros(count, np.int64),
        )

    @property
    def log_end(self) -> int:
        return self.log_begin + len(self.changed)

    def in_use(self, columns: tuple[int, ...], *, scored: bool) -> Shares:
        values = self.floats.get((columns, scored))
        if values is None:
            values = np.zeros((len(columns), len(self.pod_count)))
            for place, column in enumerate(columns):
                if scored and column < SCORED:
                    values[place] = self.scored[column]
                elif column < len(self.requested):
                    values[place] = self.requested[column]
            self.floats[columns, scored] = values
        return values

    def changed_since(self, position: int) -> list[int] | None:
        return None if position < self.log_begin else self.changed[position - self.log_begin :]

    def apply(self, step: _Step) -> None:
        infos, rows, sign = step.infos, step.rows, step.sign
        if not sign:
            self._tell_anew(infos[0], infos[1], int(rows[0]))
        elif len(infos) == 1:
            self._apply_one(infos[0], int(rows[0]), sign)
        else:
            self._apply_equal(infos, np.asarray(rows, dtype=np.intp), sign)
        if len(self.changed) > _LOG:
            half = len(self.changed) // 2
            self.log_begin += half
            del self.changed[:half]

    def _apply_one(self, info: PodInfo, row: int, sign: int) -> None:
        template = info.template
        if sign > 0:
            self.placed.add(info, row)
        else:
            self.placed.remove(info.uid)
        requested, scored_columns, request = self.requested, self.scored, template.request
        for column, amount in template.columns:
            if column >= len(requested):
                self._grow(column + 1)
                requested = self.requested
            requested[column, row] = requested.item(column, row) + sign * amount  # half the time of `+=`
        scored_columns[0, row] = scored_columns.item(0, row) + sign * request.scored_cpu
        scored_columns[1, row] = scored_columns.item(1, row) + sign * request.scored_memory
        for (columns, scored), values in self.floats.items():
            for place, column in enumerate(columns):
                if scored and column < SCORED:
                    values[place, row] = self.scored[column, row]
                elif column < len(self.requested):
                    values[place, row] = self.requested[column, row]
        self.pod_count[row] = self.pod_count.item(row) + sign
        for port in template.host_ports:
            self._count_port(port, row, sign)
        if info.volumes:
            self.volumes.move(info, row, sign)
        if template.has_terms:
            self.live_terms.move(template, sign)
        self.tallies.move(info, row, sign)
        self.holdings.move(info, row, sign)
        self.changed.append(row)

    def _tell_anew(self, before: PodInfo, after: PodInfo, row: int) -> None:
        self.placed.replace(after)
        self.tallies.move(before, row, -1)
        self.tallies.move(after, row, 1)
        self.changed.append(row)

    def _apply_equal(self, infos: Sequence[PodInfo], rows: Indices, sign: int) -> None:
        first = infos[0]
        if first.template.host_ports or first.volumes or sign < 0:
            for info, row in zip(infos, rows.tolist(), strict=True):
                self._apply_one(info, row, sign)
            return
        self.placed.extend(infos, rows, first.priority)
        counts = np.bincount(rows, minlength=len(self.pod_count))
        for column, amount in first.template.columns:
            if column >= len(self.requested):
                self._grow(column + 1)
            self.requested[column] += counts * amount
        self.scored[0] += counts * first.template.request.scored_cpu
        self.scored[1] += counts * first.template.request.scored_memory
        self.pod_count += counts
        self.floats.clear()
        self.live_terms.move(first.template, len(infos))
        self.tallies.move_equal(first, rows, 1)
        self.holdings.move_each(infos, rows)
        self.changed += np.flatnonzero(counts).tolist()

    def _count_port(self, port: HostPort, row: int, sign: int) -> None:
        address, protocol, number = port
        on = self.ports.setdefault((protocol, number), {}).setdefault(address, {})
        on[row] = on.get(row, 0) + sign
        if not on[row]:
            del on[row]
        for wanted, used in self.ports_in_use.items():
            if wanted[1:] == (protocol, number):
                used[row] = any(row in there for there in self._conflicting(wanted))

    def port_in_use(self, wanted: HostPort) -> Mask:
        used = self.ports_in_use.get(wanted)
        if used is None:
            if len(self.ports_in_use) >= _PORTS:
                self.ports_in_use.clear()
            used = self.ports_in_use[wanted] = np.zeros(len(self.pod_count), dtype=np.bool_)
            for on in self._conflicting(wanted):
                used[list(on)] = True
        return used

    def _conflicting(self, wanted: HostPort) -> list[dict[int, int]]:
        """Who has that port, at that address or at any."""
        address, protocol, port = wanted
        addresses = self.ports.get((protocol, port), {})
        return [on for other, on in addresses.items() if other == address or ANY_ADDRESS in (other, address)]

    def _grow(self, count: int) -> None:
        """By doubling: there may be thousands of resources; rows that nobody writes to take no memory."""
        grown = np.zeros((max(count, 2 * len(self.requested)), self.requested.shape[1]), dtype=np.int64)
        grown[: len(self.requested)] = self.requested
        self.requested = grown

    def copy(self) -> _Ledger:
        return _Ledger(
            self.requested.copy(),
            self.scored.copy(),
            self.pod_count.copy(),
            {key: {address: dict(on) for address, on in each.items()} for key, each in self.ports.items()},
            placed=self.placed.copy(),
            tallies=self.tallies.copy(),
            live_terms=self.live_terms.copy(),
            volumes=self.volumes.copy(),
            holdings=self.holdings.copy(),
            alone=self.alone,
        )

    def moved(self, row_of: Ids, count: int) -> _Ledger:
        """The same pods on other rows: `row_of` each old row, `NOWHERE` for one that is gone."""
        kept = np.flatnonzero(row_of[:-1] >= 0)
        rows = row_of[kept]
        requested = np.zeros((len(self.requested), count), dtype=np.int64)
        scored = np.zeros((2, count), dtype=np.int64)
        pod_count = np.zeros(count, dtype=np.int64)
        requested[:, rows] = self.requested[:, kept]
        scored[:, rows] = self.scored[:, kept]
        pod_count[rows] = self.pod_count[kept]
        moved = _Ledger(
            requested, scored, pod_count, placed=self.placed.moved(row_of), volumes=self.volumes.moved(row_of)
        )
        moved.holdings = self.holdings.moved(kept, rows, count)
        for (protocol, number), addresses in self.ports.items():
            for address, on in addresses.items():
                at = {int(row_of[row]): pods for row, pods in on.items() if row_of[row] >= 0}
                moved.ports.setdefault((protocol, number), {})[address] = at
        for info, _ in moved.placed:
            moved.live_terms.move(info.template, 1)
        return moved

    def loaded_at(self, info: PodInfo, rows: Indices, further: Amounts) -> _Ledger:
        """Rows of their own for these, each with so many further pods."""
        for column, _ in info.template.columns:
            if column >= len(self.requested):
                self._grow(column + 1)
        laden = _Ledger(self.requested[:, rows], self.scored[:, rows], self.pod_count[rows] + further, alone=True)
        laden.holdings = self.holdings.at(rows)
        for column, amount in info.template.columns:
            laden.requested[column] += further * amount
        laden.scored[0] += further * info.template.request.scored_cpu
        laden.scored[1] += further * info.template.request.scored_memory
        return laden

    def with_promised(self, promised: Promised, rows: Indices) -> _Ledger:
        """Rows of their own for these, which may not repeat."""
        requested, pods = promised.at(rows, len(self.requested))
        requested[: len(self.requested)] += self.requested[:, rows]
        crowded = _Ledger(requested, self.scored[:, rows], self.pod_count[rows] + pods, alone=True)
        crowded.holdings = self.holdings.at(rows)
        return crowded

    def alone_at(self, row: int) -> _Ledger:
        cut = _Ledger(self.requested[:, [row]], self.scored[:, [row]], self.pod_count[[row]], alone=True)
        cut.holdings = self.holdings.at(np.array([row], dtype=np.intp))
        for info in self.placed.on(row):
            cut.placed.add(info, 0)
            cut.live_terms.move(info.template, 1)
            for port in info.template.host_ports:
                cut._count_port(port, 0, 1)
            if info.volumes:
                cut.volumes.move(info, 0, 1)
        return cut


def snapshot_of(nodes: NodeTable, placed: Iterable[tuple[PodInfo, int]], catalog: Catalog = EMPTY) -> Snapshot:
    """A snapshot with these pods in place."""
    snapshot = Snapshot(nodes, catalog)
    for info, index in placed:
        snapshot = snapshot.assume(info, index)
    return snapshot
