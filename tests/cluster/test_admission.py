from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from situate.cluster.storage.effects import WebhookReply
from tests.cluster.asking import PODS, Cluster, pod

MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def hook(name: str = "a.situate.dev", **more: Any) -> dict[str, Any]:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    return {
        "name": name,
        "clientConfig": {"url": "https://127.0.0.1:9/x"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


def allow(_: Any) -> Any:
    return {"allowed": True}


def patching(*operations: dict[str, Any]) -> Any:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"allowed": True, "patch": patch, "patchType": "JSONPatch"}


def labelled(value: str) -> Any:
    return patching({"op": "add", "path": "/metadata/labels/x", "value": value})


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def configure(cluster: Cluster, path: str, name: str, *hooks: dict[str, Any]) -> None:
    cluster.post(path, {"metadata": {"name": name}, "webhooks": list(hooks)}).ok(201)


def create(cluster: Cluster, *replies: Any, body: Any = None, query: str = "") -> Any:
    return cluster.ask_with_webhooks(cluster.request("POST", PODS + query, body or pod()), *replies)


def test_webhooks_see_defaults_and_tolerations_and_change_the_pod(cluster: Cluster) -> None:
    configure(cluster, MUTATING, "m", hook())
    made = create(cluster, labelled("y")).ok(201)
    assert made["metadata"]["labels"] == {"app": "a", "x": "y"}
    [asked] = cluster.webhooks
    assert len(asked["object"]["spec"]["tolerations"]) == 2
    assert (asked["operation"], asked["userInfo"]["username"], asked["dryRun"]) == ("CREATE", "kubernetes-admin", False)
    assert asked["resource"] == {"group": "", "version": "v1", "resource": "pods"}


def test_a_generated_name_is_unknown_at_mutation_and_known_at_validation(cluster: Cluster) -> None:
    configure(cluster, MUTATING, "m", hook())
    configure(cluster, VALIDATING, "v", hook())
    create(cluster, allow, allow, body={**pod(), "metadata": {"generateName": "g-"}}).ok(201)
    first, second = cluster.webhooks
    assert "name" not in first["object"]["metadata"]
    assert "uid" not in first["object"]["metadata"]
    assert second["object"]["metadata"]["name"].startswith("g-")
    assert second["object"]["metadata"]["uid"]


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        pytest.param(
            WebhookReply(error='Post "https://x": dial tcp: connect: connection refused'),
            "connection refused",
            id="refused",
        ),
        pytest.param(WebhookReply(500, b"boom"), "an error on the server", id="5xx"),
        pytest.param(WebhookReply(200, b"garbage"), "couldn't get version/kind", id="garbage"),
        pytest.param(lambda asked: {"uid": "z", "allowed": True}, "expected response.uid=", id="wrong uid"),
    ],
)
def test_a_failing_webhook_refuses_or_is_ignored(cluster: Cluster, reply: Any, text: str) -> None:
    configure(cluster, MUTATING, "m", hook())
    refused = create(cluster, reply).ok(500)
    assert refused["reason"] == "InternalError"
    assert refused["message"].startswith('Internal error occurred: failed calling webhook "a.situate.dev": ')
    assert text in refused["message"]
    cluster.delete(f"{MUTATING}/m").ok()
    configure(cluster, MUTATING, "m", hook(failurePolicy="Ignore"))
    create(cluster, reply).ok(201)


def test_a_denial_has_message_and_code_only(cluster: Cluster) -> None:
    configure(cluster, VALIDATING, "v", hook())
    refused = create(cluster, lambda _: {"allowed": False, "status": {"message": "no", "code": 403}}).ok(403)
    assert refused["message"] == 'admission webhook "a.situate.dev" denied the request: no'
    assert "reason" not in refused
    assert "details" not in refused


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        pytest.param({"op": "remove", "path": "/spec/none"}, 500, id="does not apply"),
        pytest.param({"op": "remove", "path": "/spec/containers/0/image"}, 422, id="makes the pod invalid"),
    ],
)
def test_ignore_does_not_cover_a_bad_patch(cluster: Cluster, operation: dict[str, Any], code: int) -> None:
    configure(cluster, MUTATING, "m", hook(failurePolicy="Ignore"))
    create(cluster, patching(operation)).ok(code)


def test_503_with_retry_after_is_asked_again_with_the_same_uid(cluster: Cluster) -> None:
    configure(cluster, MUTATING, "m", hook())
    create(cluster, WebhookReply(503, b"", retry_after_s=1), allow).ok(201)
    first, second = cluster.webhooks
    assert first["uid"] == second["uid"]
    cluster.webhooks.clear()
    late = [WebhookReply(503, b"", retry_after_s=4)] * 3
    refused = create(cluster, *late, body=pod("q")).ok(500)
    assert "context deadline exceeded" in refused["message"]


def test_reinvocation_only_after_a_change_by_a_later_webhook(cluster: Cluster) -> None:
    again = hook("a.situate.dev", reinvocationPolicy="IfNeeded")
    configure(cluster, MUTATING, "m", again, hook("b.situate.dev"))
    create(cluster, allow, labelled("b"), allow).ok(201)
    uids = [asked["uid"] for asked in cluster.webhooks]
    assert len(set(uids)) == 3
    assert cluster.webhooks[2]["object"]["metadata"]["labels"]["x"] == "b"
    create(cluster, labelled("a"), allow, body=pod("q")).ok(201)


def test_webhooks_are_asked_in_the_order_of_their_configurations(cluster: Cluster) -> None:
    configure(cluster, MUTATING, "z", hook("z.situate.dev"))
    configure(cluster, MUTATING, "a", hook("a.situate.dev"))
    assert create(cluster, labelled("a"), labelled("z")).ok(201)["metadata"]["labels"]["x"] == "z"


def test_a_priority_class_set_by_a_webhook_needs_the_priority_too(cluster: Cluster) -> None:
    configure(cluster, MUTATING, "m", hook())
    named = {"op": "add", "path": "/spec/priorityClassName", "value": "system-node-critical"}
    refused = create(cluster, patching(named)).ok(403)
    assert "the integer value of priority (0) must not be provided in pod spec" in refused["message"]
    value = {"op": "add", "path": "/spec/priority", "value": 2000001000}
    assert create(cluster, patching(named, value)).ok(201)["spec"]["priority"] == 2000001000


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({"objectSelector": {"matchLabels": {"app": "a"}}}, True),
        ({"objectSelector": {"matchLabels": {"app": "b"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}, False),
        ({"matchConditions": [{"name": "c", "expression": "object.metadata.name == 'p'"}]}, True),
        ({"matchConditions": [{"name": "c", "expression": "request.operation == 'DELETE'"}]}, False),
        ({"matchConditions": [{"name": "c", "expression": "object.none == 1"}], "failurePolicy": "Ignore"}, False),
    ],
)
def test_selectors_and_conditions(cluster: Cluster, more: dict[str, Any], asked: bool) -> None:
    configure(cluster, MUTATING, "m", hook(**more))
    create(cluster, *([allow] if asked else [])).ok(201)


def test_an_error_in_a_condition_refuses_where_failures_do(cluster: Cluster) -> None:
    conditions = [{"name": "c", "expression": "object.none == 1"}]
    configure(cluster, MUTATING, "m", hook(matchConditions=conditions))
    assert create(cluster).ok(403)["reason"] == "Forbidden"


def test_binding_and_eviction_pass_no_pod_webhook(cluster: Cluster) -> None:
    cluster.post(PODS, pod()).ok(201)
    everything = hook()
    everything["rules"][0]["operations"] = ["*"]
    configure(cluster, MUTATING, "m", everything)
    body = {"metadata": {"name": "p"}, "target": {"name": "n"}}
    cluster.ask_with_webhooks(cluster.request("POST", f"{PODS}/p/binding", body)).ok(201)


def test_a_dry_run_needs_a_webhook_without_side_effects(cluster: Cluster) -> None:
    configure(cluster, MUTATING, "m", hook(sideEffects="NoneOnDryRun"))
    create(cluster, allow, query="?dryRun=All").ok(201)
    assert cluster.webhooks[0]["dryRun"] is True


def test_somebody_writing_meanwhile_makes_a_patch_start_again(cluster: Cluster) -> None:
    cluster.post(PODS, pod()).ok(201)
    updates = hook()
    updates["rules"][0]["operations"] = ["UPDATE"]
    configure(cluster, MUTATING, "m", updates)
    request = cluster.request(
        "PATCH", f"{PODS}/p", {"metadata": {"labels": {"b": "2"}}}, {"content-type": "application/merge-patch+json"}
    )

    def meanwhile(_: Any) -> Any:
        if len(cluster.webhooks) == 1:
            cluster.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}}).ok()
        return {"allowed": True}

    patched = cluster.ask_with_webhooks(request, meanwhile, meanwhile).ok()
    assert (patched["metadata"]["labels"], patched["status"]["phase"]) == ({"app": "a", "b": "2"}, "Running")


def test_without_a_network_a_webhook_is_unreachable(cluster: Cluster) -> None:
    configure(cluster, MUTATING, "m", hook())
    assert cluster.post(PODS, pod()).ok(500)["reason"] == "InternalError"


def test_new_nodes_are_tainted_until_ready(cluster: Cluster) -> None:
    node = cluster.post("/api/v1/nodes", {"metadata": {"name": "n"}}).ok(201)
    assert node["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


def refused(message: str) -> Any:
    return lambda _: {"allowed": False, "status": {"message": message}}


def test_validating_webhooks_are_asked_at_once_and_the_first_refusal_is_told(cluster: Cluster) -> None:
    configure(cluster, VALIDATING, "v", hook("a.situate.dev"), hook("b.situate.dev"), hook("c.situate.dev"))
    answer = create(cluster, allow, refused("second"), refused("third"))
    assert cluster.rounds == [3]
    assert answer.body["message"] == 'admission webhook "b.situate.dev" denied the request: second'
    create(cluster, allow, allow, allow).ok(201)


def test_one_that_wants_to_be_asked_again_does_not_hold_up_the_others(cluster: Cluster) -> None:
    configure(cluster, VALIDATING, "v", hook("a.situate.dev"), hook("b.situate.dev"))
    create(cluster, WebhookReply(503, b"", retry_after_s=1), allow, allow).ok(201)
    assert cluster.rounds == [2]
    assert len(cluster.webhooks) == 3


def test_failures_of_one_do_not_excuse_another(cluster: Cluster) -> None:
    ignored = hook("a.situate.dev", failurePolicy="Ignore")
    configure(cluster, VALIDATING, "v", ignored, hook("b.situate.dev"))
    broken = WebhookReply(error="connection refused")
    create(cluster, broken, allow).ok(201)
    answer = create(cluster, allow, broken, body=pod("q"))
    assert (answer.code, answer.body["reason"]) == (500, "InternalError")
