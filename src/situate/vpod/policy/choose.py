"""One step of a policy: filter the Pods, score them and take the best.

The structure comes from the framework. The framework also decides which filter refused a Pod first, and which of the
best Pods is taken. Plugins, columns and scores are vpod's own: see docs/decisions/0009-two-kinds-of-nodes.md.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from situate.framework.cycle.node_sampling import index_of_best
from situate.framework.results.verdict import first_refusals, refuse
from situate.vpod.policy.filters import Filter
from situate.vpod.policy.registry import CompiledPolicy
from situate.vpod.policy.scores import Direction
from situate.vpod.policy.status import SUCCESS, Code, Status
from situate.vpod.policy.view import Bools, PolicyView


class Arithmetic(enum.Enum):
    """How to add weighted scores."""

    EXACT = "exact"  # D13
    WRAPPING = "wrapping"  # modulo 2**64, as v0.43.0 does


def feasible_pods(view: PolicyView, filters: Iterable[Filter]) -> Bools:
    """Return the schedulable Pods that pass every filter."""
    passing = view.schedulable.copy()
    for plugin in filters:
        passing &= plugin.passes(view)
    return passing


def filter_reasons(view: PolicyView, filters: Iterable[Filter]) -> list[str]:
    """Return for each Pod the reason of the first filter that it fails; empty if it may take one more."""
    reasons = [""] * len(view.ordinals)
    verdicts = ((plugin.reason, refuse(~plugin.passes(view), plugin.reason)) for plugin in filters)
    for reason, _, where in first_refusals(verdicts, np.ones(len(view.ordinals), dtype=np.bool_)):
        for pod in np.flatnonzero(where):
            reasons[pod] = reason
    return reasons


def refusal_of(view: PolicyView, pod: int, filters: Iterable[Filter]) -> str:
    """Return the reason of the first filter that the Pod at this index fails, as `filter_reasons`; empty if none."""
    return next((plugin.reason for plugin in filters if not plugin.passes(view)[pod]), "")


def weighted_sums(
    view: PolicyView, candidates: Bools, policy: CompiledPolicy, arithmetic: Arithmetic
) -> tuple[NDArray[np.int64] | NDArray[np.uint64], Status]:
    """Return the sum of each Pod, shape (pods,); only the sums of candidates are valid.

    The status is an error if a plugin cannot score one of the candidates.
    """
    wrapping = arithmetic is Arithmetic.WRAPPING
    exact = np.zeros(len(view.ordinals), dtype=np.int64)
    wrapped = np.zeros(len(view.ordinals), dtype=np.uint64)
    for weight, plugin in policy.scores:
        scores = plugin.scores(view)
        if bool((scores.failed & candidates).any()):
            return exact, Status(Code.ERROR, (scores.reason,))
        if wrapping:
            wrapped += np.uint64(weight) * scores.as_uint64()
        else:
            exact += weight * scores.value
    return (wrapped if wrapping else exact), SUCCESS


def best_pod(
    view: PolicyView, candidates: Bools, policy: CompiledPolicy, direction: Direction, arithmetic: Arithmetic
) -> tuple[int | None, Status]:
    """Return the index of the candidate with the highest sum; None without candidates or after a score error.

    Equal sums: the lowest ordinal when placing, the highest when removing (D15).
    """
    indices = np.flatnonzero(candidates)
    if len(indices) == 0:
        return None, SUCCESS
    sums, status = weighted_sums(view, candidates, policy, arithmetic)
    if not status.is_success:
        return None, status
    if direction is Direction.REMOVE:
        indices = indices[::-1]
    return int(indices[index_of_best(sums[indices])]), SUCCESS
