"""Section 4.4 of the reference read aloud: slow, without arrays, in the plainest words, to compare planning with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from situate.vm.model.node_fit import largest_total, score
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts, total
from situate.vm.model.state import LedgerState

DAY = 24 * 3600


@dataclass(frozen=True)
class Choice:
    price: int
    """Millionths of a second."""
    uids: tuple[str, ...]
    targets: tuple[str, ...]


def neighbours(state: LedgerState, uid: str, now: float, rules: Rules, most: int = 3) -> Choice | None:
    """The least total cost of sets of up to `most` that cover the need and whose targets fit together."""
    asker = state.pod(uid)
    assert asker is not None
    node = state.where[uid]
    need = missing(state, asker)
    able = candidates(state, asker, node, now, rules)
    for price, _, group in sorted(priced_sets(state, able, node, need, now, rules, most)):
        pods = [able[number] for number in group]
        targets = assignment(state, pods, node, rules)
        if targets is not None:
            return Choice(price, tuple(pod.uid for pod in pods), targets)
    return None


def missing(state: LedgerState, asker: Pod) -> Amounts:
    """Whole units, as they count on the node, beyond what is free for it."""
    free = state.available(state.where[asker.uid], asker.uid)
    short = []
    for resource, unit in enumerate(asker.factor):
        units = -(-max(0, asker.requested[resource] - asker.reserved[resource]) // unit)
        counted = -(-units * unit * 1000 // asker.overcommit[resource])
        short.append(max(0, counted - free[resource]))
    return Amounts(tuple(short))


def candidates(state: LedgerState, asker: Pod, node: str, now: float, rules: Rules) -> list[Pod]:
    found = []
    for pod in state.nodes[node].pods.values():
        machine = pod.machine
        if machine is None or not machine.migratable or pod.uid == asker.uid or pod.priority > asker.priority:
            continue
        cooling = machine.moved_at and now < machine.moved_at[-1] + 600
        rate = 50 * 2**20 if machine.load.dirty_rate is None else machine.load.dirty_rate
        if (cooling and asker.priority <= pod.priority) or rate >= 0.9 * bandwidth(rules):
            continue
        if any(fits(state, [pod], [target]) for target in state.nodes if target != node):
            found.append(pod)
    return sorted(found, key=lambda pod: (pod.created_at, pod.uid))


def bandwidth(rules: Rules) -> float:
    return min(rules.max_bytes_per_s, rules.calm.bytes_per_s)


def cost(state: LedgerState, pod: Pod, node: str, need: Amounts, now: float, rules: Rules) -> float:
    machine = pod.machine
    assert machine is not None
    load, wide = machine.load, bandwidth(rules)
    dirty = 50 * 2**20 if load.dirty_rate is None else load.dirty_rate
    copying = (load.memory_used or pod.used.memory) / wide / (1 - min(dirty / wide, 0.9))
    pause = 0.1 if load.last_downtime_s is None else load.last_downtime_s
    slo = min(10.0, 1 + max(0, pod.priority) / 1e6)
    moves = len([at for at in machine.moved_at if at > now - DAY])
    freed, size = pod.counted_amount(pod.reserved), state.nodes[node].total
    surplus = max(max(0, f - n) / t for f, n, t in zip(freed, need, size, strict=True))
    return (copying * (1 + 2 * load.load1 / (pod.used.cpu / 1000)) + 50 * pause) * slo + 60 * moves + 10 * surplus


def priced_sets(
    state: LedgerState, able: Sequence[Pod], node: str, need: Amounts, now: float, rules: Rules, most: int
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Of those that cover the need: price, size, members."""
    prices = [round(cost(state, pod, node, need, now, rules) * 1e6) for pod in able]
    for size in range(1, most + 1):
        for group in combinations(range(len(able)), size):
            freed = total(able[number].counted_amount(able[number].reserved) for number in group)
            if need.fits_within(freed):
                yield sum(prices[number] for number in group), size, group


def assignment(state: LedgerState, pods: Sequence[Pod], node: str, rules: Rules) -> tuple[str, ...] | None:
    """The first one where each in turn has the best score, ties by name, as far as all of them find a node."""
    most = largest_total(state.nodes.values())
    wishes = []
    for pod in pods:
        alone = [name for name in state.nodes if name != node and fits(state, [pod], [name])]
        points = {name: score(state.nodes[name], pod, most, rules.scoring).points for name in alone}
        wishes.append(sorted(alone, key=lambda name: (-points[name], name)))
    return next((chosen for chosen in product(*wishes) if fits(state, pods, chosen)), None)


def fits(state: LedgerState, pods: Sequence[Pod], targets: Sequence[str]) -> bool:
    """Every node has room for all that come to it, and is at or under its watermark with them."""
    for name in set(targets):
        node = state.nodes[name]
        come = total(
            pod.counted_amount(pod.reserved) for pod, target in zip(pods, targets, strict=True) if target == name
        )
        if not node.schedulable or come.exceeds(node.total - node.reserved):
            return False
        if (node.reserved + come).exceeds(node.watermark):
            return False
    return True
