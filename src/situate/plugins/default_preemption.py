"""DefaultPreemption: makes room for a pod by ending pods of lower priority (upstream plugins/defaultpreemption)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from situate.objects.settings import Mistake


class DefaultPreemptionArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Upstream's DefaultPreemptionArgs."""

    min_candidate_nodes_percentage: Annotated[int, msgspec.Meta(ge=0, le=100)] = 10
    min_candidate_nodes_absolute: Annotated[int, msgspec.Meta(ge=0)] = 100

    def mistakes(self) -> Iterable[Mistake]:
        if not self.min_candidate_nodes_percentage and not self.min_candidate_nodes_absolute:
            yield Mistake("minCandidateNodesPercentage", "0", "more than 0 where minCandidateNodesAbsolute is 0")
