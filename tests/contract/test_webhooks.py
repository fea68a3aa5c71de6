"""Admission webhooks: what they are asked, in which order, and what becomes of their patches and denials."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.contract.api import Api
from tests.contract.registering import CONFIGMAPS, GROUP, PODS, Registered, add_label
from tests.contract.things import configmap, core, pod
from tests.contract.waiting import eventually
from tests.contract.webhooks import allow, deny, patch


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
