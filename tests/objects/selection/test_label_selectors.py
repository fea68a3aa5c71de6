from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.objects.kinds.selectors import LabelSelector, LabelSelectorRequirement
from situate.objects.selection.label_selectors import (
    EVERYTHING,
    NOTHING,
    BadSelector,
    parse_selector,
    selector_of,
    valid_label_key,
    valid_label_value,
)


@pytest.mark.parametrize(
    ("text", "labels", "wanted"),
    [
        ("", {}, True),
        ("  ", {"a": "b"}, True),
        ("a=b", {"a": "b"}, True),
        ("a == b", {"a": "b"}, True),
        ("a=b", {"a": "c"}, False),
        ("a=", {"a": ""}, True),
        ("a=", {}, False),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a", {"a": ""}, True),
        ("!a", {}, True),
        ("!a", {"a": "x"}, False),
        ("a in (x, y)", {"a": "y"}, True),
        ("a in (x,)", {"a": ""}, True),
        ("a in (,x)", {"a": ""}, True),
        ("a in (x,,y)", {"a": ""}, True),
        ("a notin (x)", {}, True),
        ("a notin (x)", {"a": "x"}, False),
        ("a>5", {"a": "6"}, True),
        ("a > 5", {"a": "five"}, False),
        ("a<5", {"a": "4"}, True),
        ("a<5", {}, False),
        ("a=b,c!=d", {"a": "b", "c": "d"}, False),
        ("in in (in)", {"in": "in"}, True),
        ("notin=in", {"notin": "in"}, True),
        ("example.com/a=b", {"example.com/a": "b"}, True),
        ("a\n=\tb", {"a": "b"}, True),
    ],
)
def test_matches(text: str, labels: Mapping[str, str], wanted: bool) -> None:
    assert parse_selector(text).matches(labels) is wanted


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a in (b", "character 8: found the end, allowed: ',' or ')'"),
        ("a in b", "character 6: found 'b', allowed: '('"),
        ("a in ()", "character 7: found ')', allowed: at least one value"),
        ("a,", "character 3: found the end, allowed: a label's key or '!'"),
        (",a", "character 1: found ',', allowed: a label's key or '!'"),
        ("a b", "character 3: found 'b', allowed: one of ="),
        ("!a=b", "character 3: found '=', allowed: ',' or the end"),
        ("!!a", "character 2: found '!', allowed: a label's key"),
        ("a===b", "character 4: found '=', allowed: a value"),
        ("a>b", "character 3: found 'b', allowed: an integer"),
        ("a>", "character 3: found '', allowed: an integer"),
        ("-a=b", "character 1: found key '-a', allowed"),
        ("x,a=-b", "character 3: found value '-b', allowed"),
        ("A.B/c=d", "character 1: found key 'A.B/c'"),
    ],
)
def test_mistakes_name_the_place(text: str, place: str) -> None:
    with pytest.raises(BadSelector) as caught:
        parse_selector(text)
    assert place in str(caught.value)


words = st.from_regex(r"[a-z0-9]([-a-z0-9_.]{0,5}[a-z0-9])?", fullmatch=True)


@st.composite
def selectors(draw: st.DrawFn) -> str:
    def term() -> str:
        key, values = draw(words), draw(st.lists(words, min_size=1, max_size=3))
        return draw(
            st.sampled_from(
                [
                    key,
                    f"!{key}",
                    f"{key}={values[0]}",
                    f"{key}!={values[0]}",
                    f"{key} in ({','.join(values)})",
                    f"{key} notin ({','.join(values)})",
                    f"{key}>5",
                ]
            )
        )

    return ",".join(term() for _ in range(draw(st.integers(0, 4))))


@given(selectors(), st.dictionaries(words, words))
def test_text_of_a_selector_means_the_same(text: str, labels: dict[str, str]) -> None:
    selector = parse_selector(text)
    again = parse_selector(str(selector))
    assert again.matches(labels) == selector.matches(labels)
    assert str(again) == str(selector)


@given(st.text(alphabet="ab!=<>(), in\tnot/.-5", max_size=20))
def test_any_text_parses_or_is_refused(text: str) -> None:
    with suppress(BadSelector):
        assert parse_selector(str(parse_selector(text))) == parse_selector(text)


def requirement(operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(LabelSelectorRequirement("a", operator, values),))


@pytest.mark.parametrize(
    ("wire", "labels", "wanted"),
    [
        (LabelSelector(), {}, True),
        (LabelSelector({"a": "b"}), {"a": "b"}, True),
        (LabelSelector({"a": "b"}), {}, False),
        (requirement("In", "b", "c"), {"a": "c"}, True),
        (requirement("NotIn", "b"), {}, True),
        (requirement("Exists"), {"a": ""}, True),
        (requirement("DoesNotExist"), {"a": ""}, False),
    ],
)
def test_selector_of_an_object(wire: LabelSelector, labels: Mapping[str, str], wanted: bool) -> None:
    assert selector_of(wire).matches(labels) is wanted


def test_absent_matches_nothing_and_empty_everything() -> None:
    assert selector_of(None) is NOTHING
    assert not NOTHING.matches({"a": "b"})
    assert selector_of(LabelSelector()) == EVERYTHING


@pytest.mark.parametrize(
    ("wire", "place"),
    [
        (requirement("Is", "b"), "selector.matchExpressions[0].operator: found 'Is', allowed: In, NotIn, Exists"),
        (requirement("In"), "selector.matchExpressions[0].values: found nothing, allowed: at least one"),
        (requirement("Exists", "b"), "selector.matchExpressions[0].values: found ['b'], allowed: none"),
        (LabelSelector({"a b": "c"}), "selector.matchLabels: found key 'a b'"),
        (LabelSelector({"a": "c!"}), "selector.matchLabels: found value 'c!'"),
    ],
)
def test_mistakes_of_an_object_name_the_field(wire: LabelSelector, place: str) -> None:
    with pytest.raises(BadSelector) as caught:
        selector_of(wire)
    assert place in str(caught.value)


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("a", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("", False),
        ("x/", False),
        ("/a", False),
        ("a/b/c", False),
        ("a.b/c_d.e", True),
        ("a\n", False),
    ],
)
def test_label_keys(key: str, valid: bool) -> None:
    assert valid_label_key(key) is valid


def test_label_values() -> None:
    assert valid_label_value("")
    assert not valid_label_value("a" * 64)
    assert not valid_label_value("a ")
