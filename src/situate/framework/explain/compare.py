"""Compare another scheduler's choice for a Pod with ours, and name the plugins that cause a difference.

Our choice is computed on the question's snapshot by the plain path. The other scheduler may have evaluated only some
nodes, or an earlier or later state. The caller must take this into account.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from situate.framework.cycle import cycle
from situate.framework.cycle.node_sampling import index_of_best
from situate.framework.engine.messages import no_node_message
from situate.framework.explain.explain import Question, name_of
from situate.framework.preemption.extenders import Steps, filter_feasibility, run_without_questions, scores_of


class Agreement(StrEnum):
    """The relation of the other scheduler's answer to ours."""

    SAME = "same"
    """The same node, or no node in both answers."""
    TIE = "equally good"
    """Another node among our best ones. The choice among them is random."""
    OTHER = "other node"
    """Another node, feasible for us but not the best."""
    IMPOSSIBLE = "impossible here"
    """Another node that one of our plugins refuses, while other nodes are feasible."""
    REFUSED_HERE = "refused here"
    """They found a node; we find none."""
    REFUSED_THERE = "refused there"
    """We find a node; they found none."""

    @property
    def agrees(self) -> bool:
        return self in (Agreement.SAME, Agreement.TIE)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The two answers for one Pod."""

    agreement: Agreement
    ours: str
    """Our node, the first of the best; empty if none is feasible."""
    theirs: str
    """Empty if they found none."""
    totals: tuple[int, int] = (0, 0)
    """The totals of our node and theirs under our profile; zeros if nothing was compared."""
    shares: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By plugin, the weighted scores of our node and theirs, where they differ."""
    refusals: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The plugins that refuse their node here, with reasons."""
    message: str = ""
    """The reason why we find no node."""

    @property
    def difference(self) -> str:
        """A sentence about the difference; empty if there is none."""
        match self.agreement:
            case Agreement.SAME | Agreement.TIE:
                return ""
            case Agreement.OTHER:
                parts = ", ".join(f"{plugin} {ours} against {theirs}" for plugin, (ours, theirs) in self.shares.items())
                return f"{self.ours} has score {self.totals[0]}, {self.theirs} has {self.totals[1]}: {parts}"
            case Agreement.REFUSED_THERE:
                return f"{self.ours} is feasible here"
            case Agreement.REFUSED_HERE if not self.refusals:
                return self.message
            case _:
                refusals = "; ".join(f"{plugin}: {', '.join(reasons)}" for plugin, reasons in self.refusals)
                return f"{self.theirs}: {refusals}"


def compare(question: Question, theirs: str) -> Comparison:
    """Run `compare_steps` for a question without extenders."""
    return run_without_questions(compare_steps(question, theirs))


def compare_steps(question: Question, theirs: str) -> Steps[Comparison]:
    """Compare our answer with theirs; `theirs` is empty if they found no node. `PluginFailed` if a plugin fails."""
    snapshot = question.snapshot
    if not snapshot.count:
        agreement = Agreement.REFUSED_HERE if theirs else Agreement.SAME
        return Comparison(agreement, "", theirs, message=cycle.NO_NODES.message)
    found = question.feasibility()
    promised = yield from question.feasible_nominated_node(found)
    nodes, found = yield from filter_feasibility(
        question.extenders, question.pod, found, np.flatnonzero(found.passes), name_of
    )
    row = snapshot.nodes.index.get(theirs)
    if not len(nodes):
        agreement = Agreement.REFUSED_HERE if theirs else Agreement.SAME
        return Comparison(
            agreement, "", theirs, refusals=_refusals(found, row), message=no_node_message(found.diagnosis())
        )
    if promised is not None:
        nodes = np.array([promised], dtype=np.intp)
    by_plugin = cycle.scores_by_plugin(question.profile, question.pod, found, nodes) if len(nodes) > 1 else []
    if len(nodes) > 1:
        added = yield from scores_of(question.extenders, question.pod, snapshot, nodes)
        by_plugin += [(name_of(extender), share) for extender, share in added]
    totals = np.zeros(len(nodes), dtype=np.int64)
    for _, weighted in by_plugin:
        totals += weighted
    ours = index_of_best(totals)
    name = snapshot.name(int(nodes[ours]))
    if not theirs:
        return Comparison(Agreement.REFUSED_THERE, name, "")
    if theirs == name:
        return Comparison(Agreement.SAME, name, theirs)
    if row is None or not found.passes[row]:
        refusals = _refusals(found, row) if row is not None else (("the cluster", ("the node does not exist",)),)
        return Comparison(Agreement.IMPOSSIBLE, name, theirs, refusals=refusals)
    place = np.flatnonzero(nodes == row)
    if not len(place):  # feasible, but another node was nominated
        return Comparison(Agreement.OTHER, name, theirs)
    other = int(place[0])
    shares = {plugin: (int(each[ours]), int(each[other])) for plugin, each in by_plugin if each[ours] != each[other]}
    agreement = Agreement.TIE if totals[other] == totals[ours] else Agreement.OTHER
    return Comparison(agreement, name, theirs, (int(totals[ours]), int(totals[other])), shares)


def _refusals(found: cycle.Feasibility, row: int | None) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return every plugin's refusal of one node."""
    if row is None:
        return ()
    prepared = found.prepared
    if not prepared.status.ok:
        return ((prepared.status.plugin, tuple(prepared.status.reasons)),)
    told = [(name, verdict.refusals().reasons_at(row)) for name, verdict in found.verdicts if not verdict.passes[row]]
    if prepared.only is not None and not prepared.only[row]:
        told.insert(0, (", ".join(prepared.restricting), ("PreFilter excludes the node",)))
    return tuple(told)
