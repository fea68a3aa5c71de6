"""The policy that refuses unreadable on-demand values agrees with the parser, and judges changes alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from situate.spot.admission.policy_admission import on_demand_policy
from situate.spot.model.pods_nodes_workloads import ON_DEMAND
from situate.spot.workloads.on_demand_policy import STRATEGIES, BadPolicy, parse_policy
from situate.spot.workloads.owners import KINDS
from tests.contract.api import Answer, Api
from tests.contract.waiting import eventually

pytestmark = [pytest.mark.finding("N19"), pytest.mark.rule("spot:P10", "spot:P11")]

GROUP = "/apis/admissionregistration.k8s.io/v1"
TEXTS = (
    *STRATEGIES, "", "Majority", "all-spot ", "all_spot", "all-spot\n", "default3", "lots", "majority|3", "a" * 5_000,
    "0", "3", "007", "9" * 100, "9" * 101, "-1", "+1", " 3", "3 ", "3\n", "\n3", "3\n4", "1.5", "1e3", "٣", "３",
    "3\u00a0",
    "0%", "30%", "100%", "101%", "030%", "-5%", "%", "3 %", "200%", "1000%",
    "0" * 97 + "100%", "0" * 98 + "100%", "0" * 99 + "9%", "0" * 100 + "9%", "9" * 100 + "%",
    "base=2,weight=1:3", "base=0,weight=0:1", "base=0,weight=1:0", "base=2,weight=0:0", "base=2,weight=00:0",
    "base=2,weight=1", "base=2,weight=1:3,", "base=-2,weight=1:3", "base=2, weight=1:3", "base=1234567890,weight=1:3",
    "base=999999999,weight=999999999:999999999", "base=2,weight=000000000:000000000", "base=2,weight=0:00000001",
)  # fmt: skip


@pytest.fixture
async def policy(api: Api, namespace: str) -> AsyncIterator[str]:
    """For this namespace alone, and in force."""
    objects = list(on_demand_policy(f"not-{namespace}", {}, (KINDS["Deployment"], KINDS["StatefulSet"])))
    selector = objects[0]["spec"]["matchConstraints"]["namespaceSelector"]
    selector["matchLabels"] = {"kubernetes.io/metadata.name": namespace}
    name = objects[0]["metadata"]["name"]
    resources = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    for resource, content in zip(resources, objects, strict=True):
        (await api.post(f"{GROUP}/{resource}", content)).ok(201)
    await eventually(lambda: asked(api, namespace, "lots"), lambda answer: answer.status == 422)
    yield name
    for resource in reversed(resources):
        await api.delete(f"{GROUP}/{resource}/{name}")


def deployments(namespace: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


def deployment(value: str | None, name: str = "web") -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]}}
    annotations = {} if value is None else {ON_DEMAND: value}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


async def asked(api: Api, namespace: str, value: str) -> Answer:
    return await api.post(deployments(namespace), deployment(value), dryRun="All")


def readable(text: str) -> bool:
    try:
        parse_policy(text)
    except BadPolicy:
        return False
    return True


async def test_the_policy_accepts_what_the_parser_reads_and_nothing_else(api: Api, namespace: str, policy: str) -> None:
    for text in TEXTS:
        answer = await asked(api, namespace, text)
        assert (answer.status == 201) == readable(text), (text, answer.body)
        assert answer.status in (201, 422), text


async def test_a_refusal_names_the_value_and_what_is_allowed(api: Api, namespace: str, policy: str) -> None:
    answer = await asked(api, namespace, "lots")
    assert f'{ON_DEMAND}: found "lots", allowed: a number of pods such as 3, a percentage' in answer.body["message"]
    long = await asked(api, namespace, "x" * 200)
    assert f"{ON_DEMAND}: allowed: a number of pods such as 3" in long.body["message"]


async def test_only_a_value_that_changes_is_judged(api: Api, namespace: str, policy: str) -> None:
    (await api.post(deployments(namespace), deployment("3"))).ok(201)
    path = f"{deployments(namespace)}/web"
    refused = await api.patch(path, {"metadata": {"annotations": {ON_DEMAND: "lots"}}})
    assert refused.status == 422
    (await api.patch(path, {"metadata": {"annotations": {ON_DEMAND: "2"}}})).ok(200)
    (await api.patch(path, {"metadata": {"annotations": {ON_DEMAND: None}}})).ok(200)
    of_namespace = await api.patch(
        f"/api/v1/namespaces/{namespace}",
        {"metadata": {"annotations": {ON_DEMAND: "lots"}}},
    )
    assert of_namespace.status == 422


async def test_an_object_with_a_bad_value_can_still_be_updated(api: Api, namespace: str) -> None:
    (await api.post(deployments(namespace), deployment("lots"))).ok(201)
    objects = list(on_demand_policy(f"not-{namespace}", {}, (KINDS["Deployment"],)))
    resources = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    for resource, content in zip(resources, objects, strict=True):
        (await api.post(f"{GROUP}/{resource}", content)).ok(201)
    try:
        other = deployment("lots", "other")
        await eventually(
            lambda: api.post(deployments(namespace), other, dryRun="All"), lambda answer: answer.status == 422
        )
        path = f"{deployments(namespace)}/web"
        (await api.patch(path, {"metadata": {"labels": {"team": "shop"}}})).ok(200)
        assert (await api.patch(path, {"metadata": {"annotations": {ON_DEMAND: "many"}}})).status == 422
        (await api.patch(path, {"metadata": {"annotations": {ON_DEMAND: "4"}}})).ok(200)
    finally:
        for resource in reversed(resources):
            await api.delete(f"{GROUP}/{resource}/{objects[0]['metadata']['name']}")
