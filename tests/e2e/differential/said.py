"""What extenders have said in one cycle, and what that means for the answer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from situate.framework.plugin_api.plugin import HIGHEST
from situate.framework.preemption.extenders import (
    ExtenderQuestion,
    ExtenderReply,
    FilterNodes,
    FilterReply,
    NoReply,
    PreemptionReply,
    PrioritizeNodes,
    PrioritizeReply,
)
from situate.framework.preemption.preemption import Candidate

_MOST = 10
"""The highest score of an extender."""


@dataclass(frozen=True, slots=True)
class Said:
    """Questions with their replies, in order."""

    told: list[tuple[ExtenderQuestion, ExtenderReply]] = field(default_factory=list)

    def refused(self) -> frozenset[str]:
        """Nodes that some extender does not let the pod have."""
        return frozenset(
            name
            for question, reply in self.told
            if isinstance(question, FilterNodes) and isinstance(reply, FilterReply)
            for name in set(question.nodes).difference(reply.nodes)
        )

    def scores(self) -> dict[str, int] | None:
        """By node, what they add to its total; None if none has scored."""
        found: dict[str, int] | None = None
        for question, reply in self.told:
            if isinstance(question, PrioritizeNodes) and isinstance(reply, PrioritizeReply):
                found = found or {}
                for name, score in reply.scores:
                    found[name] = found.get(name, 0) + score * question.extender.weight * HIGHEST // _MOST
        return found

    def agreed(self, node: str, candidate: Candidate) -> Candidate | None:
        """The candidate as the last of them has it; None if it has struck it."""
        for _, reply in reversed(self.told):
            if isinstance(reply, PreemptionReply):
                if node not in reply.victims:
                    return None
                return replace(candidate, violations=reply.victims[node][1])
        return candidate

    def deeds(self) -> frozenset[str]:
        """What they have had to do with the cycle."""
        found = set()
        if self.refused():
            found.add("filtered")
        if self.scores() is not None:
            found.add("scored")
        for question, reply in self.told:
            if isinstance(reply, PreemptionReply):
                found.add("had a say in preemption")
            if isinstance(reply, NoReply):
                harmless = question.extender.ignorable or isinstance(question, PrioritizeNodes)
                found.add("was ignored" if harmless else "broke the cycle")
        return frozenset(found)
