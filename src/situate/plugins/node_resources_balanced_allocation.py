"""NodeResourcesBalancedAllocation: nodes whose resources come to be in use alike (upstream plugins/noderesources).

Since Kubernetes 1.36 it is what a pod changes that counts (kubernetes/kubernetes#135573); before, it was only how a
node would stand with the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from situate.framework.plugin import HIGHEST, PreScored, Reads, Scores
from situate.framework.pods import PodInfo
from situate.framework.resources import CPU, MEMORY
from situate.framework.snapshot import Snapshot
from situate.framework.status import Code
from situate.framework.verdict import Mask
from situate.objects.settings import Mistake
from situate.plugins.node_resources_fit import ResourceWeight, Use, use_with


class NodeResourcesBalancedAllocationArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Upstream's NodeResourcesBalancedAllocationArgs; weights must be 1."""

    resources: tuple[ResourceWeight, ...] = (ResourceWeight(CPU), ResourceWeight(MEMORY))

    def mistakes(self) -> Iterable[Mistake]:
        for number, resource in enumerate(self.resources):
            if resource.weight != 1:
                yield Mistake(f"resources[{number}].weight", str(resource.weight), "1")
        yield from _repeated(self.resources)


def _repeated(resources: tuple[ResourceWeight, ...]) -> Iterable[Mistake]:
    """A resource that is named twice."""
    seen: set[str] = set()
    for number, resource in enumerate(resources):
        if resource.name in seen:
            yield Mistake(f"resources[{number}].name", resource.name, "each resource once")
        seen.add(resource.name)


class NodeResourcesBalancedAllocation:
    """The more even the pod makes the shares that are in use, the better."""

    name = "NodeResourcesBalancedAllocation"
    reads = Reads.LOAD
    arguments = NodeResourcesBalancedAllocationArgs

    def __init__(
        self,
        arguments: NodeResourcesBalancedAllocationArgs = NodeResourcesBalancedAllocationArgs(),  # noqa: B008  # frozen
    ) -> None:
        resources = arguments.resources or NodeResourcesBalancedAllocationArgs().resources
        self._resources = tuple(resource.name for resource in resources)

    def pre_score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> PreScored:  # noqa: ARG002
        """Skipped for a pod that asks for none of the resources."""
        if any(pod.template.request.of(name) for name in self._resources):
            return PreScored()
        return PreScored(Code.SKIP)

    def score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Scores:  # noqa: ARG002
        """75 where the pod changes nothing, up to 100 where it evens the node out, down to 50."""
        uses = self.uses(pod, snapshot)
        before = [replace(use, requested=use.requested - asked) for use, asked in uses]
        scores = evenness([use for use, _ in uses], snapshot.count)
        scores -= evenness(before, snapshot.count)
        scores += HIGHEST // 2
        scores //= 2  # never negative: evenness is 50 at least
        scores += HIGHEST // 2
        return scores

    def uses(self, pod: PodInfo, snapshot: Snapshot) -> list[tuple[Use, int]]:
        """With the pod on the node, and how much of that is the pod's."""
        found = (
            (use_with(pod, snapshot, name, scored=False), pod.template.request.of(name)) for name in self._resources
        )
        return [(use, asked) for use, asked in found if use is not None]


def evenness(uses: Sequence[Use], count: int) -> Scores:
    """(nodes,): `trunc((1 - deviation) * 100)` of the shares in use, each at most 1; 50 to 100."""
    scores: Scores = ((1.0 - _deviation(uses, count)) * HIGHEST).astype(np.int64)
    return scores


def _deviation(uses: Sequence[Use], count: int) -> NDArray[np.float64]:
    """Half the difference of two shares; of more, the root of their mean squared distance from the mean.

    In upstream's order of operations, since the result is truncated. Resources that a node lacks do not count there.
    """
    shares = [use.share() for use in uses]
    if len(uses) == _PAIR and all(use.everywhere for use in uses):
        return np.abs((shares[0] - shares[1]) / 2)
    there = [use.room > 0 for use in uses]
    present = np.zeros(count, dtype=np.int64)
    for has in there:
        present += has
    deviation = np.zeros(count)
    two = present == _PAIR
    if two.any():
        deviation[two] = _half_difference(shares, there)[two]
    many = present > _PAIR
    if many.any():
        deviation[many] = _spread(shares, there, present)[many]
    return deviation


def _half_difference(shares: Sequence[NDArray[np.float64]], there: Sequence[Mask]) -> NDArray[np.float64]:
    """Of the only two that are there."""
    first = np.zeros(len(shares[0]))
    second = np.zeros(len(shares[0]))
    seen = np.zeros(len(shares[0]), dtype=np.int64)
    for share, has in zip(shares, there, strict=True):
        first = np.where(has & (seen == 0), share, first)
        second = np.where(has & (seen == 1), share, second)
        seen = seen + has
    return np.abs((first - second) / 2)


def _spread(
    shares: Sequence[NDArray[np.float64]], there: Sequence[Mask], present: NDArray[np.int64]
) -> NDArray[np.float64]:
    total = np.zeros(len(shares[0]))
    for share in shares:
        total = total + share
    divisor = np.maximum(present, 1)
    mean = total / divisor
    squares = np.zeros(len(shares[0]))
    for share, has in zip(shares, there, strict=True):
        squares = squares + np.where(has, (share - mean) * (share - mean), 0.0)
    deviation: NDArray[np.float64] = np.sqrt(squares / divisor)
    return deviation


_PAIR: Final = 2
