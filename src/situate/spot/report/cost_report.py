"""Costs and savings of workloads, and the price of one more on-demand pod.

Every figure says whether prices were known; otherwise the default discount applies. Rules: B29, B30, B47.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from situate.spot.model.counts import Nodes, effective_capacity
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import Capacity, NodeFacts, Owner
from situate.spot.nodes.prices import Price, Prices
from situate.spot.nodes.savings import cost_share, premium_per_month
from situate.spot.report.wave_impact import Pace, wave_loss


@dataclass(frozen=True, slots=True)
class WorkloadCost:
    owner: Owner
    share: float
    """Current cost as a share of the cost with all pods on demand."""
    share_at_target: float
    """The same with exactly the target on demand."""
    discount: float
    """Mean over the nodes of its pods."""
    priced: bool
    """Whether a price gives the discount of at least one node."""
    outage_s_per_month: float
    """Expected value."""
    one_more: float | None
    """Monthly price of one more on-demand pod; None without prices."""


@dataclass(frozen=True, slots=True)
class CostReport:
    workloads: tuple[WorkloadCost, ...]
    saving: float
    """Saved share of the cost with all pods on demand; 0 to 1."""
    achievable: float
    """The same if each workload had exactly its target on demand."""
    nodes_per_hour: float | None
    """Cost of all nodes with a known price, after packing; None without any."""
    nodes_on_demand_per_hour: float | None
    """Cost of the same nodes if all of them were on demand."""
    unpriced: tuple[str, ...]
    """Instance types in use without a price."""
    date: str
    """Date of the prices; empty without prices, and then the default discount applies."""
    currency: str


def cost_report(
    workloads: Iterable[Workload],
    nodes: Nodes,
    prices: Prices,
    waves_per_month: float = 0.0,
    pace: Pace = Pace(),  # noqa: B008  # frozen
) -> CostReport:
    """Compute the report. `waves_per_month`: how often all spot nodes are expected to end together."""
    everywhere = discount_on(nodes.values(), prices)
    found = tuple(workload_cost(each, nodes, prices, everywhere, waves_per_month, pace) for each in workloads)
    saving, achievable = savings(found)
    used = {node.name: node for node in nodes.values() if not node.ending}
    known = [(node, price) for node in used.values() if (price := prices.price(node.instance_type, node.zone))]
    unpriced = {node.instance_type for node in used.values() if prices.price(node.instance_type, node.zone) is None}
    return CostReport(
        found,
        saving,
        achievable,
        sum(_hourly_price(node, price) for node, price in known) if known else None,
        sum(price.on_demand for _, price in known) if known else None,
        tuple(sorted(unpriced - {""})),
        prices.date,
        prices.currency,
    )


def workload_cost(
    workload: Workload,
    nodes: Nodes,
    prices: Prices,
    everywhere: tuple[float, bool],
    waves_per_month: float = 0.0,
    pace: Pace = Pace(),  # noqa: B008  # frozen
) -> WorkloadCost:
    """Compute one workload. `everywhere`: the discount on all spot nodes, used if it has no pod on spot."""
    replicas = workload.owner.replicas
    own = [node for pod in workload.live_pods if (node := nodes.get(pod.node)) and node.capacity is Capacity.SPOT]
    discount, priced = discount_on(own, prices) if own else everywhere
    spot = sum(effective_capacity(pod, nodes) is Capacity.SPOT for pod in workload.live_pods)
    share = cost_share(replicas, max(0, replicas - spot), discount)
    ideal = cost_share(replicas, workload.target, discount)
    outage = waves_per_month * wave_loss(workload, nodes, pace).outage_s if waves_per_month else 0.0
    one_more = _price_of_one_more(workload, nodes, prices)
    return WorkloadCost(workload.owner, share, ideal, discount, priced, outage, one_more)


def savings(costs: Iterable[WorkloadCost]) -> tuple[float, float]:
    """Return the saved share of the cost with all on demand, now and with exactly the targets; 0 to 1."""
    pods = saved = achievable = 0.0
    for cost in costs:
        replicas = cost.owner.replicas
        pods += replicas
        saved += replicas * (1 - cost.share)
        achievable += replicas * (1 - cost.share_at_target)
    return (saved / pods, achievable / pods) if pods else (0.0, 0.0)


def discount_on(nodes: Iterable[NodeFacts], prices: Prices) -> tuple[float, bool]:
    """Return the mean discount of the spot nodes and whether any price is known; the default without a spot node."""
    found = [prices.discount(node.instance_type, node.zone) for node in nodes if node.capacity is Capacity.SPOT]
    if not found:
        return prices.default_discount, False
    return sum(each for each, _ in found) / len(found), any(known for _, known in found)


def _price_of_one_more(workload: Workload, nodes: Nodes, prices: Prices) -> float | None:
    for pod in workload.live_pods:
        node = nodes.get(pod.node)
        price = prices.price(node.instance_type, node.zone) if node is not None else None
        if node is None or price is None or not node.cpu_milli:
            continue
        discount, _ = prices.discount(node.instance_type, node.zone)
        return premium_per_month(price.on_demand, discount, pod.cpu_milli / node.cpu_milli)
    return None


def _hourly_price(node: NodeFacts, price: Price) -> float:
    return price.spot if node.capacity is Capacity.SPOT and price.spot is not None else price.on_demand
