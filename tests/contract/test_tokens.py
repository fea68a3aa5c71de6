"""Tokens of service accounts: issued by TokenRequest, told by TokenReview, and what they are not issued for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api
from tests.contract.things import core

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
