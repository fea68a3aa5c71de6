"""Which machines leave a node that is over its watermark, as the reference chooses them (C29).

Whither they go is the scheduler's. Choosing by cost, with a target in hand, is `situate.vm.planning` (D4, B16 to B19).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from situate.vm.model.pods_and_nodes import Node, Pod
from situate.vm.model.resource_amounts import Amounts


@dataclass(frozen=True, slots=True)
class Relief:
    wishes: tuple[str, ...]
    """Uids of the pods that are to move, in the order in which they were chosen."""
    too_big: tuple[str, ...]
    """Candidates that were passed over: they ask for more than the watermark."""
    enough: bool
    """Whether the node is under its watermark once they have gone."""


def relief(node: Node, wished: Collection[str] = ()) -> Relief:
    """`wished`: uids whose move is decided on and has not begun; they count as migrating.

    The oldest goes first; of equally old ones the one whose uid is first.
    """
    leaving = node.migrating
    for uid in wished:
        pod = node.pods.get(uid)
        if pod is not None and not pod.migrating:
            leaving += pod.counted(pod.reserved)
    wishes: list[str] = []
    too_big: list[str] = []
    for pod in sorted(node.pods.values(), key=lambda each: (each.created_at, each.uid)):
        if not excess(node, leaving):
            break
        if pod.uid in wished or not _may_move(pod):
            continue
        if pod.reserved.exceeds(node.watermark):  # before overcommit, as in the reference; D7 is planning's
            too_big.append(pod.uid)
            continue
        wishes.append(pod.uid)
        leaving += pod.counted(pod.reserved)
    return Relief(tuple(wishes), tuple(too_big), not excess(node, leaving))


def excess(node: Node, leaving: Amounts) -> Amounts:
    """max(0, Reserved - Migrating - Watermark), `leaving` being what counts as migrating."""
    return (node.reserved - leaving - node.watermark).positive()


def _may_move(pod: Pod) -> bool:
    """Machines of other schedulers are no candidates: nobody would start their moves (D6)."""
    return pod.migratable and not pod.migrating and pod.machine is not None and pod.machine.own
