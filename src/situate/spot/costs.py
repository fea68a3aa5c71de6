"""What the workloads cost, what they save, and what another on-demand pod would cost (B29, B30, B47).

Every figure says whether prices were known; where none is, the default discount stands in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from situate.spot.counting import Nodes, effective
from situate.spot.evictions import Workload
from situate.spot.losses import Pace, loss
from situate.spot.model import Capacity, NodeFacts, Owner
from situate.spot.money import cost_share, premium_per_month
from situate.spot.prices import Price, Prices


@dataclass(frozen=True, slots=True)
class WorkloadCost:
    owner: Owner
    share: float
    """Of what it would cost if all were on demand, now."""
    share_at_target: float
    """The same with exactly the target on demand."""
    discount: float
    """The mean over its pods' nodes."""
    priced: bool
    """Whether that was looked up, for at least one node."""
    outage_s_per_month: float
    """Expected."""
    one_more: float | None
    """The price a month of one more on-demand pod; None without prices."""


@dataclass(frozen=True, slots=True)
class CostReport:
    workloads: tuple[WorkloadCost, ...]
    saving: float
    """Of all that the workloads would cost on demand, the part that is saved; 0 to 1."""
    achievable: float
    """The same if each had exactly its target on demand."""
    nodes_per_hour: float | None
    """All nodes with a known price, after packing; None without any."""
    nodes_on_demand_per_hour: float | None
    """The same nodes, were all of them on demand."""
    unpriced: tuple[str, ...]
    """Instance types in use without a price."""
    date: str
    """Of the prices; empty: there are none, and the default discount was used."""
    currency: str


def cost_report(
    workloads: Iterable[Workload],
    nodes: Nodes,
    prices: Prices,
    waves_per_month: float = 0.0,
    pace: Pace = Pace(),  # noqa: B008  # frozen
) -> CostReport:
    """`waves_per_month`: how often all spot nodes are expected to end together (B30)."""
    found = []
    pods = saved = achievable = 0.0
    for workload in workloads:
        discount, priced = _discount(workload, nodes, prices)
        replicas = workload.owner.replicas
        live = workload.live
        spot = sum(effective(pod, nodes) is Capacity.SPOT for pod in live)
        share = cost_share(replicas, max(0, replicas - spot), discount)
        ideal = cost_share(replicas, workload.target, discount)
        outage = waves_per_month * loss(workload, nodes, pace).outage_s
        one_more = _one_more(workload, nodes, prices)
        found.append(WorkloadCost(workload.owner, share, ideal, discount, priced, outage, one_more))
        pods += replicas
        saved += replicas * (1 - share)
        achievable += replicas * (1 - ideal)
    used = {node.name: node for node in nodes.values() if not node.ending}
    known = [(node, price) for node in used.values() if (price := prices.price(node.instance_type, node.zone))]
    unpriced = {node.instance_type for node in used.values() if prices.price(node.instance_type, node.zone) is None}
    return CostReport(
        tuple(found),
        saved / pods if pods else 0.0,
        achievable / pods if pods else 0.0,
        sum(_hourly(node, price) for node, price in known) if known else None,
        sum(price.on_demand for _, price in known) if known else None,
        tuple(sorted(unpriced - {""})),
        prices.date,
        prices.currency,
    )


def _discount(workload: Workload, nodes: Nodes, prices: Prices) -> tuple[float, bool]:
    """Over the spot nodes that its pods are on; over all that there are where it has none."""
    own = [node for pod in workload.live if (node := nodes.get(pod.node)) and node.capacity is Capacity.SPOT]
    asked = own or [node for node in nodes.values() if node.capacity is Capacity.SPOT]
    if not asked:
        return prices.default_discount, False
    found = [prices.discount(node.instance_type, node.zone) for node in asked]
    return sum(each for each, _ in found) / len(found), any(known for _, known in found)


def _one_more(workload: Workload, nodes: Nodes, prices: Prices) -> float | None:
    for pod in workload.live:
        node = nodes.get(pod.node)
        price = prices.price(node.instance_type, node.zone) if node is not None else None
        if node is None or price is None or not node.cpu_milli:
            continue
        discount, _ = prices.discount(node.instance_type, node.zone)
        return premium_per_month(price.on_demand, discount, pod.cpu_milli / node.cpu_milli)
    return None


def _hourly(node: NodeFacts, price: Price) -> float:
    return price.spot if node.capacity is Capacity.SPOT and price.spot is not None else price.on_demand
