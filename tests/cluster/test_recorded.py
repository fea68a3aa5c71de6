"""Answers of a real kube-apiserver (recorded by tests/controlplane/record_semantics.py) against ours, word by word.

What happens outside the object semantics (admission, allocation of addresses, names made of uids) is taken out of the
comparison by field, in `OUTSIDE`.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from situate.cluster.errors.field_errors import Refused, invalid_object
from situate.cluster.kinds import validation
from situate.cluster.kinds.defaults import apply_defaults
from situate.cluster.kinds.schemas import built_in_schema
from situate.cluster.kinds.schemas.decoding import DecodedObject, decode_object
from situate.cluster.kinds.structural import schema as structural
from situate.cluster.patch import fieldmanager
from situate.cluster.patch.fieldmanager import ManagerIdentity, reset_fields

RECORDED = Path(__file__).parent / "recorded"
NOW = "2026-01-01T00:00:00Z"
OUTSIDE = {
    "Pod": ("spec.priority", "spec.preemptionPolicy", "spec.tolerations", "status"),
    "Service": ("spec.clusterIP", "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"),
    "Job": ("metadata.labels", "spec.selector", "spec.template.metadata.labels"),
    "Node": ("spec.taints",),
    "Namespace": ("spec",),
    "PersistentVolume": ("metadata.finalizers", "status"),
    "PersistentVolumeClaim": ("metadata.finalizers",),
}
"""Fields that admission, allocators or a registry's own strategy set."""
NULLS = ("eventTime", "firstTimestamp", "lastTimestamp", "rules")
"""Unset fields that the real server writes as null, and we leave out."""


def load(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_text())


def case_id(case: dict[str, Any]) -> str:
    status = case["answer"]["status"]
    return f"{case['body'].get('kind')} {status} {case['answer']['body'].get('message', '')[:60]}"


def group_of(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def refused_as(refused: Refused) -> tuple[int, str, list[str]]:
    return refusal(refused.status())


def refusal_of(answer: dict[str, Any]) -> tuple[int, str, list[str]]:
    return refusal(answer["body"])


def refusal(status: dict[str, Any]) -> tuple[int, str, list[str]]:
    """What is compared: code, causes, and the message if it has one part only, for Go walks maps in any order."""
    causes = [json.dumps(cause, sort_keys=True) for cause in status.get("details", {}).get("causes", [])]
    return status["code"], status["message"] if len(causes) < 2 else "", sorted(causes)


def decoding_warnings(answer: dict[str, Any]) -> list[str]:
    """Of all warnings those about fields; the others give advice."""
    return sorted(text for text in answer["warnings"] if text.startswith(("unknown field", "duplicate field")))


def without(obj: dict[str, Any], path: str) -> None:
    *steps, last = path.split(".")
    holder: Any = obj
    for step in steps:
        holder = holder.get(step, {})
    holder.pop(last, None)


def comparable(obj: dict[str, Any]) -> dict[str, Any]:
    shown = copy.deepcopy(obj)
    for path in OUTSIDE.get(shown["kind"], ()):
        without(shown, path)
    for name in NULLS:
        if shown.get(name) is None:
            shown.pop(name, None)
    entries = shown["metadata"].pop("managedFields", [])
    shown["metadata"]["managedFields"] = sorted(
        ({key: value for key, value in entry.items() if key != "time"} for entry in entries),
        key=lambda entry: json.dumps(entry, sort_keys=True),
    )
    return shown


def create(
    body: dict[str, Any], path: str, manager: str = "recorder"
) -> tuple[dict[str, Any], tuple[str, ...]] | Refused:
    """Decode, default, track and validate, as the API does around admission."""
    schema = built_in_schema(body["apiVersion"], body["kind"])
    assert schema is not None
    decoded = decode_object(copy.deepcopy(body), schema)
    if isinstance(decoded, Refused):
        return decoded
    obj = decoded.object
    apply_defaults(obj)
    if "/namespaces/" in path:
        obj["metadata"].setdefault("namespace", "default")
    reset = reset_fields(body["kind"], "", "status" in schema.properties)
    entries = fieldmanager.update_managers(None, obj, schema, ManagerIdentity(manager, body["apiVersion"], NOW), reset)
    errors = validation.validate_create(obj)
    if errors:
        return invalid_object(group_of(body["apiVersion"]), body["kind"], obj["metadata"].get("name", ""), errors)
    obj["metadata"]["managedFields"] = entries
    return obj, decoded.warnings


@pytest.mark.parametrize("case", load("creations"), ids=case_id)
def test_creations(case: dict[str, Any]) -> None:
    ours = create(case["body"], case["path"])
    answer = case["answer"]
    if isinstance(ours, Refused):
        assert refused_as(ours) == refusal_of(answer)
        return
    obj, warnings = ours
    assert answer["status"] == 201, answer["body"]["message"]
    assert comparable(obj) == comparable(answer["body"])
    assert sorted(warnings) == decoding_warnings(answer)


@pytest.mark.parametrize("case", load("definitions"), ids=case_id)
def test_definitions(case: dict[str, Any]) -> None:
    schema = built_in_schema("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert schema is not None
    decoded = decode_object(copy.deepcopy(case["body"]), schema)
    assert isinstance(decoded, DecodedObject)
    structural.default_crd(decoded.object)
    errors = structural.validate_crd(decoded.object)
    answer = case["answer"]
    if answer["status"] == 201:
        assert errors == []
        assert decoded.object["spec"]["names"] == answer["body"]["spec"]["names"]
        return
    name = case["body"]["metadata"]["name"]
    refused = invalid_object("apiextensions.k8s.io", "CustomResourceDefinition", name, errors)
    assert refused_as(refused) == refusal_of(answer)


@pytest.mark.parametrize("case", load("custom_resources")["cases"], ids=case_id)
def test_custom_resources(case: dict[str, Any]) -> None:
    resource = structural.compile_version(load("custom_resources")["definition"], "v1")
    answer = case["answer"]
    decoded = resource.check(copy.deepcopy(case["body"]))
    if isinstance(decoded, Refused):
        assert refused_as(decoded) == refusal_of(answer)
        return
    obj = decoded.object
    resource.default(obj)
    obj["metadata"].setdefault("namespace", "default")
    errors = resource.validate(obj)
    if errors:
        refused = invalid_object("ex.dev", "Widget", obj["metadata"]["name"], errors)
        assert refused_as(refused) == refusal_of(answer)
        return
    assert answer["status"] == 201, answer["body"]["message"]
    writer = ManagerIdentity("recorder", "ex.dev/v1", NOW)
    reset = reset_fields("Widget", "", has_status=True)
    obj["metadata"]["managedFields"] = fieldmanager.update_managers(None, obj, resource.schema, writer, reset)
    assert comparable(obj) == comparable(answer["body"])
    assert sorted(decoded.warnings) == decoding_warnings(answer)


@pytest.mark.parametrize("scenario", load("applies"), ids=lambda scenario: scenario["name"])
def test_server_side_apply(scenario: dict[str, Any]) -> None:
    live: dict[str, Any] | None = None
    for number, step in enumerate(scenario["steps"]):
        outcome = write(live, step)
        answer = step["answer"]
        if isinstance(outcome, Refused):
            assert refused_as(outcome) == refusal_of(answer), f"step {number}"
            continue
        assert answer["status"] in (200, 201), f"step {number}: {answer['body']}"
        live = outcome
        ours, theirs = comparable(live), comparable(answer["body"])
        for status in (ours, theirs):
            status.pop("status", None)
        assert ours == theirs, f"step {number}"


def write(live: dict[str, Any] | None, step: dict[str, Any]) -> dict[str, Any] | Refused:
    body = copy.deepcopy(step["body"])
    schema = built_in_schema(body["apiVersion"], body["kind"])
    assert schema is not None
    writer = ManagerIdentity(step["manager"], body["apiVersion"], NOW)
    reset = reset_fields(body["kind"], "", "status" in schema.properties)
    entries: Any = None
    if step["operation"] == "apply":
        applied = fieldmanager.server_side_apply(live, body, schema, writer, force=step["force"], reset=reset)
        if isinstance(applied, Refused):
            return applied
        entries = applied["metadata"].pop("managedFields", [])
        body = applied
    decoded = decode_object(body, schema)
    assert isinstance(decoded, DecodedObject)
    obj = decoded.object
    apply_defaults(obj)
    obj["metadata"].setdefault("namespace", "default")
    if entries is None:
        entries = fieldmanager.update_managers(live, obj, schema, writer, reset)
    errors = validation.validate_create(obj)
    if errors:
        return invalid_object(group_of(body["apiVersion"]), body["kind"], obj["metadata"]["name"], errors)
    obj["metadata"]["managedFields"] = entries
    return obj
