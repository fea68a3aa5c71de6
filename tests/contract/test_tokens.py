"""Tokens of service accounts: issued by TokenRequest, told by TokenReview, and what they are not issued for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api
from tests.contract.things import core
from tests.contract.waiting import eventually

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


async def request(api: Api, namespace: str, account: str, **spec: Any) -> Any:
    return await api.post(core(namespace, "serviceaccounts", account, "token"), {"spec": spec})


async def whose(api: Api, token: str) -> Any:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    return (await api.post(REVIEWS, review)).ok(201)["status"]


async def test_a_token_is_its_accounts(api: Api, namespace: str) -> None:
    account = (await api.post(core(namespace, "serviceaccounts"), {"metadata": {"name": "agent"}})).ok(201)
    made = (await request(api, namespace, "agent", expirationSeconds=3600)).ok(201)
    assert (made["kind"], made["apiVersion"]) == ("TokenRequest", "authentication.k8s.io/v1")
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("agent", namespace)
    assert made["spec"]["expirationSeconds"] == 3600
    assert made["status"]["expirationTimestamp"] > made["metadata"]["creationTimestamp"]
    token = made["status"]["token"]
    known = await whose(api, token)
    assert known["authenticated"] is True
    user = known["user"]
    assert user["username"] == f"system:serviceaccount:{namespace}:agent"
    assert user["uid"] == account["metadata"]["uid"]
    assert {"system:serviceaccounts", f"system:serviceaccounts:{namespace}"} <= set(user["groups"])
    assert not (await whose(api, "nobodys")).get("authenticated")


@pytest.mark.parametrize(
    ("seconds", "detail"),
    [
        (10, "may not specify a duration less than 10 minutes"),
        (1 << 33, "may not specify a duration larger than 2^32 seconds"),
    ],
)
async def test_a_token_lives_neither_too_short_nor_too_long(
    api: Api, namespace: str, seconds: int, detail: str
) -> None:
    (await api.post(core(namespace, "serviceaccounts"), {"metadata": {"name": "agent"}})).ok(201)
    answer = await request(api, namespace, "agent", expirationSeconds=seconds)
    field = f"spec.expirationSeconds: Invalid value: {seconds}: {detail}"
    answer.refused(422, "Invalid", f'TokenRequest.authentication.k8s.io "" is invalid: {field}', ...)


async def test_there_is_none_for_an_account_that_is_not_there(api: Api, namespace: str) -> None:
    answer = await request(api, namespace, "nobody")
    answer.refused(404, "NotFound", 'serviceaccounts "nobody" not found', ...)


async def pod(api: Api, namespace: str, account: str, name: str = "runs") -> Any:
    """A Pod of that account on a node that does not exist: no kubelet touches it."""
    containers = [{"name": "main", "image": "example.com/agent:1"}]
    spec: dict[str, Any] = {"serviceAccountName": account, "nodeName": "n-absent", "containers": containers}
    spec |= {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0}
    return (await api.post(core(namespace, "pods"), {"metadata": {"name": name}, "spec": spec})).ok(201)


@pytest.mark.finding("N26")
async def test_a_token_bound_to_a_pod_names_the_pod_and_ends_with_it(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "serviceaccounts"), {"metadata": {"name": "agent"}})).ok(201)
    bound_to = await pod(api, namespace, "agent")
    uid = bound_to["metadata"]["uid"]
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "runs", "uid": uid}
    made = (await request(api, namespace, "agent", boundObjectRef=reference)).ok(201)
    assert made["spec"]["boundObjectRef"] == reference
    token = made["status"]["token"]
    extra = (await whose(api, token))["user"]["extra"]
    claims = "authentication.kubernetes.io"
    assert extra[f"{claims}/pod-name"] == ["runs"]
    assert extra[f"{claims}/pod-uid"] == [uid]
    assert extra[f"{claims}/node-name"] == ["n-absent"]
    assert f"{claims}/node-uid" not in extra
    (await api.delete(core(namespace, "pods", "runs") + "?gracePeriodSeconds=0")).ok()
    await eventually(lambda: whose(api, token), lambda known: not known.get("authenticated"))


@pytest.mark.finding("N26")
async def test_a_token_is_bound_only_to_a_pod_of_its_account(api: Api, namespace: str) -> None:
    for name in ("agent", "other"):
        (await api.post(core(namespace, "serviceaccounts"), {"metadata": {"name": name}})).ok(201)
    await pod(api, namespace, "other")

    async def refusal(**reference: str) -> Any:
        return await request(api, namespace, "agent", boundObjectRef={"apiVersion": "v1", **reference})

    (await refusal(kind="Pod", name="runs")).refused(
        400,
        "BadRequest",
        'cannot bind token for serviceaccount "agent" to pod running with different serviceaccount name.',
        ...,
    )
    (await refusal(kind="Pod", name="absent")).refused(404, "NotFound", 'pods "absent" not found', ...)
    (await refusal(kind="ConfigMap", name="c")).refused(
        400, "BadRequest", "cannot bind token to object of type /v1, Kind=ConfigMap", ...
    )
    await pod(api, namespace, "agent", "own")
    why = "the UID in the bound object reference (former) does not match the UID in record. The object might have been"
    (await refusal(kind="Pod", name="own", uid="former")).refused(
        409, "Conflict", f'Operation cannot be fulfilled on Pod "own": {why} deleted and then recreated', ...
    )
