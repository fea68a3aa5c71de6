"""Admission webhooks: order, patches, failures, reinvocation, matching. The hooks are served by the test over TLS."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from aiohttp import web

from tests.contract.api import Api
from tests.contract.things import apps, configmap, core, deployment, eviction, pod
from tests.contract.waiting import eventually
from tests.contract.webhooks import Hook, Webhooks, allow, deny, patch, serving
from tests.controlplane.ports import ReservedPort

GROUP = "/apis/admissionregistration.k8s.io/v1"
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
CONFIGMAPS = {**PODS, "resources": ["configmaps"]}


class Registered:
    """Writes webhook configurations that concern one namespace only, and removes them at the end."""

    def __init__(self, api: Api, namespace: str, hooks: Webhooks) -> None:
        self.hooks = hooks
        self._api = api
        self._namespace = namespace
        self._written: list[str] = []
        self._numbers = itertools.count()

    async def mutating(self, *webhooks: dict[str, Any]) -> None:
        await self._write("MutatingWebhookConfiguration", webhooks)

    async def validating(self, *webhooks: dict[str, Any]) -> None:
        await self._write("ValidatingWebhookConfiguration", webhooks)

    async def refused(self, kind: str, webhook: dict[str, Any]) -> Any:
        return await self._api.post(self._path(kind), self._body(kind, "refused-" + self._namespace, (webhook,)))

    def webhook(self, name: str, config: dict[str, Any], **more: Any) -> dict[str, Any]:
        mine = {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}}
        return {
            "name": f"{name}.situate.dev",
            "clientConfig": config,
            "rules": [PODS],
            "namespaceSelector": mine,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 2,
            **more,
        }

    async def _write(self, kind: str, webhooks: tuple[dict[str, Any], ...]) -> None:
        name = f"{self._namespace}-{next(self._numbers)}"
        (await self._api.post(self._path(kind), self._body(kind, name, webhooks))).ok(201)
        self._written.append(f"{self._path(kind)}/{name}")
        await self._effective(kind)

    async def _effective(self, kind: str) -> None:
        """The server reads configurations through a watch: one more of the same kind, seen at work, came later."""
        path = f"/probe-{len(self._written)}"
        config = self.hooks.at(path, deny("probe"))
        probe = self.webhook("probe", config, rules=[{**PODS, "resources": ["serviceaccounts"]}])
        name = f"{self._namespace}-probe-{len(self._written)}"
        (await self._api.post(self._path(kind), self._body(kind, name, (probe,)))).ok(201)
        account = core(self._namespace, "serviceaccounts")
        await eventually(
            lambda: self._api.post(account, {"metadata": {"generateName": "probe-"}}, dryRun="All"),
            lambda answer: answer.status == 400,
        )
        (await self._api.delete(f"{self._path(kind)}/{name}")).ok()

    async def remove(self) -> None:
        for path in self._written:
            await self._api.delete(path)

    def _path(self, kind: str) -> str:
        return f"{GROUP}/{kind.lower()}s"

    @staticmethod
    def _body(kind: str, name: str, webhooks: tuple[dict[str, Any], ...]) -> dict[str, Any]:
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": list(webhooks),
        }


@pytest.fixture
async def registered(api: Api, namespace: str) -> AsyncIterator[Registered]:
    async with serving() as hooks:
        made = Registered(api, namespace, hooks)
        yield made
        await made.remove()


def add_label(name: str, value: str = "x") -> Hook:
    def hook(request: dict[str, Any]) -> Any:
        metadata = request["object"]["metadata"]
        if name in metadata.get("labels", {}):
            return allow(request)
        if "labels" in metadata:
            return patch({"op": "add", "path": f"/metadata/labels/{name}", "value": value})(request)
        return patch({"op": "add", "path": "/metadata/labels", "value": {name: value}})(request)

    return hook


class TestReview:
    async def test_what_a_webhook_is_asked(self, api: Api, namespace: str, registered: Registered) -> None:
        config = registered.hooks.at("/a", allow)
        await registered.mutating(registered.webhook("a", config))
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        (request,) = registered.hooks.requests("/a")
        assert request["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
        assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
        assert request["requestKind"] == request["kind"]
        assert (request["name"], request["namespace"], request["operation"]) == ("p", namespace, "CREATE")
        assert request["userInfo"]["groups"] == ["system:masters", "system:authenticated"]
        assert request["dryRun"] is False
        assert request["oldObject"] is None
        assert request["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
        assert request["object"]["kind"] == "Pod"
        assert request["object"]["apiVersion"] == "v1"

    async def test_mutation_happens_before_the_object_has_a_uid(
        self, api: Api, namespace: str, registered: Registered
    ) -> None:
        await registered.mutating(registered.webhook("m", registered.hooks.at("/m", allow)))
        await registered.validating(registered.webhook("v", registered.hooks.at("/v", allow)))
        made = (await api.post(core(namespace, "pods"), pod(meta={"generateName": "made-"}))).ok(201)
        (mutating,), (validating,) = registered.hooks.requests("/m"), registered.hooks.requests("/v")
        assert "name" not in mutating
        assert "name" not in mutating["object"]["metadata"]
        assert "uid" not in mutating["object"]["metadata"]
        assert mutating["object"]["metadata"]["generateName"] == "made-"
        assert validating["name"] == made["metadata"]["name"]
        assert validating["object"]["metadata"]["name"] == made["metadata"]["name"]
        assert validating["object"]["metadata"]["uid"] == made["metadata"]["uid"]

    async def test_defaults_and_in_tree_mutation_come_first(
        self, api: Api, namespace: str, registered: Registered
    ) -> None:
        await registered.mutating(registered.webhook("m", registered.hooks.at("/m", allow)))
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        (request,) = registered.hooks.requests("/m")
        spec = request["object"]["spec"]
        assert spec["schedulerName"] == "default-scheduler"
        assert [each["key"] for each in spec["tolerations"]] == [
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
        ]

    async def test_validation_sees_what_mutation_made(self, api: Api, namespace: str, registered: Registered) -> None:
        await registered.mutating(registered.webhook("m", registered.hooks.at("/m", add_label("seen"))))
        await registered.validating(registered.webhook("v", registered.hooks.at("/v", allow)))
        made = (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        assert made["metadata"]["labels"] == {"seen": "x"}
        (request,) = registered.hooks.requests("/v")
        assert request["object"]["metadata"]["labels"] == {"seen": "x"}

    async def test_updates_carry_the_old_object(self, api: Api, namespace: str, registered: Registered) -> None:
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        rules = [{**PODS, "operations": ["UPDATE"]}]
        await registered.mutating(registered.webhook("m", registered.hooks.at("/m", allow), rules=rules))
        (await api.patch(core(namespace, "pods", "p"), {"metadata": {"labels": {"a": "b"}}})).ok()
        (request,) = registered.hooks.requests("/m")
        assert request["operation"] == "UPDATE"
        assert "labels" not in request["oldObject"]["metadata"]
        assert request["object"]["metadata"]["labels"] == {"a": "b"}

    async def test_deletions_carry_the_old_object_alone(self, api: Api, namespace: str, registered: Registered) -> None:
        (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)
        rules = [{**CONFIGMAPS, "operations": ["DELETE"]}]
        await registered.validating(registered.webhook("v", registered.hooks.at("/v", allow), rules=rules))
        (await api.delete(core(namespace, "configmaps", "c"))).ok()
        (request,) = registered.hooks.requests("/v")
        assert (request["operation"], request["object"]) == ("DELETE", None)
        assert request["oldObject"]["metadata"]["name"] == "c"

    async def test_dry_runs_say_so(self, api: Api, namespace: str, registered: Registered) -> None:
        await registered.mutating(registered.webhook("m", registered.hooks.at("/m", allow)))
        (await api.post(core(namespace, "pods"), pod("p"), dryRun="All")).ok(201)
        assert registered.hooks.requests("/m")[0]["dryRun"] is True

    async def test_warnings_reach_the_client(self, api: Api, namespace: str, registered: Registered) -> None:
        hook = registered.hooks.at("/v", lambda _: {"allowed": True, "warnings": ["mind the step"]})
        await registered.validating(registered.webhook("v", hook))
        answer = await api.post(core(namespace, "pods"), pod("p"))
        answer.ok(201)
        assert answer.headers["Warning"] == '299 - "mind the step"'


class TestDenial:
    async def test_a_denial_has_message_and_code_only(self, api: Api, namespace: str, registered: Registered) -> None:
        await registered.validating(registered.webhook("v", registered.hooks.at("/v", deny("not today"))))
        answer = await api.post(core(namespace, "pods"), pod("p"))
        assert answer.status == 400
        assert answer.body == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": 'admission webhook "v.situate.dev" denied the request: not today',
            "code": 400,
        }

    async def test_a_denial_chooses_its_code(self, api: Api, namespace: str, registered: Registered) -> None:
        await registered.mutating(registered.webhook("m", registered.hooks.at("/m", deny("later", 429))))
        answer = await api.post(core(namespace, "pods"), pod("p"))
        assert (answer.status, answer.body["code"]) == (429, 429)
        assert answer.body["message"] == 'admission webhook "m.situate.dev" denied the request: later'

    async def test_a_denial_without_words(self, api: Api, namespace: str, registered: Registered) -> None:
        await registered.validating(registered.webhook("v", registered.hooks.at("/v", deny())))
        answer = await api.post(core(namespace, "pods"), pod("p"))
        assert answer.body["message"] == 'admission webhook "v.situate.dev" denied the request without explanation'

    async def test_ignoring_failures_does_not_ignore_denials(
        self, api: Api, namespace: str, registered: Registered
    ) -> None:
        config = registered.hooks.at("/v", deny("no"))
        await registered.validating(registered.webhook("v", config, failurePolicy="Ignore"))
        assert (await api.post(core(namespace, "pods"), pod("p"))).status == 400


async def _silent(_: dict[str, Any]) -> dict[str, Any]:
    """Never answers; ends with the webhooks."""
    answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    return await answer


@pytest.fixture
def closed() -> Iterator[ReservedPort]:
    """A port on which nobody listens."""
    with ReservedPort() as port:
        yield port


FAILURES: dict[str, Hook] = {
    "5xx": lambda _: web.Response(status=500, text="broken"),
    "4xx": lambda _: web.Response(status=404, text="nobody"),
    "garbage": lambda _: web.Response(text="{nope"),
    "wrong uid": lambda _: {"uid": "0000", "allowed": True},
    "time-out": _silent,
}


class TestFailure:
    @pytest.mark.parametrize("failure", [*FAILURES, "refused connection"])
    async def test_ignore(
        self, api: Api, namespace: str, registered: Registered, closed: ReservedPort, failure: str
    ) -> None:
        await self.failing(registered, closed, failure, "Ignore")
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)

    @pytest.mark.parametrize("failure", [*FAILURES, "refused connection"])
    async def test_fail(
        self, api: Api, namespace: str, registered: Registered, closed: ReservedPort, failure: str
    ) -> None:
        await self.failing(registered, closed, failure, "Fail")
        answer = await api.post(core(namespace, "pods"), pod("p"))
        message = 'Internal error occurred: failed calling webhook "a.situate.dev": …'
        if failure in ("5xx", "4xx", "garbage", "time-out", "refused connection"):
            message = 'Internal error occurred: failed calling webhook "a.situate.dev": failed to call webhook: …'
        answer.refused(500, "InternalError", message, ...)
        assert len(answer.body["details"]["causes"]) == 1

    @staticmethod
    async def failing(registered: Registered, closed: ReservedPort, failure: str, policy: str) -> None:
        if failure == "refused connection":
            config = {**registered.hooks.at("/a", allow), "url": f"https://127.0.0.1:{closed.number}/x"}
        else:
            config = registered.hooks.at("/a", FAILURES[failure])
        limit_s = 1 if failure == "time-out" else 10
        await registered.mutating(registered.webhook("a", config, failurePolicy=policy, timeoutSeconds=limit_s))

    async def test_an_unknown_authority(self, api: Api, namespace: str, registered: Registered) -> None:
        config = registered.hooks.at("/a", allow)
        async with serving() as other:
            config["caBundle"] = other.at("/b", allow)["caBundle"]
        await registered.mutating(registered.webhook("a", config))
        answer = await api.post(core(namespace, "pods"), pod("p"))
        answer.refused(
            500,
            "InternalError",
            'Internal error occurred: failed calling webhook "a.situate.dev": failed to call webhook: Post …',
            ...,
        )

    @pytest.mark.parametrize("policy", ["Ignore", "Fail"])
    async def test_a_patch_that_does_not_apply(
        self, api: Api, namespace: str, registered: Registered, policy: str
    ) -> None:
        hook = patch({"op": "remove", "path": "/metadata/labels/nobody"})
        await registered.mutating(registered.webhook("a", registered.hooks.at("/a", hook), failurePolicy=policy))
        answer = await api.post(core(namespace, "pods"), pod("p"))
        answer.refused(500, "InternalError", "Internal error occurred: …", ...)

    @pytest.mark.parametrize("policy", ["Ignore", "Fail"])
    async def test_a_patch_that_makes_the_object_invalid(
        self, api: Api, namespace: str, registered: Registered, policy: str
    ) -> None:
        hook = patch({"op": "replace", "path": "/spec/restartPolicy", "value": "Perhaps"})
        await registered.mutating(registered.webhook("a", registered.hooks.at("/a", hook), failurePolicy=policy))
        answer = await api.post(core(namespace, "pods"), pod("p"))
        answer.refused(422, "Invalid", 'Pod "p" is invalid: spec.restartPolicy: Unsupported value: "Perhaps": …', ...)

    async def test_unavailable_is_asked_again(self, api: Api, namespace: str, registered: Registered) -> None:
        def hook(_: dict[str, Any]) -> Any:
            if len(registered.hooks.requests("/a")) == 1:
                return web.Response(status=503, headers={"Retry-After": "1"})
            return {"allowed": True}

        await registered.mutating(registered.webhook("a", registered.hooks.at("/a", hook), timeoutSeconds=5))
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        first, second = registered.hooks.requests("/a")
        assert first["uid"] == second["uid"]

    async def test_unavailable_for_good(self, api: Api, namespace: str, registered: Registered) -> None:
        """Asked again with the same uid until the time is over; then it has failed."""

        def hook(_: dict[str, Any]) -> Any:
            return web.Response(status=503, headers={"Retry-After": "1"})

        await registered.mutating(registered.webhook("a", registered.hooks.at("/a", hook), timeoutSeconds=3))
        answer = await api.post(core(namespace, "pods"), pod("p"))
        answer.refused(500, "InternalError", 'Internal error occurred: failed calling webhook "a.situate.dev": …', ...)
        asked = registered.hooks.requests("/a")
        assert len(asked) > 1
        assert len({request["uid"] for request in asked}) == 1


class TestReinvocation:
    async def test_only_after_a_later_change(self, api: Api, namespace: str, registered: Registered) -> None:
        first = registered.webhook("a", registered.hooks.at("/a", add_label("a")), reinvocationPolicy="IfNeeded")
        second = registered.webhook("b", registered.hooks.at("/b", add_label("b")))
        await registered.mutating(first, second)
        made = (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        assert made["metadata"]["labels"] == {"a": "x", "b": "x"}
        once, again = registered.hooks.requests("/a")
        assert once["uid"] != again["uid"]
        assert again["object"]["metadata"]["labels"] == {"a": "x", "b": "x"}
        assert len(registered.hooks.requests("/b")) == 1

    async def test_not_if_nothing_changed_later(self, api: Api, namespace: str, registered: Registered) -> None:
        first = registered.webhook("a", registered.hooks.at("/a", add_label("a")), reinvocationPolicy="IfNeeded")
        second = registered.webhook("b", registered.hooks.at("/b", allow))
        await registered.mutating(first, second)
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        assert len(registered.hooks.requests("/a")) == 1

    async def test_not_by_default(self, api: Api, namespace: str, registered: Registered) -> None:
        first = registered.webhook("a", registered.hooks.at("/a", add_label("a")))
        second = registered.webhook("b", registered.hooks.at("/b", add_label("b")))
        await registered.mutating(first, second)
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        assert len(registered.hooks.requests("/a")) == 1

    async def test_configurations_come_in_the_order_of_their_names(
        self, api: Api, namespace: str, registered: Registered
    ) -> None:
        await registered.mutating(registered.webhook("z", registered.hooks.at("/z", add_label("l", "first"))))
        await registered.mutating(registered.webhook("a", registered.hooks.at("/a", add_label("l", "second"))))
        made = (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        assert made["metadata"]["labels"] == {"l": "first"}


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


async def test_a_priority_class_from_a_webhook_needs_its_number(
    api: Api, namespace: str, registered: Registered
) -> None:
    name = f"high-{namespace}"
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    (await api.post(path, {"metadata": {"name": name}, "value": 1000})).ok(201)
    change = {"op": "add", "path": "/spec/priorityClassName", "value": name}
    config = registered.hooks.at("/a", patch(change))
    await registered.mutating(registered.webhook("a", config))
    answer = await api.post(core(namespace, "pods"), pod("p"))
    answer.refused(
        403,
        "Forbidden",
        'pods "p" is forbidden: the integer value of priority (0) must not be provided in pod spec; priority admission '
        "controller computed 1000 from the given PriorityClass name",
        ...,
    )
    number = {"op": "add", "path": "/spec/priority", "value": 1000}
    registered.hooks.at("/a", patch(change, number))
    made = (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
    assert (made["spec"]["priorityClassName"], made["spec"]["priority"]) == (name, 1000)
    (await api.delete(f"{path}/{name}")).ok()


async def test_quota_is_counted_after_the_webhooks(api: Api, namespace: str, registered: Registered) -> None:
    path = core(namespace, "resourcequotas")
    quota = (await api.post(path, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}})).ok(201)
    quota["status"] = {"hard": {"pods": "0"}, "used": {"pods": "0"}}
    (await api.put(f"{path}/q/status", quota)).ok()
    await registered.mutating(registered.webhook("m", registered.hooks.at("/m", allow)))
    await registered.validating(registered.webhook("v", registered.hooks.at("/v", allow)))
    answer = await api.post(core(namespace, "pods"), pod("p"))
    answer.refused(
        403, "Forbidden", 'pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, …', ...
    )
    assert len(registered.hooks.requests("/m")) == 1
    assert len(registered.hooks.requests("/v")) <= 1


async def test_validating_webhooks_are_asked_at_once(api: Api, namespace: str, registered: Registered) -> None:
    """Each answers only once the other was asked."""
    both = asyncio.Barrier(2)

    async def together(_: dict[str, Any]) -> dict[str, Any]:
        await both.wait()
        return {"allowed": True}

    hooks = [registered.webhook(name, registered.hooks.at(f"/{name}", together)) for name in ("a", "b")]
    await registered.validating(*hooks)
    (await api.post(core(namespace, "pods"), pod("p"))).ok(201)


async def test_a_mutating_policy(api: Api, namespace: str) -> None:
    """MutatingAdmissionPolicy is stable from 1.36."""
    name = f"label-{namespace}"
    mine = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    policy = {
        "metadata": {"name": name},
        "spec": {
            "reinvocationPolicy": "Never",
            "matchConstraints": {"namespaceSelector": mine, "resourceRules": [CONFIGMAPS]},
            "mutations": [
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/data', value: {'made': 'so'}}]"},
                }
            ],
        },
    }
    (await api.post(f"{GROUP}/mutatingadmissionpolicies", policy)).ok(201)
    binding = {"metadata": {"name": name}, "spec": {"policyName": name}}
    (await api.post(f"{GROUP}/mutatingadmissionpolicybindings", binding)).ok(201)
    made = await eventually(
        lambda: api.post(core(namespace, "configmaps"), {"metadata": {"generateName": "c-"}}),
        lambda answer: answer.body.get("data") == {"made": "so"},
    )
    made.ok(201)
    for resource in ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"):
        (await api.delete(f"{GROUP}/{resource}/{name}")).ok()


async def test_a_validating_policy(api: Api, namespace: str) -> None:
    name = f"few-{namespace}"
    policy = {
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [CONFIGMAPS]},
            "validations": [{"expression": "object.metadata.name != 'no'", "message": "not that one"}],
        },
    }
    (await api.post(f"{GROUP}/validatingadmissionpolicies", policy)).ok(201)
    mine = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    spec = {"policyName": name, "validationActions": ["Deny"], "matchResources": mine}
    binding = {"metadata": {"name": name}, "spec": spec}
    (await api.post(f"{GROUP}/validatingadmissionpolicybindings", binding)).ok(201)
    answer = await eventually(
        lambda: api.post(core(namespace, "configmaps"), configmap("no"), dryRun="All"),
        lambda answer: answer.status == 422,
    )
    answer.refused(
        422,
        "Invalid",
        f"configmaps \"no\" is forbidden: ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: "
        "not that one",
        ...,
    )
    (await api.post(core(namespace, "configmaps"), configmap("yes"))).ok(201)
    for resource in ("validatingadmissionpolicies", "validatingadmissionpolicybindings"):
        (await api.delete(f"{GROUP}/{resource}/{name}")).ok()


async def test_connections_outlive_a_closed_listener(api: Api, namespace: str, registered: Registered) -> None:
    """The server keeps its connection to a webhook: who stops listening is still asked."""
    await registered.mutating(registered.webhook("a", registered.hooks.at("/a", allow)))
    (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
    await registered.hooks.stop_listening()
    (await api.post(core(namespace, "pods"), pod("q"))).ok(201)
    assert [request["name"] for request in registered.hooks.requests("/a")] == ["p", "q"]
