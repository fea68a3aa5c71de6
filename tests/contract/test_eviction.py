"""Evicting pods against budgets. The budgets' status is written by hand, so no controller is needed."""

from __future__ import annotations

from tests.contract.api import Api, causes
from tests.contract.things import bound, budget, core, eviction, group, pod

LABELS = {"app": "web"}


async def running(api: Api, namespace: str, name: str, **labels: str) -> None:
    made = (await api.post(core(namespace, "pods"), pod(name, meta={"labels": labels or LABELS}, nodeName="n"))).ok(201)
    (await api.put(core(namespace, "pods", name, "status"), bound(made))).ok()


async def guarded(api: Api, namespace: str, name: str, *, allowed: int, healthy: int, desired: int) -> None:
    """A budget that the disruption controller has seen."""
    path = group("policy/v1", namespace, "poddisruptionbudgets")
    made = (await api.post(path, budget(name, LABELS, minAvailable=desired))).ok(201)
    made["status"] = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": healthy,
        "conditions": [],
    }
    (await api.put(f"{path}/{name}/status", made)).ok()


async def test_evict(api: Api, namespace: str) -> None:
    await running(api, namespace, "w")
    body = (await api.post(core(namespace, "pods", "w", "eviction"), eviction("w", gracePeriodSeconds=0))).ok(201)
    assert (body["kind"], body["status"], body["code"]) == ("Status", "Success", 201)
    assert (await api.get(core(namespace, "pods", "w"))).status == 404


async def test_evict_against_a_budget(api: Api, namespace: str) -> None:
    await running(api, namespace, "w")
    await guarded(api, namespace, "b", allowed=0, healthy=2, desired=2)
    answer = await api.post(core(namespace, "pods", "w", "eviction"), eviction("w"))
    answer.refused(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        {
            "causes": [
                {
                    "reason": "DisruptionBudget",
                    "message": "The disruption budget b needs 2 healthy pods and has 2 currently",
                }
            ]
        },
    )
    assert "Retry-After" not in answer.headers


async def test_evict_against_a_budget_nobody_has_processed(api: Api, namespace: str) -> None:
    await running(api, namespace, "w")
    (await api.post(group("policy/v1", namespace, "poddisruptionbudgets"), budget("b", LABELS, minAvailable=1))).ok(201)
    answer = await api.post(core(namespace, "pods", "w", "eviction"), eviction("w"))
    answer.refused(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        {
            "retryAfterSeconds": 10,
            "causes": [
                {
                    "reason": "DisruptionBudget",
                    "message": "The disruption budget b is still being processed by the server.",
                }
            ],
        },
    )
    assert answer.headers["Retry-After"] == "10"


async def test_evict_within_a_budget_counts(api: Api, namespace: str) -> None:
    for name in ("w1", "w2"):
        await running(api, namespace, name)
    await guarded(api, namespace, "b", allowed=1, healthy=2, desired=1)
    (await api.post(core(namespace, "pods", "w1", "eviction"), eviction("w1"))).ok(201)
    status = (await api.get(group("policy/v1", namespace, "poddisruptionbudgets", "b"))).ok()["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["w1"]
    assert (await api.post(core(namespace, "pods", "w2", "eviction"), eviction("w2"))).status == 429


async def test_evict_against_two_budgets(api: Api, namespace: str) -> None:
    await running(api, namespace, "w")
    for name in ("b1", "b2"):
        await guarded(api, namespace, name, allowed=1, healthy=2, desired=1)
    answer = await api.post(core(namespace, "pods", "w", "eviction"), eviction("w"))
    answer.refused(
        500,
        None,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ...,
    )


async def test_evict_a_pending_pod(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "pods"), pod("w", meta={"labels": LABELS}))).ok(201)
    await guarded(api, namespace, "b", allowed=0, healthy=2, desired=2)
    (await api.post(core(namespace, "pods", "w", "eviction"), eviction("w"))).ok(201)


async def test_evict_a_terminating_pod(api: Api, namespace: str) -> None:
    made = pod("w", meta={"labels": LABELS, "finalizers": ["example.com/stay"]}, nodeName="n")
    made = (await api.post(core(namespace, "pods"), made)).ok(201)
    (await api.put(core(namespace, "pods", "w", "status"), bound(made))).ok()
    (await api.delete(core(namespace, "pods", "w"))).ok()
    await guarded(api, namespace, "b", allowed=0, healthy=2, desired=2)
    (await api.post(core(namespace, "pods", "w", "eviction"), eviction("w"))).ok(201)
    (await api.patch(core(namespace, "pods", "w"), {"metadata": {"finalizers": None}})).ok()


async def test_evict_dry_run(api: Api, namespace: str) -> None:
    await running(api, namespace, "w")
    (await api.post(core(namespace, "pods", "w", "eviction"), eviction("w"), dryRun="All")).ok(201)
    assert "deletionTimestamp" not in (await api.get(core(namespace, "pods", "w"))).ok()["metadata"]


async def test_evict_with_a_wrong_precondition(api: Api, namespace: str) -> None:
    await running(api, namespace, "w")
    answer = await api.post(core(namespace, "pods", "w", "eviction"), eviction("w", preconditions={"uid": "0000"}))
    answer.refused(
        409,
        "Conflict",
        'Operation cannot be fulfilled on Pod "w": the UID in the precondition (0000) does not match the UID '
        "in record…",
        {"name": "w", "kind": "Pod"},
    )


async def test_evict_nobody(api: Api, namespace: str) -> None:
    answer = await api.post(core(namespace, "pods", "nobody", "eviction"), eviction("nobody"))
    answer.refused(404, "NotFound", 'pods "nobody" not found', {"name": "nobody", "kind": "pods"})


async def test_evict_another_name(api: Api, namespace: str) -> None:
    await running(api, namespace, "w")
    answer = await api.post(core(namespace, "pods", "w", "eviction"), eviction("v"))
    answer.refused(400, "BadRequest", "name in URL does not match name in Eviction object", ...)


async def test_budget_of_a_cause_is_named(api: Api, namespace: str) -> None:
    await running(api, namespace, "w")
    await guarded(api, namespace, "other-name", allowed=0, healthy=3, desired=3)
    answer = await api.post(core(namespace, "pods", "w", "eviction"), eviction("w"))
    assert causes(answer) == [
        ("DisruptionBudget", "", "The disruption budget other-name needs 3 healthy pods and has 3 currently")
    ]
