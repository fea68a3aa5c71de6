"""PodDisruptionBudgets in preemption (upstream default_preemption.go filterPodsWithPDBViolation)."""

from __future__ import annotations

from collections.abc import Iterable

from situate.framework.pod.pods import PodInfo
from situate.framework.volumes.catalog import Budget, Catalog


def guards(budget: Budget, namespace: str, pod: PodInfo) -> bool:
    """Return whether a budget of this namespace covers the Pod.

    As upstream, a budget with an empty selector covers no Pod, and a Pod without labels is covered by no budget.
    """
    selector = budget.selector
    return (
        pod.namespace == namespace and bool(selector.requirements) and bool(pod.labels) and selector.matches(pod.labels)
    )


def split_by_budget(pods: Iterable[PodInfo], catalog: Catalog) -> tuple[list[PodInfo], list[PodInfo]]:
    """Split the Pods by whether an eviction violates a budget once all earlier Pods have been evicted.

    The violating Pods come first.
    """
    if not catalog.budgets:
        return [], list(pods)
    spent: dict[tuple[str, str], int] = {}
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        breaks = False
        for budget in catalog.budgets.get(pod.namespace, ()):
            if guards(budget, pod.namespace, pod) and pod.name not in budget.disrupted_pods:
                name = pod.namespace, budget.name
                spent[name] = spent.get(name, 0) + 1
                breaks = breaks or spent[name] > budget.disruptions_allowed
        (violating if breaks else others).append(pod)
    return violating, others
