"""What other means would give a workload, beside what is given here (B43, S18): figures for who thinks of changing.

Compared is what each is meant to do when it works: with room on both kinds of nodes, after twice the replicas were
asked for and nobody has edited anything, and on the day on which no spot node is left.
"""

from __future__ import annotations

from dataclasses import dataclass

from situate.spot.workloads.on_demand_policy import Count, Percent, Policy, target


@dataclass(frozen=True, slots=True)
class Means:
    """One way of mixing, for one workload."""

    name: str
    on_demand: int
    """Pods on on-demand nodes, with room everywhere."""
    on_demand_doubled: int
    """The same once the replicas have doubled."""
    placed_without_spot: int
    """Of the replicas, those that find a node where there are only on-demand nodes, and enough."""
    remark: str
    """What is to be known besides."""


def compared(policy: Policy, replicas: int, *, stateful: bool, safe_deployments: bool = False) -> tuple[Means, ...]:
    """Ours first."""
    asked, doubled = (
        target(policy, count, stateful=stateful, safe_deployments=safe_deployments)
        for count in (replicas, 2 * replicas)
    )
    ours = Means("situate", asked, doubled, replicas, "pods that run already are moved one by one")
    return ours, _spread_constraints(replicas, asked), _workload_spread(policy, replicas, asked)


def _spread_constraints(replicas: int, asked: int) -> Means:
    """Topology spread over the capacity label with minDomains 2, and a preference for one side.

    The largest skew that still gives the number asked for now; it stands in the Deployment and does not follow R. With
    one domain missing the other may have no more pods than the skew (KEP-3022).
    """
    skew = max(1, abs(replicas - 2 * asked))
    prefers_spot = 2 * asked <= replicas
    text = f"maxSkew {skew}, minDomains 2, edited into the workload; nothing that runs is moved"
    return Means(
        "spread constraints",
        spread_on_demand(replicas, skew, prefers_spot=prefers_spot),
        spread_on_demand(2 * replicas, skew, prefers_spot=prefers_spot),
        min(replicas, skew),
        text,
    )


def spread_on_demand(replicas: int, skew: int, *, prefers_spot: bool = True) -> int:
    """Pods on demand under that skew, with room everywhere: the side that is preferred gets what the skew allows."""
    most, least = min(replicas, (replicas + skew) // 2), max(0, -((skew - replicas) // 2))
    return least if prefers_spot else most


def _workload_spread(policy: Policy, replicas: int, asked: int) -> Means:
    """OpenKruise's, with a first subset on demand of so many replicas and a second one on spot.

    `maxReplicas` is a number or a percentage; anything else is written as the number of today.
    """
    follows = isinstance(policy, Percent | Count)
    doubled = target(policy, 2 * replicas, stateful=False) if follows else asked
    text = "needs OpenKruise; without spot nodes the other pods wait, or for its adaptive strategy; moves nothing"
    return Means("WorkloadSpread", asked, doubled, asked, text)
