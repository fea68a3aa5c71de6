"""Objects that are wrong, and requests that cannot be read: status, reason, message and details."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api, Json, causes
from tests.contract.things import apps, configmap, core, deployment, pod, statefulset


async def test_invalid_pod(api: Api, namespace: str) -> None:
    body = {"metadata": {"name": "v1"}, "spec": {"containers": [{"name": "a"}]}}
    (await api.post(core(namespace, "pods"), body)).refused(
        422,
        "Invalid",
        'Pod "v1" is invalid: spec.containers[0].image: Required value',
        {
            "name": "v1",
            "kind": "Pod",
            "causes": [
                {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers[0].image"}
            ],
        },
    )


async def test_two_mistakes_in_one_answer(api: Api, namespace: str) -> None:
    body = {"metadata": {"name": "v2"}, "spec": {"containers": [{"name": "A", "image": ""}], "restartPolicy": "Never"}}
    answer = await api.post(core(namespace, "pods"), body)
    fields = {cause["field"]: cause["reason"] for cause in answer.body["details"]["causes"]}
    assert answer.status == 422
    assert answer.body["message"].startswith('Pod "v2" is invalid: [')
    assert fields == {
        "spec.containers[0].name": "FieldValueInvalid",
        "spec.containers[0].image": "FieldValueRequired",
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"containers": []},
            'Pod "p" is invalid: spec.containers: Required value',
            id="no containers",
        ),
        pytest.param(
            {"restartPolicy": "Sometimes"},
            'Pod "p" is invalid: spec.restartPolicy: Unsupported value: "Sometimes": '
            'supported values: "Always", "OnFailure", "Never"',
            id="unsupported value",
        ),
        pytest.param(
            {"terminationGracePeriodSeconds": -1, "restartPolicy": "Maybe"},
            'Pod "p" is invalid: spec.restartPolicy: Unsupported value: "Maybe": '
            'supported values: "Always", "OnFailure", "Never"',
            id="a negative grace period is one second",
        ),
        pytest.param(
            {
                "containers": [
                    {"name": "a", "image": "b", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
                ]
            },
            'Pod "p" is invalid: spec.containers[0].resources.requests: Invalid value: "2": '
            "must be less than or equal to cpu limit of 1",
            id="request over limit",
        ),
        pytest.param(
            {"nodeName": "n", "schedulingGates": [{"name": "example.com/wait"}]},
            'Pod "p" is invalid: spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared',
            id="gated and placed",
        ),
        pytest.param(
            {"containers": [{"name": "a", "image": "b"}, {"name": "a", "image": "b"}]},
            'Pod "p" is invalid: spec.containers[1].name: Duplicate value: "a"',
            id="duplicate name",
        ),
    ],
)
async def test_pod_fields(api: Api, namespace: str, change: Json, message: str) -> None:
    made = pod("p")
    made["spec"].update(change)
    (await api.post(core(namespace, "pods"), made)).refused(422, "Invalid", message, ...)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param(
            "Upper",
            'ConfigMap "Upper" is invalid: metadata.name: Invalid value: "Upper": a lowercase RFC 1123 subdomain must '
            "consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
            "character (e.g. 'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            id="upper case",
        ),
        pytest.param(
            "", 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required', id="none"
        ),
    ],
)
async def test_names(api: Api, namespace: str, name: str, message: str) -> None:
    (await api.post(core(namespace, "configmaps"), configmap(name))).refused(422, "Invalid", message, ...)


async def test_labels(api: Api, namespace: str) -> None:
    answer = await api.post(core(namespace, "configmaps"), configmap("l", labels={"a": "b c"}))
    assert answer.status == 422
    assert answer.body["details"]["causes"][0]["field"] == "metadata.labels"
    assert answer.body["details"]["causes"][0]["reason"] == "FieldValueInvalid"


async def test_immutable_fields(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
    answer = await api.patch(core(namespace, "pods", "p"), {"spec": {"terminationGracePeriodSeconds": 9}})
    answer.refused(
        422, "Invalid", 'Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than…', ...
    )
    assert [(c["reason"], c["field"]) for c in answer.body["details"]["causes"]] == [("FieldValueForbidden", "spec")]


async def test_a_pods_image_may_change(api: Api, namespace: str) -> None:
    made = (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
    change = {"spec": {"containers": [{"name": "app", "image": "registry.example/app:2"}]}}
    changed = (await api.patch(core(namespace, "pods", "p"), change, form="strategic")).ok()
    assert changed["spec"]["containers"][0]["image"] == "registry.example/app:2"
    assert changed["metadata"]["generation"] == made["metadata"]["generation"] + 1


async def test_immutable_selector(api: Api, namespace: str) -> None:
    (await api.post(apps(namespace, "deployments"), deployment("d"))).ok(201)
    body = {"spec": {"selector": {"matchLabels": {"app": "e"}}, "template": {"metadata": {"labels": {"app": "e"}}}}}
    answer = await api.patch(apps(namespace, "deployments", "d"), body)
    assert answer.status == 422
    assert answer.body["message"].endswith("field is immutable")
    assert answer.body["details"]["group"] == "apps"


async def test_selector_must_match_the_template(api: Api, namespace: str) -> None:
    body = deployment("d")
    body["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    (await api.post(apps(namespace, "deployments"), body)).refused(
        422,
        "Invalid",
        'Deployment.apps "d" is invalid: spec.template.metadata.labels: Invalid value: {"app":"other"}: '
        "`selector` does not match template `labels`",
        ...,
    )


async def test_statefulset_spec_is_nearly_immutable(api: Api, namespace: str) -> None:
    (await api.post(apps(namespace, "statefulsets"), statefulset("s"))).ok(201)
    answer = await api.patch(apps(namespace, "statefulsets", "s"), {"spec": {"serviceName": "t"}})
    answer.refused(
        422,
        "Invalid",
        'StatefulSet.apps "s" is invalid: spec: Forbidden: updates to statefulset spec for fields other than…',
        ...,
    )


async def test_wrong_type_of_a_field(api: Api, namespace: str) -> None:
    body = {"metadata": {"name": "p"}, "spec": {"containers": "many"}}
    answer = await api.post(core(namespace, "pods"), body)
    answer.refused(
        400,
        "BadRequest",
        'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field '
        "PodSpec.spec.containers of type []v1.Container",
    )


async def test_bad_quantity(api: Api, namespace: str) -> None:
    answer = await api.post(core(namespace, "pods"), pod("p", requests={"cpu": "lots"}))
    answer.refused(400, "BadRequest", 'Pod in version "v1" cannot be handled as a Pod: quantities must match…')


async def test_not_json(api: Api, namespace: str) -> None:
    answer = await api.post(core(namespace, "configmaps"), b"{nope")
    answer.refused(
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json "
        "parse error: …",
    )


async def test_no_json_object(api: Api, namespace: str) -> None:
    answer = await api.post(core(namespace, "configmaps"), b"[]")
    answer.refused(
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json "
        "parse error: …",
    )


async def test_yaml_is_read(api: Api, namespace: str) -> None:
    answer = await api.call(
        "POST",
        core(namespace, "configmaps"),
        b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: in-yaml}\ndata: {a: b}\n",
        content_type="application/yaml",
    )
    assert answer.ok(201)["data"] == {"a": "b"}


async def test_unknown_media_type(api: Api, namespace: str) -> None:
    answer = await api.call("POST", core(namespace, "configmaps"), b"<a/>", content_type="text/xml")
    answer.refused(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: …",
        ...,
    )


async def test_unknown_patch_type(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)
    answer = await api.call("PATCH", core(namespace, "configmaps", "c"), b"{}", content_type="application/json")
    answer.refused(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


async def test_wrong_kind(api: Api, namespace: str) -> None:
    answer = await api.post(core(namespace, "configmaps"), pod("p"))
    answer.refused(
        400,
        "BadRequest",
        'Pod in version "v1" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): '
        "unknown conversion",
    )


async def test_wrong_namespace(api: Api, namespace: str) -> None:
    answer = await api.post(core(namespace, "configmaps"), configmap("c", namespace="other"))
    answer.refused(
        400, "BadRequest", "the namespace of the provided object does not match the namespace sent on the request"
    )


async def test_wrong_name(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)
    answer = await api.put(core(namespace, "configmaps", "c"), configmap("d"))
    answer.refused(400, "BadRequest", "the name of the object (d) does not match the name on the URL (c)")


async def test_unknown_namespace(api: Api) -> None:
    answer = await api.post(core("no-such-namespace", "configmaps"), configmap("c"))
    answer.refused(
        404,
        "NotFound",
        'namespaces "no-such-namespace" not found',
        {"name": "no-such-namespace", "kind": "namespaces"},
    )


async def test_unknown_object(api: Api, namespace: str) -> None:
    (await api.get(core(namespace, "configmaps", "c"))).refused(
        404, "NotFound", 'configmaps "c" not found', {"name": "c", "kind": "configmaps"}
    )
    (await api.get(apps(namespace, "deployments", "d"))).refused(
        404, "NotFound", 'deployments.apps "d" not found', {"name": "d", "group": "apps", "kind": "deployments"}
    )


@pytest.mark.parametrize(
    "path",
    ["/apis/nothing.example.com/v1/things", "/apis/apps/v7/deployments", "/api/v1/gizmos", "/apis/apps/v1/gizmos"],
)
async def test_unknown_resource(api: Api, path: str) -> None:
    answer = await api.get(path)
    if isinstance(answer.body, str):
        assert (answer.status, answer.body) == (404, "404 page not found\n")
    else:
        answer.refused(404, "NotFound", "the server could not find the requested resource", {})


async def test_method_that_is_not_allowed(api: Api, namespace: str) -> None:
    answer = await api.post(core(namespace, "configmaps", "c"), configmap("c"))
    answer.refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


class TestFieldValidation:
    """The query parameter `fieldValidation`; the default is Warn."""

    @staticmethod
    def strange(name: str) -> Json:
        return {**pod(name), "spec": {**pod(name)["spec"], "nodName": "n"}}

    async def test_strict(self, api: Api, namespace: str) -> None:
        answer = await api.post(core(namespace, "pods"), self.strange("s"), fieldValidation="Strict")
        answer.refused(
            400,
            "BadRequest",
            'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.nodName"',
        )

    @pytest.mark.parametrize("query", [{}, {"fieldValidation": "Warn"}])
    async def test_warn(self, api: Api, namespace: str, query: Json) -> None:
        answer = await api.post(core(namespace, "pods"), self.strange("s"), **query)
        assert "nodName" not in answer.ok(201)["spec"]
        assert answer.headers["Warning"] == '299 - "unknown field \\"spec.nodName\\""'

    async def test_ignore(self, api: Api, namespace: str) -> None:
        answer = await api.post(core(namespace, "pods"), self.strange("s"), fieldValidation="Ignore")
        answer.ok(201)
        assert "Warning" not in answer.headers

    async def test_other(self, api: Api, namespace: str) -> None:
        answer = await api.post(core(namespace, "pods"), self.strange("s"), fieldValidation="Loud")
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert 'fieldValidation: Unsupported value: "Loud"' in answer.body["message"]

    async def test_duplicate_field(self, api: Api, namespace: str) -> None:
        body = b'{"metadata":{"name":"c"},"data":{"a":"1","a":"2"}}'
        answer = await api.call("POST", core(namespace, "configmaps"), body, fieldValidation="Strict")
        answer.refused(
            400,
            "BadRequest",
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
            'duplicate field "data.a"',
        )

    @pytest.mark.parametrize("form", ["merge", "json", "strategic"])
    async def test_patch(self, api: Api, namespace: str, form: str) -> None:
        (await api.post(core(namespace, "pods"), pod("s"))).ok(201)
        patch: Any = {"metadata": {"colour": "red", "a": [True, None, 1]}}
        if form == "json":
            patch = [
                {"op": "add", "path": f"/metadata/{key}", "value": value} for key, value in patch["metadata"].items()
            ]
        path = core(namespace, "pods", "s")
        answer = await api.patch(path, patch, form=form, fieldValidation="Strict")
        answer.refused(422, "Invalid", ' "" is invalid: patch: Invalid value: "…', ...)
        assert list(answer.body["details"]) == ["causes"]
        ((reason, field, message),) = causes(answer)
        assert (reason, field) == ("FieldValueInvalid", "patch")
        assert message.endswith('": strict decoding error: unknown field "metadata.a", unknown field "metadata.colour"')
        whole = '"{\\"apiVersion\\":\\"v1\\",'
        shown = {"strategic": '"map[metadata:map[a:[true <nil> 1] colour:red]]"'}.get(form, whole)
        assert message.startswith(f"Invalid value: {shown}")
        answer = await api.patch(path, patch, form=form)
        answer.ok(200)
        assert '299 - "unknown field \\"metadata.a\\""' in answer.headers["Warning"]
