from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.selection.label_selectors import selector_of
from tests.plugins.twins.world import World

Fits = Callable[[Pod, Node, World], bool]
NEVER_STARTED = datetime.max.replace(tzinfo=UTC)


class Budget(NamedTuple):
    namespace: str
    selector: LabelSelector | None
    allowed: int
    disrupted: frozenset[str] = frozenset()


class Candidate(NamedTuple):
    node: str
    victims: tuple[Pod, ...]
    violations: int


def priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def started(pod: Pod) -> datetime:
    return pod.status.start_time or NEVER_STARTED


def importance(pod: Pod) -> tuple[int, datetime]:
    """Sorts the most important first."""
    return -priority(pod), started(pod)


def covers(budget: Budget, pod: Pod) -> bool:
    selector = selector_of(budget.selector)
    return (
        budget.namespace == pod.metadata.namespace
        and bool(selector.requirements)
        and bool(pod.metadata.labels)
        and selector.matches(pod.metadata.labels)
        and pod.metadata.name not in budget.disrupted
    )


def split(pods: Sequence[Pod], budgets: Sequence[Budget]) -> tuple[list[Pod], list[Pod]]:
    """Those whose eviction breaks a budget, and the others."""
    left = [budget.allowed for budget in budgets]
    breaking: list[Pod] = []
    fine: list[Pod] = []
    for pod in pods:
        breaks = False
        for number, budget in enumerate(budgets):
            if covers(budget, pod):
                left[number] -= 1
                breaks = breaks or left[number] < 0
        (breaking if breaks else fine).append(pod)
    return breaking, fine


def dry_run(pod: Pod, node: Node, world: World, fits: Fits, budgets: Sequence[Budget]) -> Candidate | None:
    lower = sorted((other for other in world.on(node) if priority(other) < priority(pod)), key=importance)
    if not lower:
        return None
    for other in lower:
        world = world.without(other)
    if not fits(pod, node, world):
        return None
    breaking, fine = split(lower, budgets)
    victims, violations = [], 0
    for other in breaking + fine:
        again = world.with_pods(other)
        if fits(pod, node, again):
            world = again
        else:
            victims.append(other)
            violations += any(other is each for each in breaking)
    return Candidate(node.metadata.name, tuple(sorted(victims, key=importance)), violations)


def best(candidates: Sequence[Candidate]) -> list[str]:
    """The names of those that are equally good."""
    rules: list[Callable[[Candidate], float]] = [
        lambda each: each.violations,
        lambda each: max(map(priority, each.victims), default=-(2**31)),
        lambda each: sum(priority(victim) + 2**31 for victim in each.victims),
        lambda each: len(each.victims),
        lambda each: -earliest_start(each).timestamp(),
    ]
    left = list(candidates)
    for rule in rules:
        least = min(map(rule, left))
        left = [each for each in left if rule(each) == least]
    return [each.node for each in left]


def earliest_start(candidate: Candidate) -> datetime:
    """Of the most important victims."""
    top = max(map(priority, candidate.victims), default=0)
    return min((started(each) for each in candidate.victims if priority(each) == top), default=NEVER_STARTED)


def eligible(pod: Pod, nominated_code: str, world: World) -> bool:
    """Every terminating pod counts as preempted by the scheduler here."""
    if pod.spec.preemption_policy == "Never":
        return False
    nominated = pod.status.nominated_node_name
    if not nominated or nominated_code == "UnschedulableAndUnresolvable":
        return True
    return not any(
        other.spec.node_name == nominated and other.metadata.deletion_timestamp and priority(other) < priority(pod)
        for other in world.pods
    )
