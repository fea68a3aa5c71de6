"""How long an issued token counts; what issues and tells of it is in tests/contract."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.asking import Cluster

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


def issued(cluster: Cluster, **spec: Any) -> str:
    """To the account `agent`, which is made."""
    cluster.post(ACCOUNTS, {"metadata": {"name": "agent"}}).ok(201)
    return str(cluster.post(f"{ACCOUNTS}/agent/token", {"spec": spec}).ok(201)["status"]["token"])


def user(cluster: Cluster, token: str) -> str:
    """Empty: nobody."""
    review = cluster.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}}).ok(201)
    return str(review["status"]["user"].get("username", ""))


@pytest.mark.parametrize(("spec", "seconds"), [({}, 3600), ({"expirationSeconds": 600}, 600)])
def test_it_counts_until_it_expires(spec: dict[str, int], seconds: int) -> None:
    cluster = Cluster()
    token = issued(cluster, **spec)
    cluster.now += seconds - 1
    assert user(cluster, token) == "system:serviceaccount:default:agent"
    cluster.now += 1
    assert user(cluster, token) == ""


def test_it_ends_with_its_account_and_another_of_its_name_has_none() -> None:
    cluster = Cluster()
    first = issued(cluster)
    cluster.delete(f"{ACCOUNTS}/agent").ok()
    second = issued(cluster)
    assert second != first
    assert user(cluster, first) == ""
    assert user(cluster, second) == "system:serviceaccount:default:agent"
