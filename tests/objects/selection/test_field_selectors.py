from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.objects.selection.field_selectors import escape_value, field_text, parse_field_selector
from situate.objects.selection.label_selectors import BadSelector


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", True),
        ("spec.nodeName=n1", True),
        ("spec.nodeName==n1", True),
        ("spec.nodeName!=n1", False),
        ("spec.nodeName=n2", False),
        ("spec.nodeName=n1,status.phase=Running", False),
        pytest.param("spec.schedulerName=", True, id="an absent field counts as empty"),
        pytest.param(",spec.nodeName=n1,", True, id="nothing between commas is passed over"),
    ],
)
def test_matches(text: str, wanted: bool) -> None:
    assert parse_field_selector(text).matches({"spec.nodeName": "n1", "status.phase": "Pending"}) is wanted


@pytest.mark.parametrize(
    ("path", "text"),
    [("a.b", "x"), ("a.n", "7"), ("a.yes", "true"), ("a.none", ""), ("a", ""), ("a.b.c", ""), ("z", ""), ("a.f", "")],
)
def test_what_is_compared_at_a_path(path: str, text: str) -> None:
    assert field_text({"a": {"b": "x", "n": 7, "yes": True, "none": None, "f": 1.5}}, path) == text


@given(st.text(max_size=12), st.text(max_size=12))
def test_escaped_values_come_back(value: str, other: str) -> None:
    selector = parse_field_selector(f"a={escape_value(value)},b!={escape_value(other)}")
    assert [(each.field, each.value, each.equal) for each in selector.requirements] == [
        ("a", value, True),
        ("b", other, False),
    ]
    assert parse_field_selector(str(selector)) == selector


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a", "character 1: found 'a', allowed: FIELD=VALUE"),
        ("a=b,c", "character 5: found 'c', allowed: FIELD=VALUE"),
        ("a=b=c", "character 1: found '=' within the value 'b=c'"),
        (r"a=\n", r"character 1: found '\\n', allowed:"),
        ("a=b\\", r"character 1: found '\\', allowed:"),
    ],
)
def test_mistakes_name_the_place(text: str, place: str) -> None:
    with pytest.raises(BadSelector) as caught:
        parse_field_selector(text)
    assert place in str(caught.value)
