"""Asking plugins about a `World`, in the words of their twins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from situate.framework.plugin_api.plugin import (
    GradingPlugin,
    NormalizePlugin,
    Plugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    Scores,
)
from situate.framework.pod.pods import PodInfo, PodReader
from situate.framework.results.status import Code
from situate.framework.snapshot.node_subset import NodeSubset
from situate.framework.snapshot.node_table import Vocabulary, node_row, node_table
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.catalog import Catalog
from situate.framework.volumes.storage import Storage
from situate.objects.kinds.pods import Pod
from situate.objects.selection.label_selectors import selector_of
from tests.plugins.twins.world import PASS, Answer, World


@dataclass(frozen=True)
class Vectors:
    """A world in columns."""

    snapshot: Snapshot
    reader: PodReader

    @classmethod
    def of(cls, world: World) -> Vectors:
        vocabulary = Vocabulary.create()
        reader = PodReader(vocabulary.resources)
        infos = [reader.read(each) for each in identified(world.pods)]
        table = node_table(vocabulary, [node_row(node, vocabulary) for node in world.nodes])
        catalog = Catalog(
            namespaces=world.namespaces,
            services=world.services,
            owners={key: selector_of(wire) for key, wire in world.owners.items()},
            storage=Storage.from_objects(world.storage),
        )
        snapshot = Snapshot(table, catalog)
        for info in infos:
            index = table.index.get(info.pod.spec.node_name)
            if index is not None:
                snapshot = snapshot.assume(info, index)
        return cls(snapshot, reader)

    def read(self, pod: Pod) -> PodInfo:
        (identified_pod,) = identified([pod])
        return self.reader.read(identified_pod)

    def filter(self, plugin: Any, pod: Pod) -> dict[str, Answer]:
        """By node."""
        info = self.read(pod)
        state, skipped = pre_filtered(plugin, info, self.snapshot)
        return {} if skipped else self.filter_with(plugin, state, info)

    def filter_with(self, plugin: Any, state: Any, info: PodInfo) -> dict[str, Answer]:
        return answers(plugin, state, info, self.snapshot)

    def scores(self, plugin: Any, pod: Pod, feasible: Iterable[int] | None = None) -> list[int] | None:
        """Of the feasible nodes, all of them if None; None is Skip."""
        info = self.read(pod)
        state, _ = pre_filtered(plugin, info, self.snapshot)
        chosen = range(self.snapshot.count) if feasible is None else feasible
        view = self.snapshot.select_nodes(NodeSubset(np.array(list(chosen), dtype=np.intp)))
        if isinstance(plugin, PreScorePlugin):
            found = plugin.pre_score(state, info, view)
            if found.code is Code.SKIP:
                return None
            state = found.state
        raw: Scores = plugin.score(state, info, view)
        if not isinstance(plugin, NormalizePlugin):
            return [int(each) for each in raw]
        normalized = plugin.normalize(state, info, raw)
        if isinstance(plugin, GradingPlugin):
            grades = plugin.grades(state, info, view)
            assert grades.by_node().tolist() == raw.tolist(), "said once or node by node, the scores differ"
            assert (
                grades.spread_over_nodes(plugin.normalize(state, info, grades.present_values)).tolist()
                == normalized.tolist()
            )
        return [int(each) for each in normalized]


def pre_filtered(plugin: Plugin, info: PodInfo, snapshot: Snapshot) -> tuple[Any, bool]:
    """The state, and whether the plugin skips."""
    if not isinstance(plugin, PreFilterPlugin):
        return None, False
    found = plugin.pre_filter(info, snapshot)
    return found.state, found.status.code is Code.SKIP


def answers(plugin: Any, state: Any, info: PodInfo, snapshot: Snapshot) -> dict[str, Answer]:
    verdict = plugin.filter(state, info, snapshot)
    refused = verdict.refusals()
    found = {}
    for index in range(snapshot.count):
        code = Code(int(refused.code[index]))
        assert (code is Code.SUCCESS) == bool(verdict.passes[index]), "the mask and the codes disagree"
        found[snapshot.name(index)] = PASS if code is Code.SUCCESS else Answer(code.title, refused.reasons_at(index))
    return found


def extends(plugin: Any) -> bool:
    return isinstance(plugin, PreFilterExtensions)


def identified(pods: Sequence[Pod]) -> list[Pod]:
    """With a uid each."""
    found = []
    for number, pod in enumerate(pods):
        uid = pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}/{number}"
        found.append(msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid)))
    return found
