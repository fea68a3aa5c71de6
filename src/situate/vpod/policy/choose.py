"""One step of a policy: filter the pods, score them, take the best.

The shape is the framework's, and so are who refused a pod first and which of the best is taken; plugins, columns and
scores are vpod's own (docs/decisions/0009-two-kinds-of-nodes.md says why).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from situate.framework.cycle.node_sampling import best
from situate.framework.results.verdict import first_refusals, refuse
from situate.vpod.policy.filters import Filter
from situate.vpod.policy.registry import CompiledPolicy
from situate.vpod.policy.scores import Direction
from situate.vpod.policy.status import SUCCESS, Code, Status
from situate.vpod.policy.view import Bools, View


class Arithmetic(enum.Enum):
    """How weighted scores are added up."""

    EXACT = "exact"  # D13
    WRAPPING = "wrapping"  # modulo 2**64, as v0.43.0 does


def feasible_pods(view: View, filters: Iterable[Filter]) -> Bools:
    """The schedulable pods that pass every filter."""
    passing = view.schedulable.copy()
    for plugin in filters:
        passing &= plugin.passes(view)
    return passing


def filter_reasons(view: View, filters: Iterable[Filter]) -> list[str]:
    """For each pod why it may not take one more: the reason of the first filter it fails, empty where it passes."""
    reasons = [""] * len(view.ordinals)
    verdicts = ((plugin.reason, refuse(~plugin.passes(view), plugin.reason)) for plugin in filters)
    for reason, _, where in first_refusals(verdicts, np.ones(len(view.ordinals), dtype=np.bool_)):
        for pod in np.flatnonzero(where):
            reasons[pod] = reason
    return reasons


def refusal_of(view: View, pod: int, filters: Iterable[Filter]) -> str:
    """Why the pod at this index may not take one more, as `filter_reasons` tells of all; empty if it may."""
    return next((plugin.reason for plugin in filters if not plugin.passes(view)[pod]), "")


def weighted_sums(
    view: View, candidates: Bools, policy: CompiledPolicy, arithmetic: Arithmetic
) -> tuple[NDArray[np.int64] | NDArray[np.uint64], Status]:
    """(pods,) sums, of which only the candidates' mean something; an error when a plugin cannot score one of them."""
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
    view: View, candidates: Bools, policy: CompiledPolicy, direction: Direction, arithmetic: Arithmetic
) -> tuple[int | None, Status]:
    """The index of the candidate with the greatest sum, None without candidates or where scoring fails.

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
    return int(indices[best(sums[indices])]), SUCCESS
