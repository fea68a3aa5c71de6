"""Bodies of requests: what is no JSON or YAML, which fields occur twice, texts that look like something else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.cluster.errors.field_errors import Refused
from situate.cluster.kinds.schemas.bodies import check_type_fields, decode, duplicate_fields

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_a_body_without_repeated_fields_has_none(value: Any, indent: int | None, ascii_only: bool) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    assert duplicate_fields(raw, value) == ()


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        (b'{"a":1,"a":2}', ("a",)),
        (b'{"s":{"x":[{"y":1,"y":2}],"x":3}}', ("s.x[0].y", "s.x")),
        (b'{"a" :1,"a":2}', ("a",)),
        (b'{"a":"\\":\\":","a":2}', ("a",)),
    ],
)
def test_repeated_fields_are_named_by_path(raw: bytes, want: tuple[str, ...]) -> None:
    assert duplicate_fields(raw, json.loads(raw)) == want


def test_yaml_is_read_as_kubernetes_reads_it() -> None:
    raw = b"a: 2001-01-01\nb: yes\n1: x\nc: [1, 1.5, null]\n"
    assert decode(raw, "application/yaml") == {"a": "2001-01-01", "b": True, "1": "x", "c": [1, 1.5, None]}


@pytest.mark.parametrize(
    ("raw", "kind"), [(b"{", "application/json"), (b"a: [", "application/yaml"), (b"\xff", "application/yaml")]
)
def test_what_is_neither_is_refused(raw: bytes, kind: str) -> None:
    outcome = decode(raw, kind)
    assert isinstance(outcome, Refused)
    assert outcome.code == 400


@pytest.mark.parametrize("value", [[1], "x", 5, None, {"kind": 5}, {"apiVersion": []}])
def test_a_body_that_is_no_object_of_a_kind_is_refused(value: Any) -> None:
    outcome = check_type_fields(value, "Pod", json.dumps(value).encode())
    assert isinstance(outcome, Refused)
    assert outcome.message.startswith(
        "the object provided is unrecognized (must be of type Pod): couldn't get version/kind"
    )


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"[" * 201 + b"]" * 201, "application/json"),
        (b"[" * 100_000, "application/json"),
        (b'{"a":' * 300 + b"1" + b"}" * 300, "application/json"),
        (b"\n".join(b" " * level + b"a:" for level in range(250)), "application/yaml"),
    ],
)
def test_bodies_without_bottom_are_refused(raw: bytes, kind: str) -> None:
    outcome = decode(raw, kind)
    assert isinstance(outcome, Refused)
    assert "nested deeper than 200 levels" in outcome.message


def test_a_deep_body_within_the_limit_is_read() -> None:
    raw = b"[" * 199 + b"]" * 199 + b" " * 300
    assert isinstance(decode(raw), list)


def test_what_aliases_multiply_is_refused() -> None:
    """Small as text, and more than any memory holds where it is written out."""
    lines = ["a: &b0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 10)}]" for n in range(1, 10)]
    found = decode("\n".join(lines).encode(), "application/yaml")
    assert isinstance(found, Refused)
    assert found.message == "error decoding YAML: yaml: document contains excessive aliasing"
    assert decode(b"a: &a [1]\nb: *a\n", "application/yaml") == {"a": [1], "b": [1]}
    assert decode(b"", "application/yaml") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (r'a: "\ud800"', "found invalid Unicode character escape code"),
        ("a: .nan", "json: unsupported value"),
        ("a: -.inf", "json: unsupported value"),
        ("a: !!binary aGk=", "could not determine a constructor"),
        ("a: !!set {b}", "could not determine a constructor"),
        ("a: !!omap [b: 1]", "could not determine a constructor"),
        ('a: !!bool "x"', "cannot decode a value as its tag says"),
        ('a: !!int "x"', "found 'x' in place of a number"),
        ('a: !!float "_"', "found '_' in place of a number"),
    ],
)
def test_what_json_cannot_say_is_refused(text: str, told: str) -> None:
    found = decode(text.encode(), "application/yaml")
    assert isinstance(found, Refused)
    assert found.code == 400
    assert told in found.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 12:30", "12:30"),
        ("a: 1:30.5", "1:30.5"),
        ("a: 2001-01-01", "2001-01-01"),
        ("a: !!timestamp 2001-01-01", "2001-01-01"),
        ("a: 18446744073709551615", 18446744073709551615),
        ("a: 18446744073709551616", 18446744073709551616.0),
        ("a: 1.5", 1.5),
        ("a: 0xffffffffffffffffff", "0xffffffffffffffffff"),
        pytest.param("a: 0x" + "f" * 5000, "0x" + "f" * 5000, id="5000 digits"),
        pytest.param("a: 1" + "0" * 900, "1" + "0" * 900, id="beyond floats"),
        pytest.param("a: 1" + ":59" * 100_000, "1" + ":59" * 100_000, id="of base 60, in no time"),
    ],
)
def test_numbers_and_times_are_those_of_json(text: str, value: object) -> None:
    assert decode(text.encode(), "application/yaml") == {"a": value}
