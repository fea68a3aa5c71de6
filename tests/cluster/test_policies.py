"""ValidatingAdmissionPolicies in force: which writes they judge, with which parameters, and what is answered."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.asking import MAPS, PODS, Cluster, config_map, pod

GROUP = "/apis/admissionregistration.k8s.io/v1"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
NEVER = [{"expression": "false", "message": "never"}]
LIMITED = [
    {
        "expression": "int(object.data.n) <= int(params.data.most)",
        "messageExpression": "params.metadata.name + ' allows ' + params.data.most",
    }
]
BY_NAME = {"name": "limits", "parameterNotFoundAction": "Deny"}
CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def rules(*given: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"resourceRules": list(given) or [RULE], **more}


def policy(cluster: Cluster, name: str = "p", **spec: Any) -> None:
    whole = {"metadata": {"name": name}, "spec": {"matchConstraints": rules(), "validations": NEVER, **spec}}
    cluster.post(f"{GROUP}/validatingadmissionpolicies", whole).ok(201)


def bind(cluster: Cluster, name: str = "b", policy_name: str = "p", **spec: Any) -> None:
    whole = {
        "metadata": {"name": name},
        "spec": {"policyName": policy_name, "validationActions": ["Deny"], **spec},
    }
    cluster.post(f"{GROUP}/validatingadmissionpolicybindings", whole).ok(201)


def denied(answer: Any) -> str:
    """What follows the name of policy and binding; empty if the write was let through."""
    if answer.code < 300:
        return ""
    whole = str(answer.body["message"])
    assert " denied request: " in whole, answer.body
    return whole.partition(" denied request: ")[2]


def test_a_denial_is_answered_as_upstream_does(cluster: Cluster) -> None:
    policy(cluster)
    bind(cluster)
    text = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: never"
    answer = cluster.post(MAPS, config_map("c"))
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'configmaps "c" is forbidden: {text}',
        "reason": "Invalid",
        "details": {"name": "c", "kind": "configmaps", "causes": [{"message": text}]},
        "code": 422,
    }
    assert answer.code == 422


@pytest.mark.parametrize(("reason", "code"), [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413)])
def test_the_policy_chooses_reason_and_code(cluster: Cluster, reason: str, code: int) -> None:
    policy(cluster, validations=[{"expression": "false", "reason": reason}])
    bind(cluster)
    answer = cluster.post(MAPS, config_map())
    assert (answer.code, answer.body["reason"]) == (code, reason)


def test_without_a_binding_a_policy_does_nothing(cluster: Cluster) -> None:
    policy(cluster, paramKind={"apiVersion": "x.example.com/v1", "kind": "Absent"})
    bind(cluster, policy_name="another")
    cluster.post(MAPS, config_map()).ok(201)


def test_actions_warn_deny_and_audit(cluster: Cluster) -> None:
    policy(cluster, validations=[{"expression": "object.data.a == '1'", "message": "a is not 1"}])
    bind(cluster, "audit", validationActions=["Audit"])
    bind(cluster, "deny", matchResources={"objectSelector": {"matchLabels": {"strict": "yes"}}})
    bind(cluster, "warn", validationActions=["Warn"])
    warning = "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'warn': a is not 1\""
    lax = cluster.post(MAPS, config_map("lax", a="2"))
    assert (lax.code, lax.headers["warning"]) == (201, warning)
    strict = config_map("strict", a="2")
    strict["metadata"]["labels"] = {"strict": "yes"}
    answer = cluster.post(MAPS, strict)
    assert denied(answer) == "a is not 1"
    assert answer.headers["warning"] == warning


@pytest.mark.parametrize(
    ("constraints", "want"),
    [
        pytest.param(rules(), "never", id="matched"),
        pytest.param(rules({**RULE, "operations": ["UPDATE"]}), "", id="another operation"),
        pytest.param(rules({**RULE, "resources": ["pods"]}), "", id="another resource"),
        pytest.param(rules({**RULE, "apiVersions": ["v2"]}), "", id="another version"),
        pytest.param(rules({**RULE, "resourceNames": ["c"]}), "never", id="its name"),
        pytest.param(rules({**RULE, "resourceNames": ["d"]}), "", id="another name"),
        pytest.param(rules(excludeResourceRules=[RULE]), "", id="excluded"),
        pytest.param(rules(namespaceSelector={"matchLabels": {"no": "such"}}), "", id="another namespace"),
        pytest.param(rules(objectSelector={"matchLabels": {"no": "such"}}), "", id="another object"),
    ],
)
def test_match_constraints(cluster: Cluster, constraints: dict[str, Any], want: str) -> None:
    policy(cluster, matchConstraints=constraints)
    bind(cluster)
    assert denied(cluster.post(MAPS, config_map("c"))) == want


def test_a_binding_narrows_what_its_policy_matches(cluster: Cluster) -> None:
    policy(cluster)
    bind(cluster, matchResources={"resourceRules": [{**RULE, "operations": ["UPDATE"]}]})
    cluster.post(MAPS, config_map("c")).ok(201)
    assert denied(cluster.patch(f"{MAPS}/c", {"data": {"x": "1"}})) == "never"


def test_expressions_see_object_old_object_request_and_namespace(cluster: Cluster) -> None:
    shown = (
        "request.operation + ' ' + request.namespace + '/' + oldObject.metadata.name + ' by ' + "
        "request.userInfo.username + ' in ' + namespaceObject.metadata.name + (object == null ? ' gone' : ' there')"
    )
    cluster.post(MAPS, config_map("c")).ok(201)
    policy(cluster, validations=[{"expression": "false", "messageExpression": shown}])
    bind(cluster)
    assert denied(cluster.patch(f"{MAPS}/c", {"data": {}})) == "UPDATE default/c by kubernetes-admin in default there"
    assert denied(cluster.delete(f"{MAPS}/c")) == "DELETE default/c by kubernetes-admin in default gone"


def test_a_collection_is_deleted_without_a_name(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("c")).ok(201)
    policy(cluster)
    bind(cluster)
    assert cluster.delete(MAPS).body["message"].startswith('configmaps "Unknown" is forbidden: ')


def test_generated_names_are_known(cluster: Cluster) -> None:
    policy(cluster)
    bind(cluster)
    answer = cluster.post(MAPS, {"metadata": {"generateName": "g-"}})
    assert answer.body["details"]["name"].startswith("g-")
    assert len(answer.body["details"]["name"]) == 7


@pytest.mark.parametrize(
    ("reference", "want"),
    [
        pytest.param(BY_NAME, "limits allows 3", id="by name, in the namespace of the request"),
        pytest.param({**BY_NAME, "namespace": "default"}, "limits allows 3", id="by name and namespace"),
        pytest.param(
            {"selector": {"matchLabels": {"kind": "limit"}}, "parameterNotFoundAction": "Deny"},
            "limits allows 3",
            id="by selector",
        ),
        pytest.param({"name": "none", "parameterNotFoundAction": "Allow"}, "", id="absent and allowed"),
        pytest.param(
            {"name": "none", "parameterNotFoundAction": "Deny"},
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
            id="absent and denied",
        ),
    ],
)
def test_parameters(cluster: Cluster, reference: dict[str, Any], want: str) -> None:
    limits = config_map("limits", most="3")
    limits["metadata"]["labels"] = {"kind": "limit"}
    cluster.post(MAPS, limits).ok(201)
    policy(cluster, paramKind=CONFIG_MAPS, validations=LIMITED)
    bind(cluster, paramRef=reference)
    assert denied(cluster.post(MAPS, config_map("c", n="5"))) == want
    if "allows" in want:
        cluster.post(MAPS, config_map("d", n="2")).ok(201)


def test_every_selected_parameter_must_allow_it(cluster: Cluster) -> None:
    for name, most in (("a", "9"), ("b", "1")):
        cluster.post(MAPS, config_map(name, most=most, n="0")).ok(201)
    policy(cluster, paramKind=CONFIG_MAPS, validations=LIMITED)
    bind(cluster, paramRef={"selector": {}, "parameterNotFoundAction": "Deny"})
    assert denied(cluster.post(MAPS, config_map("c", n="5"))) == "b allows 1"


def test_params_is_null_without_a_reference(cluster: Cluster) -> None:
    policy(cluster, paramKind=CONFIG_MAPS, validations=[{"expression": "params != null", "message": "null"}])
    bind(cluster)
    assert denied(cluster.post(MAPS, config_map())) == "null"


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    ("kind", "reference", "path", "body", "want"),
    [
        pytest.param(
            {"apiVersion": "x.example.com/v1", "kind": "Absent"},
            BY_NAME,
            MAPS,
            config_map(),
            "failed to configure policy: failed to find resource referenced by paramKind: "
            "'x.example.com/v1, Kind=Absent'",
            id="unknown kind",
        ),
        pytest.param(
            CONFIG_MAPS,
            BY_NAME,
            "/api/v1/nodes",
            {"metadata": {"name": "n"}},
            "failed to configure binding: cannot use namespaced paramRef in policy binding that matches cluster-scoped "
            "resources",
            id="no namespace to look in",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Node"},
            {**BY_NAME, "namespace": "default"},
            MAPS,
            config_map(),
            "failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
            id="a namespace too many",
        ),
    ],
)
def test_what_cannot_be_configured_counts_as_the_failure_policy_says(
    cluster: Cluster,
    failure_policy: str,
    kind: dict[str, str],
    reference: dict[str, str],
    path: str,
    body: dict[str, Any],
    want: str,
) -> None:
    constraints = rules({**RULE, "resources": ["configmaps", "nodes"]})
    policy(cluster, paramKind=kind, matchConstraints=constraints, failurePolicy=failure_policy)
    bind(cluster, paramRef=reference)
    assert denied(cluster.post(path, body)) == (want if failure_policy == "Fail" else "")


def test_policies_judge_webhooks_but_not_policies(cluster: Cluster) -> None:
    policy(cluster, matchConstraints=rules({**RULE, "apiGroups": ["*"], "resources": ["*"]}))
    bind(cluster)
    policy(cluster, "q")
    bind(cluster, "c", "q")
    answer = cluster.post(f"{GROUP}/validatingwebhookconfigurations", {"metadata": {"name": "w"}})
    assert denied(answer) == "never"


def test_pods_of_a_known_template_are_judged_too(cluster: Cluster) -> None:
    cluster.post(PODS, pod("a")).ok(201)
    policy(cluster, matchConstraints=rules({**RULE, "resources": ["pods"]}))
    bind(cluster)
    assert denied(cluster.post(PODS, pod("b"))) == "never"


def test_a_policy_that_goes_is_out_of_force(cluster: Cluster) -> None:
    policy(cluster)
    bind(cluster)
    cluster.delete(f"{GROUP}/validatingadmissionpolicies/p").ok()
    cluster.post(MAPS, config_map()).ok(201)


def test_mutating_policies_are_refused_by_name(cluster: Cluster) -> None:
    answer = cluster.post(f"{GROUP}/mutatingadmissionpolicies", {"metadata": {"name": "p"}})
    assert (answer.code, answer.body["reason"]) == (404, "NotFound")
    assert answer.body["message"].endswith(
        "does not serve mutatingadmissionpolicies: their expressions make typed "
        "objects, which are not evaluated here; use a webhook"
    )


@pytest.mark.parametrize(
    "expression", ["object.?data.orValue({}) == {}", "authorizer.group('').check('get').allowed()"]
)
def test_what_cannot_be_evaluated_is_refused_at_creation(cluster: Cluster, expression: str) -> None:
    body = {
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": rules(), "validations": [{"expression": expression}]},
    }
    answer = cluster.post(f"{GROUP}/validatingadmissionpolicies", body)
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert "not supported by this server: " in answer.body["message"]
