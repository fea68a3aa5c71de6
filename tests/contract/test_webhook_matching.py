"""Which requests admission webhooks are asked about, and which configurations are refused."""

from __future__ import annotations

import pytest

from tests.contract.api import Api
from tests.contract.registering import PODS, Registered
from tests.contract.things import apps, core, deployment, eviction, pod
from tests.contract.webhooks import allow, deny


class TestMatching:
    async def test_object_selector(self, api: Api, namespace: str, registered: Registered) -> None:
        config = registered.hooks.at("/a", allow)
        await registered.mutating(registered.webhook("a", config, objectSelector={"matchLabels": {"app": "x"}}))
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        (await api.post(core(namespace, "pods"), pod("q", meta={"labels": {"app": "x"}}))).ok(201)
        assert [request["name"] for request in registered.hooks.requests("/a")] == ["q"]

    async def test_other_namespaces(self, api: Api, namespace: str, registered: Registered) -> None:
        await registered.mutating(registered.webhook("a", registered.hooks.at("/a", deny("no"))))
        (await api.post(core("default", "pods"), pod(f"p-{namespace}"))).ok(201)
        (await api.delete(core("default", "pods", f"p-{namespace}"))).ok()

    @pytest.mark.parametrize(
        ("expression", "want"),
        [
            pytest.param("object.metadata.name == 'q'", ["q"], id="by name"),
            pytest.param("has(object.metadata.labels) && 'app' in object.metadata.labels", ["q"], id="by label"),
            pytest.param("request.operation == 'DELETE'", [], id="by operation"),
        ],
    )
    async def test_conditions(
        self, api: Api, namespace: str, registered: Registered, expression: str, want: list[str]
    ) -> None:
        conditions = [{"name": "only", "expression": expression}]
        await registered.mutating(registered.webhook("a", registered.hooks.at("/a", allow), matchConditions=conditions))
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        (await api.post(core(namespace, "pods"), pod("q", meta={"labels": {"app": "x"}}))).ok(201)
        assert [request["name"] for request in registered.hooks.requests("/a")] == want

    @pytest.mark.parametrize("policy", ["Ignore", "Fail"])
    async def test_an_error_in_a_condition(self, api: Api, namespace: str, registered: Registered, policy: str) -> None:
        conditions = [{"name": "only", "expression": "object.metadata.labels['nobody'] == 'x'"}]
        config = registered.hooks.at("/a", deny("no"))
        await registered.mutating(registered.webhook("a", config, matchConditions=conditions, failurePolicy=policy))
        answer = await api.post(core(namespace, "pods"), pod("p"))
        if policy == "Ignore":
            answer.ok(201)
        else:
            answer.refused(403, "Forbidden", 'pods "p" is forbidden: …', ...)
        assert registered.hooks.requests("/a") == []

    async def test_bindings_and_evictions_pass_no_pod_webhook(
        self, api: Api, namespace: str, host: str, registered: Registered
    ) -> None:
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        rules = [{**PODS, "operations": ["*"]}]
        await registered.mutating(registered.webhook("m", registered.hooks.at("/m", deny("no")), rules=rules))
        target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": host}}
        (await api.post(core(namespace, "pods", "p", "binding"), target)).ok(201)
        (await api.post(core(namespace, "pods", "p", "eviction"), eviction("p", gracePeriodSeconds=0))).ok(201)
        assert registered.hooks.requests("/m") == []

    async def test_subresources_are_matched_by_their_name(
        self, api: Api, namespace: str, registered: Registered
    ) -> None:
        (await api.post(apps(namespace, "deployments"), deployment("d"))).ok(201)
        rules = [{"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["*/scale"]}]
        await registered.validating(registered.webhook("v", registered.hooks.at("/v", allow), rules=rules))
        (await api.patch(apps(namespace, "deployments", "d", "scale"), {"spec": {"replicas": 2}})).ok()
        (await api.patch(apps(namespace, "deployments", "d"), {"spec": {"replicas": 3}})).ok()
        (request,) = registered.hooks.requests("/v")
        assert (request["subResource"], request["kind"]["kind"]) == ("scale", "Scale")

    async def test_equivalent_versions_match_once(self, api: Api, namespace: str, registered: Registered) -> None:
        await registered.validating(registered.webhook("v", registered.hooks.at("/v", allow), rules=[PODS, PODS]))
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        assert len(registered.hooks.requests("/v")) == 1


class TestConfiguration:
    @pytest.mark.parametrize("kind", ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
    async def test_urls_have_no_query(self, registered: Registered, kind: str) -> None:
        config = registered.hooks.at("/a", allow)
        answer = await registered.refused(kind, registered.webhook("a", {**config, "url": "https://localhost/a?b=c"}))
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert "query parameters are not permitted in the URL" in answer.body["message"]

    async def test_urls_are_secure(self, registered: Registered) -> None:
        config = {**registered.hooks.at("/a", allow), "url": "http://localhost/a"}
        answer = await registered.refused("MutatingWebhookConfiguration", registered.webhook("a", config))
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert "'https' is the only allowed URL scheme" in answer.body["message"]

    async def test_names_have_three_parts(self, registered: Registered) -> None:
        webhook = {**registered.webhook("a", registered.hooks.at("/a", allow)), "name": "a"}
        answer = await registered.refused("ValidatingWebhookConfiguration", webhook)
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert "should be a domain with at least three segments separated by dots" in answer.body["message"]

    async def test_conditions_must_compile(self, registered: Registered) -> None:
        config = registered.hooks.at("/a", allow)
        webhook = registered.webhook("a", config, matchConditions=[{"name": "x", "expression": "object.("}])
        answer = await registered.refused("ValidatingWebhookConfiguration", webhook)
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert answer.body["details"]["causes"][0]["field"] == "webhooks[0].matchConditions[0].expression"

    async def test_defaults(self, api: Api, namespace: str, registered: Registered) -> None:
        webhook = registered.webhook("a", registered.hooks.at("/a", allow))
        del webhook["timeoutSeconds"]
        await registered.mutating(webhook)
        (path,) = registered._written
        made = (await api.get(path)).ok()["webhooks"][0]
        assert (made["failurePolicy"], made["matchPolicy"], made["timeoutSeconds"], made["reinvocationPolicy"]) == (
            "Fail",
            "Equivalent",
            10,
            "Never",
        )
        assert made["rules"][0]["scope"] == "*"
        assert made["objectSelector"] == {}
