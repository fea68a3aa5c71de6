"""Custom resources: definition, schema, defaults, pruning, subresources, printer columns, versions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.contract.api import Api, Json, causes
from tests.contract.servers import Server
from tests.contract.waiting import eventually, patience_s

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "replicas": {"type": "integer", "format": "int32"},
                "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                "parts": {
                    "type": "array",
                    "maxItems": 3,
                    "items": {
                        "type": "object",
                        "required": ["id"],
                        "properties": {"id": {"type": "string"}, "weight": {"type": "integer", "default": 7}},
                    },
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["id"],
                },
                "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "limit": {"x-kubernetes-int-or-string": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "maybe": {"type": "string", "nullable": True},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer"},
                "selector": {"type": "string"},
                "phase": {"type": "string"},
            },
        },
    },
}
COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def definition(group: str, **version: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "plural": "widgets",
                "singular": "widget",
                "kind": "Widget",
                "shortNames": ["wd"],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": SCHEMA},
                    "subresources": {"status": {}, "scale": SCALE},
                    "additionalPrinterColumns": COLUMNS,
                    "selectableFields": [{"jsonPath": ".spec.colour"}],
                    **version,
                }
            ],
        },
    }


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Widgets:
    """A definition, and where its objects of one namespace are."""

    def __init__(self, api: Api, namespace: str, group: str) -> None:
        self._api = api
        self._namespace = namespace
        self.group = group

    async def define(self, **version: Any) -> None:
        """Until the objects are served; harmless if they are already."""
        answer = await self._api.post(CRDS, definition(self.group, **version))
        assert answer.status in (201, 409), answer
        await eventually(lambda: self._api.get(self.path()), lambda answer: answer.status == 200)

    def path(self, name: str = "", sub: str = "") -> str:
        parts = [f"/apis/{self.group}/v1/namespaces/{self._namespace}/widgets", name, sub]
        return "/".join(part for part in parts if part)

    def body(self, name: str = "w", **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": f"{self.group}/v1",
            "kind": "Widget",
            "metadata": {"name": name},
            "spec": {"size": 1, **spec},
        }

    async def make(self, name: str = "w", **spec: Any) -> dict[str, Any]:
        made: dict[str, Any] = (await self._api.post(self.path(), self.body(name, **spec))).ok(201)
        return made


@pytest.fixture
async def widgets(api: Api, namespace: str) -> Widgets:
    """Objects of a definition that all tests share: the real server takes two seconds until it serves a new one."""
    made = Widgets(api, namespace, "contract.example.com")
    await made.define()
    return made


@pytest.fixture
async def own(api: Api, namespace: str) -> AsyncIterator[Widgets]:
    """A definition of this test's own, not written yet."""
    made = Widgets(api, namespace, f"{namespace}.example.com")
    yield made
    await api.delete(f"{CRDS}/widgets.{made.group}")


async def until(api: Api, path: str, holds: Callable[[Any], Any]) -> Any:
    """The first object for which `holds`; what the server says of a path that it does not know yet is plain text."""
    found = await eventually(lambda: api.get(path), lambda answer: isinstance(answer.body, dict) and holds(answer.body))
    return found.body


def conditions(body: dict[str, Any]) -> dict[str, tuple[str, str]]:
    listed = body.get("status", {}).get("conditions") or []
    return {each["type"]: (each["status"], each["reason"]) for each in listed}


class TestDefinition:
    async def test_it_becomes_established(self, api: Api, own: Widgets) -> None:
        await own.define()
        path = f"{CRDS}/widgets.{own.group}"
        body = await until(api, path, lambda body: conditions(body).get("Established", ("",))[0] == "True")
        assert conditions(body) == {
            "NamesAccepted": ("True", "NoConflicts"),
            "Established": ("True", "InitialNamesAccepted"),
        }
        assert body["status"]["storedVersions"] == ["v1"]
        assert body["status"]["acceptedNames"]["kind"] == "Widget"
        assert body["spec"]["conversion"] == {"strategy": "None"}
        assert body["spec"]["names"]["listKind"] == "WidgetList"

    async def test_discovery(self, api: Api, widgets: Widgets) -> None:
        listed = await until(api, f"/apis/{widgets.group}/v1", lambda body: body.get("resources"))
        resources = {each["name"]: each for each in listed["resources"]}
        assert set(resources) == {"widgets", "widgets/status", "widgets/scale"}
        assert resources["widgets"]["kind"] == "Widget"
        assert resources["widgets"]["shortNames"] == ["wd"]
        assert resources["widgets"]["categories"] == ["all"]
        assert sorted(resources["widgets"]["verbs"]) == [
            "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
        ]  # fmt: skip
        assert resources["widgets/scale"]["kind"] == "Scale"

    async def test_removal_takes_the_objects_along(self, api: Api, own: Widgets) -> None:
        await own.define()
        await own.make()
        (await api.delete(f"{CRDS}/widgets.{own.group}")).ok()
        await until(api, f"{CRDS}/widgets.{own.group}", lambda body: body.get("code") == 404)
        await eventually(lambda: api.get(own.path()), lambda answer: answer.status == 404)
        await own.define()
        assert (await api.get(own.path())).ok()["items"] == []

    async def test_a_name_must_be_plural_and_group(self, api: Api, own: Widgets) -> None:
        body = definition(own.group)
        body["metadata"]["name"] = "gadgets." + own.group
        answer = await api.post(CRDS, body)
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert (
            f'metadata.name: Invalid value: "gadgets.{own.group}": must be spec.names.plural+"."+spec.group'
            in (answer.body["message"])
        )

    async def test_a_schema_must_be_structural(self, api: Api, own: Widgets) -> None:
        schema: dict[str, Any] = {"openAPIV3Schema": {"properties": {"a": {}}}}
        answer = await api.post(CRDS, definition(own.group, schema=schema, subresources={}, selectableFields=[]))
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        root = "spec.validation.openAPIV3Schema"
        assert causes(answer) == [
            (
                "FieldValueRequired",
                f"{root}.properties[a].type",
                "Required value: must not be empty for specified object fields",
            ),
            ("FieldValueRequired", f"{root}.type", "Required value: must not be empty at the root"),
        ]

    async def test_a_schema_is_needed(self, api: Api, own: Widgets) -> None:
        body = definition(own.group, subresources={}, selectableFields=[])
        del body["spec"]["versions"][0]["schema"]
        answer = await api.post(CRDS, body)
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert causes(answer) == [("FieldValueRequired", "spec.versions[0].schema.openAPIV3Schema", "Required value")]

    async def test_one_version_is_stored(self, api: Api, own: Widgets) -> None:
        answer = await api.post(CRDS, definition(own.group, storage=False))
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert "must have exactly one version marked as storage version" in answer.body["message"]

    async def test_a_schema_may_change(self, api: Api, own: Widgets) -> None:
        await own.define()
        path = f"{CRDS}/widgets.{own.group}"
        change = [
            {
                "op": "replace",
                "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum",
                "value": 99,
            }
        ]
        (await api.patch(path, change, form="json")).ok()
        await eventually(lambda: api.post(own.path(), own.body("big", size=50)), lambda answer: answer.status == 201)


class TestObjects:
    async def test_defaults(self, api: Api, widgets: Widgets) -> None:
        made = await widgets.make(parts=[{"id": "a"}, {"id": "b", "weight": 1}])
        assert made["spec"] == {
            "size": 1,
            "colour": "red",
            "parts": [{"id": "a", "weight": 7}, {"id": "b", "weight": 1}],
        }
        assert made["metadata"]["generation"] == 1

    async def test_defaults_are_seen_on_what_was_stored_before(self, server: Server, api: Api, own: Widgets) -> None:
        await own.define()
        (await api.post(own.path(), own.body("old"))).ok(201)
        path = f"{CRDS}/widgets.{own.group}"
        where = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/code/default"
        (await api.patch(path, [{"op": "add", "path": where, "value": "abc"}], form="json")).ok()
        await eventually(
            lambda: api.get(own.path("old")),
            lambda answer: answer.body["spec"].get("code") == "abc",
            timeout_s=patience_s(server),
        )

    async def test_unknown_fields_are_pruned(self, api: Api, widgets: Widgets) -> None:
        answer = await api.post(widgets.path(), widgets.body(smell="sweet"))
        assert "smell" not in answer.ok(201)["spec"]
        assert answer.headers["Warning"] == '299 - "unknown field \\"spec.smell\\""'

    async def test_unknown_fields_are_refused_if_asked(self, api: Api, widgets: Widgets) -> None:
        answer = await api.post(widgets.path(), widgets.body(smell="sweet"), fieldValidation="Strict")
        answer.refused(
            400,
            "BadRequest",
            'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.smell"',
        )

    async def test_free_fields_stay(self, api: Api, widgets: Widgets) -> None:
        free = {"any": {"thing": [1, "x", None, True]}}
        assert (await widgets.make(free=free))["spec"]["free"] == free

    @pytest.mark.parametrize("limit", [3, "30%"])
    async def test_int_or_string(self, widgets: Widgets, limit: Any) -> None:
        assert (await widgets.make(limit=limit))["spec"]["limit"] == limit

    @pytest.mark.parametrize(
        ("spec", "reason", "field", "message"),
        [
            (
                {"size": 0},
                "FieldValueInvalid",
                "spec.size",
                "Invalid value: 0: spec.size in body should be greater than or equal to 1",
            ),
            (
                {"size": 11},
                "FieldValueInvalid",
                "spec.size",
                "Invalid value: 11: spec.size in body should be less than or equal to 10",
            ),
            (
                {"size": "x"},
                "FieldValueTypeInvalid",
                "spec.size",
                'Invalid value: "string": spec.size in body must be of type integer: "string"',
            ),
            (
                {"colour": "green"},
                "FieldValueNotSupported",
                "spec.colour",
                'Unsupported value: "green": supported values: "red", "blue"',
            ),
            (
                {"code": "ABC"},
                "FieldValueInvalid",
                "spec.code",
                "Invalid value: \"ABC\": spec.code in body should match '^[a-z]+$'",
            ),
            ({"code": "abcdef"}, "FieldValueTooLong", "spec.code", "Too long: may not be more than 5 bytes"),
            ({"parts": [{"weight": 1}]}, "FieldValueRequired", "spec.parts[0].id", "Required value"),
            (
                {"parts": [{"id": "a"}, {"id": "a"}]},
                "FieldValueDuplicate",
                "spec.parts[1]",
                'Duplicate value: {"id":"a"}',
            ),
            ({"tags": ["a", "a"]}, "FieldValueDuplicate", "spec.tags[1]", 'Duplicate value: "a"'),
            (
                {"labels": {"a": 1}},
                "FieldValueTypeInvalid",
                "spec.labels.a",
                'Invalid value: "integer": spec.labels.a in body must be of type string: "integer"',
            ),
            (
                {"limit": 1.5},
                "FieldValueTypeInvalid",
                "spec.limit",
                'Invalid value: "number": spec.limit in body must be of type integer,string: "number"',
            ),
        ],
    )
    async def test_validation(
        self, api: Api, widgets: Widgets, spec: Json, reason: str, field: str, message: str
    ) -> None:
        answer = await api.post(widgets.path(), widgets.body(**spec))
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert causes(answer) == [(reason, field, message)]
        assert answer.body["message"] == f'Widget.{widgets.group} "w" is invalid: {field}: {message}'
        assert (answer.body["details"]["group"], answer.body["details"]["kind"]) == (widgets.group, "Widget")

    async def test_what_is_required(self, api: Api, widgets: Widgets) -> None:
        body = widgets.body()
        body["spec"] = {}
        answer = await api.post(widgets.path(), body)
        answer.refused(422, "Invalid", f'Widget.{widgets.group} "w" is invalid: spec.size: Required value', ...)

    async def test_another_version_in_the_body(self, api: Api, widgets: Widgets) -> None:
        answer = await api.post(widgets.path(), {**widgets.body(), "apiVersion": f"{widgets.group}/v2"})
        answer.refused(
            400,
            "BadRequest",
            f"the API version in the data ({widgets.group}/v2) does not match the expected API version "
            f"({widgets.group}/v1)",
        )

    async def test_generation(self, api: Api, widgets: Widgets) -> None:
        await widgets.make()
        labelled = (await api.patch(widgets.path("w"), {"metadata": {"labels": {"a": "b"}}})).ok()
        assert labelled["metadata"]["generation"] == 1
        assert (await api.patch(widgets.path("w"), {"spec": {"size": 2}})).ok()["metadata"]["generation"] == 2
        (await api.patch(widgets.path("w", "status"), {"status": {"phase": "x"}})).ok()
        assert (await api.get(widgets.path("w"))).ok()["metadata"]["generation"] == 2

    async def test_replacing_needs_a_version(self, api: Api, widgets: Widgets) -> None:
        await widgets.make()
        answer = await api.put(widgets.path("w"), widgets.body(size=2))
        answer.refused(
            422,
            "Invalid",
            f'widgets.{widgets.group} "w" is invalid: metadata.resourceVersion: Invalid value: 0: must be '
            f"specified for an update",
            ...,
        )

    async def test_strategic_patches_are_for_built_in_kinds(self, api: Api, widgets: Widgets) -> None:
        await widgets.make()
        answer = await api.patch(widgets.path("w"), {"spec": {"size": 2}}, form="strategic")
        answer.refused(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            ...,
        )

    async def test_watch(self, api: Api, widgets: Widgets) -> None:
        start = (await api.get(widgets.path())).ok()["metadata"]["resourceVersion"]
        made = await widgets.make()
        async with api.watch(widgets.path(), resourceVersion=start) as watch:
            assert await watch.next() == {"type": "ADDED", "object": made}

    async def test_bookmark(self, api: Api, widgets: Widgets) -> None:
        async with api.watch(
            widgets.path(), allowWatchBookmarks=True, sendInitialEvents=True, resourceVersionMatch="NotOlderThan"
        ) as watch:
            end = (await watch.until("BOOKMARK"))[-1]["object"]
        end["metadata"].pop("resourceVersion")
        assert end == {
            "kind": "Widget",
            "apiVersion": f"{widgets.group}/v1",
            "metadata": {"annotations": {"k8s.io/initial-events-end": "true"}, "creationTimestamp": None},
        } or end == {
            "kind": "Widget",
            "apiVersion": f"{widgets.group}/v1",
            "metadata": {"annotations": {"k8s.io/initial-events-end": "true"}},
        }

    async def test_selectable_fields(self, api: Api, widgets: Widgets) -> None:
        await widgets.make("a", colour="red")
        await widgets.make("b", colour="blue")
        listing = (await api.get(widgets.path(), fieldSelector="spec.colour=blue")).ok()
        assert [item["metadata"]["name"] for item in listing["items"]] == ["b"]
        answer = await api.get(widgets.path(), fieldSelector="spec.size=1")
        answer.refused(400, "BadRequest", "field label not supported: spec.size")

    async def test_items_of_a_list_carry_their_kind(self, api: Api, widgets: Widgets) -> None:
        made = await widgets.make()
        listing = (await api.get(widgets.path())).ok()
        assert listing["kind"] == "WidgetList"
        assert listing["items"] == [made]

    async def test_apply_merges_by_the_schemas_keys(self, api: Api, widgets: Widgets) -> None:
        (await api.apply(widgets.path("w"), widgets.body(parts=[{"id": "a", "weight": 1}]), manager="one")).ok(201)
        body = {**widgets.body(), "spec": {"parts": [{"id": "b", "weight": 2}]}}
        new = (await api.apply(widgets.path("w"), body, manager="two")).ok(200)
        assert [part["id"] for part in new["spec"]["parts"]] == ["a", "b"]
        conflict = await api.apply(
            widgets.path("w"), {**widgets.body(), "spec": {"parts": [{"id": "a", "weight": 9}]}}, manager="two"
        )
        assert conflict.status == 409
        assert causes(conflict) == [("FieldManagerConflict", '.spec.parts[id="a"].weight', 'conflict with "one"')]

    async def test_table(self, api: Api, widgets: Widgets) -> None:
        await widgets.make(size=4)
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
        table = (await api.call("GET", widgets.path(), accept=accept)).ok()
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size", "Age"]
        (row,) = table["rows"]
        assert row["cells"][:2] == ["w", 4]


class TestSubresources:
    async def test_status(self, api: Api, widgets: Widgets) -> None:
        body = widgets.body()
        body["status"] = {"phase": "ignored"}
        made = (await api.post(widgets.path(), body)).ok(201)
        assert "status" not in made
        made["spec"]["size"] = 5
        made["metadata"]["labels"] = {"a": "b"}
        made["status"] = {"phase": "well"}
        new = (await api.put(widgets.path("w", "status"), made)).ok(200)
        assert (new["spec"]["size"], new["status"]) == (1, {"phase": "well"})
        assert "labels" not in new["metadata"]
        again = (await api.patch(widgets.path("w"), {"spec": {"size": 2}, "status": {"phase": "ill"}})).ok(200)
        assert (again["spec"]["size"], again["status"]) == (2, {"phase": "well"})

    async def test_without_a_status_subresource(self, api: Api, own: Widgets) -> None:
        await own.define(subresources={})
        body = own.body()
        body["status"] = {"phase": "kept"}
        made = (await api.post(own.path(), body)).ok(201)
        assert made["status"] == {"phase": "kept"}
        (await api.put(own.path("w", "status"), made)).refused(
            404, "NotFound", f'widgets.{own.group} "w" not found', {"name": "w", "group": own.group, "kind": "widgets"}
        )

    async def test_scale(self, api: Api, widgets: Widgets) -> None:
        await widgets.make(replicas=2)
        (await api.patch(widgets.path("w", "status"), {"status": {"replicas": 1, "selector": "a=b"}})).ok()
        scale = (await api.get(widgets.path("w", "scale"))).ok()
        assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
        assert scale["spec"] == {"replicas": 2}
        assert scale["status"] == {"replicas": 1, "selector": "a=b"}
        (await api.patch(widgets.path("w", "scale"), {"spec": {"replicas": 7}})).ok(200)
        assert (await api.get(widgets.path("w"))).ok()["spec"]["replicas"] == 7

    async def test_scale_without_replicas(self, api: Api, widgets: Widgets) -> None:
        await widgets.make()
        answer = await api.get(widgets.path("w", "scale"))
        assert answer.status == 500
        assert answer.body["message"] == (
            'Internal error occurred: the spec replicas field ".spec.replicas" does not exist'
        )


class TestCommonExpressions:
    """x-kubernetes-validations: a server that does not evaluate them must refuse them by name, never ignore them."""

    async def test_rule(self, api: Api, own: Widgets) -> None:
        rules = [{"rule": "self.size != 3", "message": "three is unlucky"}]
        schema = {**SCHEMA, "properties": {**SCHEMA["properties"]}}
        schema["properties"]["spec"] = {**SCHEMA["properties"]["spec"], "x-kubernetes-validations": rules}
        await own.define(schema={"openAPIV3Schema": schema})
        (await api.post(own.path(), own.body(size=3))).refused(
            422,
            "Invalid",
            f'Widget.{own.group} "w" is invalid: spec: Invalid value: three is unlucky',
            ...,
        )
        await own.make(size=4)
