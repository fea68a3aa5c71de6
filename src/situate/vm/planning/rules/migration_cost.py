"""Compute the cost of a migration, in seconds-equivalents. Weights are configuration."""

from __future__ import annotations

from situate.vm.model.pods_and_nodes import Machine, Pod
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.planning.rules.cooldown import moves_in_a_day


def bandwidth(rules: Rules) -> int:
    """Return the bandwidth of one migration in bytes a second.

    It is at most `max_bandwidth` and the share of a node's link that migrations may use.
    """
    return max(1, min(rules.max_bytes_per_s, rules.calm.bytes_per_s))


def converges(machine: Machine, rules: Rules) -> bool:
    """Return whether copying converges before the VM is paused."""
    return _dirty_rate(machine, rules) < rules.costs.most_dirty * bandwidth(rules)


def copying_s(pod: Pod, machine: Machine, rules: Rules) -> float:
    """Return how long copying the memory takes, with pages that are written meanwhile and copied again."""
    wide = bandwidth(rules)
    again = min(_dirty_rate(machine, rules) / wide, rules.costs.most_dirty)
    return (machine.load.memory_used or pod.used.memory) / wide / (1 - again)


def surplus_share(freed: Amounts, need: Amounts, total: Amounts) -> float:
    """Return the share of the node that is freed beyond the need, for the resource where it is largest."""
    if freed.fits_within(need):
        return 0.0
    return max((f - n) / t if f > n and t > 0 else 0.0 for f, n, t in zip(freed, need, total, strict=True))


def cost(pod: Pod, machine: Machine, surplus: float, now: float, rules: Rules) -> float:
    costs = rules.costs
    slo = min(1 + max(0, pod.priority) / costs.priority, costs.highest_slo)
    busy = machine.load.load1 / ((pod.used.cpu or 1000) / 1000)
    paused = machine.load.last_downtime_s
    pause = costs.downtime * (costs.expected_downtime_s if paused is None else paused)
    taken = copying_s(pod, machine, rules) * (1 + costs.load * busy) + pause
    return taken * slo + costs.recent_move * moves_in_a_day(machine, now) + costs.surplus * surplus


def _dirty_rate(machine: Machine, rules: Rules) -> float:
    rate = machine.load.dirty_rate
    return rules.costs.dirty_bytes_per_s if rate is None else rate
