"""Custom resources beyond the recorded answers: laws of pruning and defaulting, ratcheting, rules in CEL, scale."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.cluster.errors.field_errors import Refused
from situate.cluster.kinds.schemas.decoding import DecodedObject, Strictness
from situate.cluster.kinds.structural import schema as structural
from situate.cluster.kinds.structural.patterns import PatternError, compile_pattern

SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer", "default": 1, "minimum": 0},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "nested": {"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 2}}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"y": {"type": "string"}}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"z": {"type": "integer", "default": 3}}}},
    },
}


def definition(spec: dict[str, Any] = SPEC, **version: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
    found: dict[str, Any] = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.ex.dev"},
        "spec": {
            "group": "ex.dev",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
            ],
        },
    }
    structural.default_crd(found)
    return found


def resource(spec: dict[str, Any] = SPEC, **version: Any) -> structural.CompiledVersion:
    found = definition(spec, **version)
    assert structural.validate_crd(found) == []
    return structural.compile_version(found, "v1")


def widget(spec: Any, **more: Any) -> dict[str, Any]:
    metadata = {"name": "w", "namespace": "default", "resourceVersion": "1"}
    return {"apiVersion": "ex.dev/v1", "kind": "Widget", "metadata": metadata, "spec": spec, **more}


def pruned(spec: Any) -> Any:
    outcome = resource().check(widget(spec), Strictness.IGNORE)
    assert isinstance(outcome, DecodedObject)
    return outcome.object["spec"]


KEYS = st.sampled_from(["replicas", "color", "nested", "open", "map", "list", "x", "y", "z", "zz"])
SPECS = st.dictionaries(
    KEYS,
    st.recursive(
        st.none() | st.integers(0, 3) | st.sampled_from(["red", "q"]),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=5,
)


@given(SPECS)
def test_pruning_twice_is_pruning_once(spec: dict[str, Any]) -> None:
    once = pruned(spec)
    assert pruned(once) == once


@given(SPECS)
def test_defaulting_twice_is_defaulting_once(spec: dict[str, Any]) -> None:
    once = widget(pruned(spec))
    resource().default(once)
    twice = copy.deepcopy(once)
    resource().default(twice)
    assert twice == once


@given(SPECS)
def test_what_is_pruned_is_reported_and_refused_when_strict(spec: dict[str, Any]) -> None:
    lenient = resource().check(widget(spec))
    strict = resource().check(widget(spec), Strictness.STRICT)
    assert isinstance(lenient, DecodedObject)
    assert isinstance(strict, Refused) == bool(lenient.warnings)
    assert bool(lenient.warnings) == (lenient.object["spec"] != spec)


def test_a_field_that_occurs_twice_is_reported() -> None:
    raw = b'{"apiVersion":"ex.dev/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"replicas":1,"replicas":2}}'
    outcome = resource().check(widget({"replicas": 2}), Strictness.STRICT, raw)
    assert isinstance(outcome, Refused)
    assert outcome.message == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: duplicate field "spec.replicas"'
    )


def test_an_update_is_held_to_the_rules_only_where_it_changes_something() -> None:
    old = widget({"color": "green", "replicas": 1})
    assert resource().validate(widget({"color": "green", "replicas": 2}), old) == []
    assert [error.field for error in resource().validate(widget({"color": "grey", "replicas": 2}), old)] == [
        "spec.color"
    ]


def test_metadata_of_an_update_is_held_to_its_own_rules() -> None:
    errors = resource().validate({**widget({}), "metadata": {"name": "w", "namespace": "default"}}, widget({}))
    assert "must be specified for an update" in str(errors[0])


RULE = {**SPEC, "x-kubernetes-validations": [{"rule": "!has(self.color) || self.replicas > 1", "message": "too few"}]}
TRANSITION = {**SPEC, "x-kubernetes-validations": [{"rule": "self.replicas >= oldSelf.replicas"}]}


def test_a_rule_in_cel_is_evaluated() -> None:
    assert resource(RULE).validate(widget({"replicas": 2, "color": "red"})) == []
    errors = resource(RULE).validate(widget({"replicas": 1, "color": "red"}))
    assert [str(error) for error in errors] == ["spec: Invalid value: too few"]


def test_a_rule_about_a_transition_is_not_asked_of_new_objects() -> None:
    assert resource(TRANSITION).validate(widget({"replicas": 1})) == []
    errors = resource(TRANSITION).validate(widget({"replicas": 1}), widget({"replicas": 2}))
    assert [str(error) for error in errors] == ["spec: Invalid value: failed rule: self.replicas >= oldSelf.replicas"]


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ({"rule": "self.?color.hasValue()"}, "optional syntax '.?'"),
        ({"rule": "isURL(self.color)"}, "the function 'isURL'"),
        (
            {"rule": "self.replicas > oldSelf.replicas", "optionalOldSelf": True},
            "optionalOldSelf is not supported by this server",
        ),
        ({"rule": "slef.replicas > 0"}, "undeclared reference to 'slef'"),
    ],
)
def test_a_rule_that_cannot_be_evaluated_is_refused_with_its_definition(rule: dict[str, Any], named: str) -> None:
    errors = structural.validate_crd(definition({**SPEC, "x-kubernetes-validations": [rule]}))
    assert len(errors) == 1
    assert named in str(errors[0])


def test_conversion_by_webhook_is_refused_by_name() -> None:
    found = definition()
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x/y"}}
    found["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    assert "conversion webhooks are not supported" in str(structural.validate_crd(found)[0])


def test_group_plural_and_established_kind_never_change() -> None:
    old = definition()
    old["metadata"]["resourceVersion"] = "1"
    old["status"] = {**old["status"], "conditions": [{"type": "Established", "status": "True"}]}
    assert structural.validate_crd_update(copy.deepcopy(old), old) == []
    new = copy.deepcopy(old)
    new["spec"]["names"]["kind"] = "Gadget"
    assert [error.field for error in structural.validate_crd_update(new, old)] == ["spec.names.kind"]


def test_a_version_that_was_stored_must_stay() -> None:
    old = definition()
    old["metadata"]["resourceVersion"] = "1"
    new = copy.deepcopy(old)
    new["spec"]["versions"][0]["name"] = "v2"
    new["status"]["storedVersions"] = ["v1", "v2"]
    errors = structural.validate_crd_update(new, old)
    assert [error.field for error in errors] == ["status.storedVersions[0]"]


def test_scale_reads_and_writes_by_path() -> None:
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    compiled_resource = resource(subresources={"status": {}, "scale": scale})
    assert compiled_resource.scale is not None
    obj = widget({"replicas": 3})
    assert structural.get_path(obj, compiled_resource.scale.spec_replicas) == 3
    assert structural.get_path(obj, compiled_resource.scale.status_replicas) is None
    structural.set_path(obj, compiled_resource.scale.status_replicas, 2)
    assert obj["status"] == {"replicas": 2}


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        (r"^[[:alpha:]_]+$", "ab_c", True),
        (r"^[[:alpha:]]+$", "a1", False),
        (r"^\d+\z", "12", True),
        (r"^\d+$", "\u0663", False),
        (r"[$]", "$", True),
        (r"(?i)ABC", "abc", True),
        (r"^[^\]]$", "a", True),
    ],
)
def test_patterns_mean_what_they_mean_in_re2(pattern: str, text: str, found: bool) -> None:
    assert bool(compile_pattern(pattern).search(text)) == found


@pytest.mark.parametrize("pattern", ["(?=a)", "(?<!a)b", r"(a)\1", "(?P=x)", "(", "a)", "[a", "a**"])
def test_patterns_that_re2_refuses(pattern: str) -> None:
    with pytest.raises(PatternError, match="error parsing regexp"):
        compile_pattern(pattern)
