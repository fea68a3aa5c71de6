"""What the embedded server lacks it refuses by name, so that nobody takes silence for success."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api
from tests.contract.things import core, group, pod

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/api/v1/namespaces/{}/bindings", "bind a pod through pods/NAME/binding"),
        ("/api/v1/namespaces/{}/resourcequotas", "quotas are not enforced"),
        ("/api/v1/namespaces/{}/limitranges", "limit ranges are not enforced"),
        (
            "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
            "their expressions make typed objects, which are not evaluated here; use a webhook",
        ),
        ("/apis/apiregistration.k8s.io/v1/apiservices", "other API servers are not aggregated"),
        ("/apis/certificates.k8s.io/v1/certificatesigningrequests", "nobody signs certificates"),
    ],
)
async def test_resources(api: Api, namespace: str, path: str, reason: str) -> None:
    answer = await api.post(path.format(namespace), {"metadata": {"name": "x"}})
    resource = path.rpartition("/")[2]
    message = "the server could not find the requested resource: situate's embedded API server does not serve "
    answer.refused(404, "NotFound", f"{message}{resource}: {reason}", ...)


@pytest.mark.parametrize("subresource", ["log", "exec", "attach", "portforward", "ephemeralcontainers"])
async def test_running_containers(api: Api, namespace: str, subresource: str) -> None:
    (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
    answer = await api.get(core(namespace, "pods", "p", subresource))
    assert answer.status == 404
    assert "containers do not run" in answer.body["message"]


@pytest.mark.parametrize(
    ("rule", "refused"),
    [
        ({"rule": "self.x == oldSelf.x", "optionalOldSelf": True}, "optionalOldSelf is not supported by this server"),
        ({"rule": "self.?x.hasValue()"}, "not supported by this server: optional syntax '.?'; test with has() instead"),
        ({"rule": "url(self.x).getHost() == 'a'"}, "not supported by this server: the function 'url'"),
        ({"rule": "sets.contains([self.x], ['a'])"}, "not supported by this server: the variable 'sets'"),
        (
            {"rule": "[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))"},
            "not supported by this server: more than 3 comprehensions inside one another",
        ),
    ],
)
async def test_expressions(api: Api, namespace: str, rule: dict[str, Any], refused: str) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}, "x-kubernetes-validations": [rule]}
    body = {
        "metadata": {"name": f"things.{namespace}.example.com"},
        "spec": {
            "group": f"{namespace}.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    answer = await api.post(group("apiextensions.k8s.io/v1", "", "customresourcedefinitions"), body)
    assert answer.status == 422
    (cause,) = answer.body["details"]["causes"]
    assert cause["message"].endswith(f": {refused}")


async def test_other_encodings(api: Api, namespace: str) -> None:
    answer = await api.call("POST", core(namespace, "configmaps"), b"\xd9\xd9\xf7", content_type="application/cbor")
    assert answer.status == 415
    assert "situate's embedded API server does not read application/cbor" in answer.body["message"]
