from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.objects.settings.yaml_text import Document, load_yaml, load_yaml_documents


def test_reads_one_document() -> None:
    assert load_yaml("a: [1, {b: c}]\n") == ({"a": [1, {"b": "c"}]}, ())
    assert load_yaml("") == (None, ())
    assert load_yaml('{"a": 1}') == ({"a": 1}, ())
    assert load_yaml("base: &b {x: 1}\nuse: {<<: *b, y: 2}") == ({"base": {"x": 1}, "use": {"x": 1, "y": 2}}, ())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\nb: 2\na: 3\n", 'line 3: found key "a", allowed: each key once; the key is already in line 1'),
        ("l:\n- {a: 1, a: 2}\n", 'line 2: found key "a"'),
        ("a: [1", "line 1: found while parsing a flow sequence"),
        ("a: b: c", "line 1: found mapping values are not allowed here"),
        ("\tx: 1", "line 1: found while scanning for the next token"),
        ("? [a]\n: 1", "line 1: found"),
        ("a: !!python/object:os.system {}", "could not determine a constructor"),
        ("a: 2001-99-99", "quote values that only look like dates"),
        ("a: \x01", "printable text"),
        ("a: 1\n---\nb: 2", "the document: found 2 documents, allowed: one document"),
        ("[" * 5000, "too many levels"),
        (r'a: "\ud800"', "line 1: found half of a surrogate pair, such as \\ud800"),
        (r'"\udc00": 1', "line 1: found half of a surrogate pair"),
        pytest.param("a: 0x" + "f" * 100_000, "found a number of 100002 characters", id="a long number of base 16"),
        pytest.param("a: 1" + ":59" * 100_000, "found a number of 300001 characters", id="of base 60"),
        pytest.param("a: 1" + ":59" * 100_000 + ".5", "found a number of 300003 characters", id="with a fraction"),
    ],
)
def test_says_where_the_text_is_wrong(text: str, sentence: str) -> None:
    data, found = load_yaml(text)
    assert data is None
    assert sentence in str(found[0])


@pytest.mark.parametrize(
    "tag", ["bool", "null", "int", "float", "binary", "timestamp", "omap", "pairs", "set", "map", "seq", "str"]
)
@pytest.mark.parametrize("value", ['"x"', '""', '"_"', "[a]", "{a: b}", "[[a]]", '"2001-99-99"'])
def test_a_tag_that_does_not_fit_its_value_is_a_mistake(tag: str, value: str) -> None:
    data, found = load_yaml(f"a: !!{tag} {value}")
    assert data is None or not found
    data, found = load_yaml(f"? !!{tag} {value}")
    assert data is None or not found


def test_what_json_writes_in_two_halves_is_one_character() -> None:
    assert load_yaml(r'{"\ud83d\ude00": "a\ud83d\ude00b"}') == ({"\N{GRINNING FACE}": "a\N{GRINNING FACE}b"}, ())


def test_refuses_aliases_that_multiply() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    _, found = load_yaml("\n".join(lines))
    assert "at most 200000 values" in str(found[0])


def test_reads_many_documents_and_leaves_out_empty_ones() -> None:
    text = "---\na: 1\n---\n---\n# only a comment\n---\nb: 2\n"
    assert load_yaml_documents(text) == ([Document({"a": 1}, 1, 2, ()), Document({"b": 2}, 4, 7, ())], ())


def test_knows_where_the_items_of_a_list_begin() -> None:
    (found,), _ = load_yaml_documents("kind: List\nitems:\n- a: 1\n  b: 2\n\n- a: 2\n")
    assert (found.number, found.line, found.item_lines) == (1, 1, (3, 6))


@pytest.mark.finding("N17")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("a: 1\n---\nb: 2\nki", "document 2, line 4: found while scanning a simple key", id="a key"),
        pytest.param('a: 1\nb: "x', "line 2: found while scanning a quoted scalar", id="a text in quotes"),
        pytest.param('{"a": [{"b": 1', "line 1: found while parsing a flow mapping", id="JSON"),
    ],
)
def test_a_text_that_ends_too_early_says_so(text: str, sentence: str) -> None:
    (mistake,) = load_yaml_documents(text)[1]
    assert str(mistake).startswith(sentence)
    assert (
        mistake.hint == "the text ends too early: close the open bracket or quote, or restore the part that was cut off"
    )
    (elsewhere,) = load_yaml_documents("a: b: c\nd: 1\n")[1]
    assert not elsewhere.hint


@given(st.text(alphabet="abc:{}[]&*!-? \n#'\"|<1\t", max_size=40))
def test_no_text_raises(text: str) -> None:
    data, found = load_yaml(text)
    assert data is None or not found


def test_refuses_aliases_of_long_texts_that_multiply() -> None:
    """Values that are one in memory are many in a message or an object that is made of them."""
    _, found = load_yaml(f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]")
    assert "at most 200000 values" in str(found[0])
    data, found = load_yaml(f"a: {'x' * 3_000_000}\n")
    assert (found, len(data["a"])) == ((), 3_000_000)  # type: ignore[index]  # a mapping


def test_stops_at_more_values_than_are_read() -> None:
    text = "[" + "1, " * 100 + "1]"
    assert load_yaml_documents(text, 102) == ([Document([1] * 101, 1, 1, ())], ())
    _, found = load_yaml_documents(text, 101, "write less")
    assert str(found[0]) == "the document: found more than 101 values, allowed: at most 101 values; write less"
