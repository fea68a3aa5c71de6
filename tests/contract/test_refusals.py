"""What the embedded server lacks it refuses by name, so that nobody takes silence for success."""

from __future__ import annotations

from typing import Any

import pytest

from situate.cluster.storage.builtin_resources import NOT_SERVED, SUBRESOURCES_NOT_SERVED
from tests.contract.api import Api
from tests.contract.things import core, group

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)


NAMESPACED = {
    "bindings",
    "horizontalpodautoscalers",
    "limitranges",
    "resourceclaims",
    "resourceclaimtemplates",
    "resourcequotas",
}
"""Of the resources that are left out."""


@pytest.mark.parametrize(
    ("resource", "why"),
    [pytest.param(*each, id=".".join(filter(None, reversed(each[0])))) for each in NOT_SERVED.items()],
)
async def test_resources(api: Api, namespace: str, resource: tuple[str, str], why: str) -> None:
    """Whatever is asked of them: reading, or a watch, would otherwise look as if there were none."""
    group, plural = resource
    root = f"/apis/{group}/v1" if group else "/api/v1"
    path = f"{root}/namespaces/{namespace}/{plural}" if plural in NAMESPACED else f"{root}/{plural}"
    body = {"metadata": {"name": "x"}}
    answers = {
        "list": await api.get(path),
        "list of all namespaces": await api.get(f"{root}/{plural}"),
        "watch": await api.get(path, watch=True),
        "deletecollection": await api.delete(path),
        "create": await api.post(path, body),
        "get": await api.get(f"{path}/x"),
        "update": await api.put(f"{path}/x", body),
        "patch": await api.patch(f"{path}/x", body),
        "apply": await api.apply(f"{path}/x", body, manager="m"),
        "delete": await api.delete(f"{path}/x"),
        "get status": await api.get(f"{path}/x/status"),
    }
    message = "the server could not find the requested resource: situate's embedded API server does not serve "
    for answer in answers.values():
        answer.refused(404, "NotFound", f"{message}{plural}: {why}", ...)


@pytest.mark.parametrize(
    ("subresource", "why"), [pytest.param(*each, id="/".join(each[0])) for each in SUBRESOURCES_NOT_SERVED.items()]
)
async def test_subresources(api: Api, namespace: str, subresource: tuple[str, str], why: str) -> None:
    plural, name = subresource
    root = "/api/v1/nodes" if plural == "nodes" else core(namespace, plural)
    path = f"{root}/p/{name}"
    for answer in (await api.get(path), await api.post(path, {}), await api.put(path, {}), await api.patch(path, {})):
        answer.refused(404, "NotFound", f"the server could not find the requested resource: {why}", ...)


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
