"""Labels of many nodes: a few distinct label sets, and the nodes' own names in some labels.

Nodes of one pool differ only in `kubernetes.io/hostname`. Each set is therefore stored once, without the labels whose
value is the node's own name (its *own keys*). A predicate on labels is evaluated once per distinct set, and the result
is spread over the nodes by indexing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from situate.framework.results.verdict import Mask

Labels = Mapping[str, str]
Ids = NDArray[np.int32]

EACH_NODE: Final = "\0node"
"""A pseudo topology key: every node is a domain of its own, independent of its labels."""


@dataclass(frozen=True, slots=True, eq=False)
class Domains:
    """The topology domains of one label key."""

    key: str
    of_node: Ids
    """(nodes,): the node's domain; -1 if the node lacks the key."""
    values: Sequence[str]
    """The label value of each domain."""
    own: bool
    """Whether each node is a domain of its own."""
    complete: bool = True
    """Whether every node has the key."""

    @property
    def count(self) -> int:
        return len(self.values)


class LabelSets:
    """Distinct label sets without own keys, numbered in order of first use; shared by all tables of one cluster."""

    def __init__(self) -> None:
        self._number: dict[tuple[frozenset[tuple[str, str]], frozenset[str]], int] = {}
        self.labels: list[dict[str, str]] = []
        self.own_keys: list[frozenset[str]] = []

    def number(self, name: str, labels: Labels) -> int:
        """Return the number of the label set of a node with this name and these labels."""
        own = frozenset(key for key, value in labels.items() if value == name)
        rest = {key: value for key, value in labels.items() if key not in own}
        identity = (frozenset(rest.items()), own)
        number = self._number.get(identity)
        if number is None:
            number = self._number[identity] = len(self.labels)
            self.labels.append(rest)
            self.own_keys.append(own)
        return number


class NodeLabels:
    """The labels of a table's nodes. Domains are cached, because callers repeat their questions."""

    def __init__(self, sets: LabelSets, names: Sequence[str], set_of_node: Ids) -> None:
        """`set_of_node` is (nodes,), with numbers of `sets`."""
        self._sets = sets
        self._names = names
        self._set_of_node = set_of_node
        self._present = np.unique(set_of_node)
        self._domains: dict[str, Domains] = {}

    def of(self, node: int) -> dict[str, str]:
        """Return the labels of the node at this index."""
        number = int(self._set_of_node[node])
        return self._all_labels(number, self._names[node])

    def where(self, keys: Iterable[str], holds: Callable[[Labels], bool]) -> Mask:
        """Return (nodes,): the nodes whose labels satisfy `holds`. `keys` must name every label that `holds` reads."""
        looked_at = frozenset(keys)
        of_set = np.zeros(len(self._sets.labels), dtype=np.bool_)
        one_by_one: list[int] = []
        for number in self._present.tolist():
            if looked_at & self._sets.own_keys[number]:
                one_by_one.append(number)
            else:
                of_set[number] = holds(self._sets.labels[number])
        answer: Mask = of_set[self._set_of_node]
        if one_by_one:
            for node in np.flatnonzero(np.isin(self._set_of_node, one_by_one)).tolist():
                answer[node] = holds(self.of(node))
        return answer

    def domains(self, key: str) -> Domains:
        """Return the domains of a topology key, numbered by their first node."""
        known = self._domains.get(key)
        if known is None:
            known = self._domains[key] = self._find_domains(key)
        return known

    def _find_domains(self, key: str) -> Domains:
        own = np.array([key in keys for keys in self._sets.own_keys], dtype=np.bool_)[self._set_of_node]
        if own.all() or key == EACH_NODE:
            return Domains(key, np.arange(len(self._names), dtype=np.int32), self._names, own=True)
        numbers: dict[str, int] = {}
        of_node = np.full(len(self._names), -1, dtype=np.int32)
        by_set: dict[int, int] = {}
        for node, (number, is_own) in enumerate(zip(self._set_of_node.tolist(), own.tolist(), strict=True)):
            if is_own:
                of_node[node] = numbers.setdefault(self._names[node], len(numbers))
                continue
            domain = by_set.get(number)
            if domain is None:
                value = self._sets.labels[number].get(key)
                domain = by_set[number] = -1 if value is None else numbers.setdefault(value, len(numbers))
            of_node[node] = domain
        return Domains(key, of_node, tuple(numbers), own=False, complete=bool((of_node >= 0).all()))

    def _all_labels(self, number: int, name: str) -> dict[str, str]:
        labels = dict(self._sets.labels[number])
        labels.update(dict.fromkeys(self._sets.own_keys[number], name))
        return labels
