"""Comparison of spot with other means of mixing, for users who consider a change.

Each means is compared as designed in three cases: free capacity on both kinds of nodes; doubled replicas without an
edit; and no spot node left. Rules: B43, S18.
"""

from __future__ import annotations

from dataclasses import dataclass

from situate.spot.workloads.on_demand_policy import Count, Percent, Policy, on_demand_target


@dataclass(frozen=True, slots=True)
class MixingMethod:
    """One means of mixing, applied to one workload."""

    name: str
    on_demand: int
    """Pods on on-demand nodes, with free capacity everywhere."""
    on_demand_doubled: int
    """The same with doubled replicas."""
    placed_without_spot: int
    """Replicas that find a node if there are only on-demand nodes, and enough of them."""
    remark: str
    """Further facts."""


def compare_methods(
    policy: Policy, replicas: int, *, stateful: bool, safe_deployments: bool = False
) -> tuple[MixingMethod, ...]:
    """Compare the means; situate comes first."""
    asked, doubled = (
        on_demand_target(policy, count, stateful=stateful, safe_deployments=safe_deployments)
        for count in (replicas, 2 * replicas)
    )
    ours = MixingMethod("situate", asked, doubled, replicas, "moves running pods one by one")
    return ours, _spread_constraints(replicas, asked), _workload_spread(policy, replicas, asked)


def _spread_constraints(replicas: int, asked: int) -> MixingMethod:
    """Topology spread over the capacity label with minDomains 2, and a preference for one side.

    Uses the largest skew that gives the requested number now. The skew is part of the Deployment and does not follow R.
    If one domain is missing, the other may have at most as many pods as the skew (KEP-3022).
    """
    skew = max(1, abs(replicas - 2 * asked))
    prefers_spot = 2 * asked <= replicas
    text = f"needs maxSkew {skew} and minDomains 2 in the workload; moves no running pod"
    return MixingMethod(
        "spread constraints",
        spread_on_demand(replicas, skew, prefers_spot=prefers_spot),
        spread_on_demand(2 * replicas, skew, prefers_spot=prefers_spot),
        min(replicas, skew),
        text,
    )


def spread_on_demand(replicas: int, skew: int, *, prefers_spot: bool = True) -> int:
    """Return the on-demand pods under this skew with free capacity: the preferred side gets the maximum."""
    most, least = min(replicas, (replicas + skew) // 2), max(0, -((skew - replicas) // 2))
    return least if prefers_spot else most


def _workload_spread(policy: Policy, replicas: int, asked: int) -> MixingMethod:
    """WorkloadSpread of OpenKruise, with a first subset of this many replicas on demand and a second subset on spot.

    `maxReplicas` is a number or a percentage; any other policy is written as its current number.
    """
    follows = isinstance(policy, Percent | Count)
    doubled = on_demand_target(policy, 2 * replicas, stateful=False) if follows else asked
    text = "needs OpenKruise and moves no running pod; without spot nodes, the others wait for its adaptive strategy"
    return MixingMethod("WorkloadSpread", asked, doubled, asked, text)
