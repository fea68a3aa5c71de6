"""Parse label and field selectors of list and watch requests (apimachinery pkg/labels and pkg/fields).

The module also parses label selectors inside objects (`matchLabels`, `matchExpressions`), for webhooks and disruption
budgets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from sys import intern
from typing import Any, Final, TypeAlias

from situate.cluster.errors.field_errors import bad_request
from situate.cluster.errors.go_text import quote
from situate.cluster.errors.refusals import RequestRefused
from situate.cluster.storage.resources import Resource
from situate.cluster.storage.stored_object import InternTable, StoredObject

Labels: TypeAlias = Mapping[str, str]
LabelTest: TypeAlias = Callable[[Labels], bool]
ObjectTest: TypeAlias = Callable[[StoredObject], bool]

_WORDS: Final = re.compile(r"\s*(==|!=|=|!|,|\(|\)|<|>|[^\s=!,()<>]+)")
_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def select_everything(_: Any) -> bool:
    """Match every object, as the empty selector does."""
    return True


def parse_label_selector(text: str) -> LabelTest | None:
    """Parse the label selector of the query; None if it selects everything.

    Raises `RequestRefused` (400) if the selector cannot be parsed.
    """
    words = _Words(text)
    tests: list[LabelTest] = []
    if not words.rest:
        return None
    while True:
        tests.append(_parse_requirement(words))
        word = words.take()
        if word == "":
            break
        if word != ",":
            raise _parse_refusal(f"found {_quote_word(word)}, expected: ',' or 'end of string'")
        if words.peek() == "":
            raise _parse_refusal("found '', expected: identifier after ','")
    return tests[0] if len(tests) == 1 else lambda labels: all(test(labels) for test in tests)


class _Words:
    def __init__(self, text: str) -> None:
        self.rest = [match.group(1) for match in _WORDS.finditer(text)]
        self.rest.reverse()

    def peek(self) -> str:
        return self.rest[-1] if self.rest else ""

    def take(self) -> str:
        return self.rest.pop() if self.rest else ""


def _quote_word(word: str) -> str:
    return f"'{word}'"


def _parse_refusal(what: str) -> RequestRefused:
    return RequestRefused(bad_request(f"unable to parse requirement: {what}"))


def _is_word(word: str) -> bool:
    return bool(word) and word not in ("==", "!=", "=", "!", ",", "(", ")", "<", ">")


def _parse_requirement(words: _Words) -> LabelTest:
    word = words.take()
    if word == "!":
        key = _check_key(words.take())
        return lambda labels: key not in labels
    key = _check_key(word)
    operator = words.peek()
    if operator in ("", ","):
        return lambda labels: key in labels
    words.take()
    if operator in ("=", "=="):
        value = _check_value(_parse_exact_value(words), key)
        return lambda labels: labels.get(key) == value
    if operator == "!=":
        value = _check_value(_parse_exact_value(words), key)
        return lambda labels: labels.get(key) != value
    if operator in ("in", "notin"):
        values = frozenset(_check_value(value, key) for value in _parse_values(words))
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if operator in ("<", ">"):
        return _integer_test(key, operator, _parse_exact_value(words))
    raise _parse_refusal(f"found {_quote_word(operator)}, expected: in, notin, =, ==, !=, gt, lt")


def _integer_test(key: str, operator: str, text: str) -> LabelTest:
    try:
        bound = int(text)
    except ValueError:
        raise _parse_refusal(
            f"values[0]: Invalid value: {quote(text)}: for 'Gt', 'Lt' operators, the value must be an integer"
        ) from None

    def holds(labels: Labels) -> bool:
        try:
            value = int(labels[key])
        except (KeyError, ValueError):
            return False
        return value < bound if operator == "<" else value > bound

    return holds


def _check_key(word: str) -> str:
    if not _is_word(word):
        raise _parse_refusal(
            f"found {_quote_word(word)}, expected: !, identifier, or 'end of string'"
            if word
            else "found '', expected: identifier"
        )
    prefix, slash, name = word.rpartition("/")
    if len(name) > 63 or not _NAME.fullmatch(name) or (slash and not prefix):
        raise _parse_refusal(
            f"key: Invalid value: {quote(word)}: name part must consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
            "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        )
    return word


def _parse_exact_value(words: _Words) -> str:
    word = words.peek()
    if word in ("", ","):
        return ""
    if not _is_word(word):
        raise _parse_refusal(f"found {_quote_word(word)}, expected: identifier")
    return words.take()


def _parse_values(words: _Words) -> list[str]:
    if (word := words.take()) != "(":
        raise _parse_refusal(f"found {_quote_word(word)} expected: '('")
    values: list[str] = []
    while True:
        word = words.take()
        if word == ")":
            return values or [""]
        if word == ",":
            values.append("")
            continue
        if not _is_word(word):
            raise _parse_refusal(f"found {_quote_word(word)}, expected: ',', ')' or identifier")
        values.append(word)
        word = words.take()
        if word == ")":
            return values
        if word != ",":
            raise _parse_refusal(f"found {_quote_word(word)}, expected: ',' or ')'")


def _check_value(value: str, key: str) -> str:
    if len(value) > 63 or not _VALUE.fullmatch(value):
        raise _parse_refusal(f"values[0][{key}]: Invalid value: {quote(value)}: {_VALUE_RULE}")
    return value


def object_selector(selector: Mapping[str, Any] | None) -> LabelTest:
    """Build the test of a LabelSelector inside an object.

    An absent or empty selector matches everything, as in webhooks.
    """
    if not selector:
        return select_everything
    tests = [_equality_test(key, value) for key, value in (selector.get("matchLabels") or {}).items()]
    tests.extend(_expression_test(expression) for expression in selector.get("matchExpressions") or ())
    return lambda labels: all(test(labels) for test in tests)


def _equality_test(key: str, value: str) -> LabelTest:
    return lambda labels: labels.get(key) == value


def _expression_test(expression: Mapping[str, Any]) -> LabelTest:
    key, values = expression["key"], frozenset(expression.get("values") or ())
    match expression["operator"]:
        case "In":
            return lambda labels: labels.get(key) in values
        case "NotIn":
            return lambda labels: labels.get(key) not in values
        case "Exists":
            return lambda labels: key in labels
        case _:
            return lambda labels: key not in labels


def parse_field_selector(text: str, resource: Resource) -> ObjectTest | None:
    """Parse the field selector of the query; None if it selects everything. Raises `RequestRefused` (400)."""
    if not text:
        return None
    tests = [_field_test(term, resource) for term in _terms(text)]
    return tests[0] if len(tests) == 1 else lambda obj: all(test(obj) for test in tests)


def _terms(text: str) -> list[str]:
    """Return the terms between commas that are not escaped by a backslash."""
    return [term for term in re.split(r"(?<!\\),", text) if term]


def _field_test(term: str, resource: Resource) -> ObjectTest:
    for operator in ("!=", "==", "="):
        path, found, value = term.partition(operator)
        if found:
            break
    else:
        raise RequestRefused(bad_request(f"invalid selector: '{term}'; can't understand '{term}'"))
    value = re.sub(r"\\([\\,=])", r"\1", value)
    wanted = operator != "!="
    read = _field_getter(path, resource)
    return lambda obj: (read(obj) == value) is wanted


def _field_getter(path: str, resource: Resource) -> Callable[[StoredObject], str]:
    if path == "metadata.name":
        return lambda obj: obj.name
    if path == "metadata.namespace" and resource.namespaced:
        return lambda obj: obj.namespace
    path = _core_event_path(path) if resource.plural == "events" else path
    if path not in resource.selectable:
        raise RequestRefused(bad_request(f"field label not supported: {path}"))
    index = resource.selectable.index(path)
    return lambda obj: obj.fields[index]


def _core_event_path(path: str) -> str:
    head, dot, rest = path.partition(".")
    renamed = {"regarding": "involvedObject", "reportingController": "reportingComponent"}.get(head, head)
    return f"{renamed}{dot}{rest}"


def selectable_values(resource: Resource, obj: dict[str, Any]) -> tuple[str, ...]:
    """Return the values of an object that field selectors can match, in the order of `resource.selectable`."""
    if not resource.selectable:
        return ()
    values = tuple([_field_text(_value_at(obj, steps)) for steps in _split_paths(resource.selectable)])
    shared: tuple[str, ...] = _shared_values.share(values, values)
    return shared


_shared_values: Final = InternTable()
"""Most pods of a node or of a phase have equal values."""


@lru_cache(maxsize=256)
def _split_paths(paths: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(path.split(".")) for path in paths)


def _value_at(obj: Any, steps: tuple[str, ...]) -> Any:
    for step in steps:
        if type(obj) is not dict:
            return ""
        obj = obj.get(step)
    # The field `source` of an Event selects by its component.
    return obj.get("component", "") if type(obj) is dict else obj


def _field_text(value: Any) -> str:
    if value is True:
        return "true"
    if value is None or value is False:
        return "false" if value is False else ""
    return intern(str(value))
