"""Label selectors, as text and as fields of an object (apimachinery pkg/labels selector.go)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from situate.objects.kinds.selectors import LabelSelector, LabelSelectorRequirement

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_TOKEN: Final = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+)")

_SET_OPERATORS: Final = {"in": "in", "notin": "notin"}
_TEXT_OPERATORS: Final = ("=", "==", "!=", ">", "<", "in", "notin")
_WORD: Final = "letters, digits, '-', '_' and '.', at most 63, beginning and ending with a letter or digit"
_API_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


class BadSelector(ValueError):
    """An invalid selector; the message names the place, the text found and the allowed text."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on the labels."""

    key: str
    operator: str
    """`=`, `==`, `!=`, `in`, `notin`, `exists`, `!`, `>` or `<`."""
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels match.

        An absent label satisfies `!=`, `notin` and `!`. A label that is no integer satisfies neither `>` nor `<`.
        """
        value = labels.get(self.key)
        match self.operator:
            case "=" | "==" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case _:
                return value is not None and self._compare_integers(value)

    def _compare_integers(self, value: str) -> bool:
        if not _INTEGER.fullmatch(value):
            return False
        (bound,) = self.values
        return int(value) > int(bound) if self.operator == ">" else int(value) < int(bound)

    def __str__(self) -> str:
        values = ",".join(sorted(self.values))
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({values})"
            case _:
                return f"{self.key}{self.operator}{values}"


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector: all requirements must hold; without requirements it matches every object."""

    requirements: tuple[Requirement, ...] = ()
    """In the order of their keys."""
    nothing: bool = False
    """True if the selector matches nothing, as a label selector that an object lacks."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.nothing:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        """Return the text form for `parse_selector`; empty if the selector matches nothing, which has no text form."""
        return ",".join(map(str, self.requirements))


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(nothing=True)


def parse_selector(text: str) -> Selector:
    """Parse a selector such as `app=web,tier in (a,b),!canary`."""
    return _Parser(text).selector()


def selector_of(wire: LabelSelector | None, path: str = "selector") -> Selector:
    """Return the selector of an object; None matches nothing. Raises `BadSelector` with the field below `path`."""
    if wire is None:
        return NOTHING
    requirements = [
        _check_requirement(Requirement(key, "in", frozenset((value,))), f"{path}.matchLabels")
        for key, value in wire.match_labels.items()
    ]
    for number, expression in enumerate(wire.match_expressions):
        requirements.append(_convert_requirement(expression, f"{path}.matchExpressions[{number}]"))
    return _sorted_selector(requirements)


def _convert_requirement(wire: LabelSelectorRequirement, path: str) -> Requirement:
    operator = _API_OPERATORS.get(wire.operator)
    if operator is None:
        allowed = ", ".join(_API_OPERATORS)
        raise BadSelector(f"{path}.operator: found {wire.operator!r}, allowed: {allowed}")
    if operator in _SET_OPERATORS and not wire.values:
        raise BadSelector(f"{path}.values: found nothing, allowed: at least one value with operator {wire.operator}")
    if operator not in _SET_OPERATORS and wire.values:
        raise BadSelector(f"{path}.values: found {list(wire.values)}, allowed: none with operator {wire.operator}")
    return _check_requirement(Requirement(wire.key, operator, frozenset(wire.values)), path)


def _sorted_selector(requirements: list[Requirement]) -> Selector:
    return Selector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def _check_requirement(requirement: Requirement, place: str) -> Requirement:
    if not valid_label_key(requirement.key):
        raise BadSelector(
            f"{place}: found key {requirement.key!r}, allowed: an optional DNS name and '/', then {_WORD}"
        )
    for value in sorted(requirement.values):
        if not valid_label_value(value):
            raise BadSelector(f"{place}: found value {value!r}, allowed: nothing, or {_WORD}")
    return requirement


def valid_label_key(key: str) -> bool:
    """Return whether the key is `name` or `prefix/name` (apimachinery util/validation IsQualifiedName)."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _PREFIX.fullmatch(prefix)):
        return False
    return bool(_NAME.fullmatch(name))


def valid_label_value(value: str) -> bool:
    """Return whether the value is empty or like a name (apimachinery util/validation IsValidLabelValue)."""
    return not value or bool(_NAME.fullmatch(value))


class _Parser:
    """A parser that reads tokens from left to right; `in` and `notin` are normal words as a key or a value."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, int]] = []
        position = 0
        while match := _TOKEN.match(text, position):
            self._tokens.append((match[1], match.start(1)))
            position = match.end()
        self._tokens.append(("", len(text)))
        self._next = 0

    def selector(self) -> Selector:
        requirements: list[Requirement] = []
        if not self._peek():
            return EVERYTHING
        while True:
            requirements.append(self._requirement())
            if not self._peek():
                return _sorted_selector(requirements)
            self._expect(lambda word: word == ",", "',' or the end")

    def _requirement(self) -> Requirement:
        place = self._place()
        absent = self._peek() == "!"
        if absent:
            self._take()
        key = self._expect(_is_word, "a label's key" if absent else "a label's key or '!'")
        if absent:
            return _check_requirement(Requirement(key, "!"), place)
        if self._peek() in ("", ","):
            return _check_requirement(Requirement(key, "exists"), place)
        operator = self._expect(
            lambda word: word in _TEXT_OPERATORS, "one of " + ", ".join(_TEXT_OPERATORS) + ", ',' or the end"
        )
        if operator in _SET_OPERATORS:
            return _check_requirement(Requirement(key, operator, self._values()), place)
        value_place = self._place()
        value = "" if self._peek() in ("", ",") else self._expect(_is_word, "a value")
        if operator in ("<", ">") and not _INTEGER.fullmatch(value):
            raise BadSelector(f"{value_place}: found {value!r}, allowed: an integer after {operator!r}")
        return _check_requirement(Requirement(key, operator, frozenset((value,))), place)

    def _values(self) -> frozenset[str]:
        """Parse `(a,b)`. Nothing between commas means the empty value; `()` is refused."""
        self._expect(lambda word: word == "(", "'('")
        if self._peek() == ")":
            raise BadSelector(f"{self._place()}: found ')', allowed: at least one value")
        values = set()
        while True:
            values.add(self._take() if _is_word(self._peek()) else "")
            if self._expect(lambda word: word in (",", ")"), "',' or ')'") == ")":
                return frozenset(values)

    def _peek(self) -> str:
        return self._tokens[self._next][0]

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def _place(self) -> str:
        return f"label selector {_shorten(self._text)!r}, character {self._tokens[self._next][1] + 1}"

    def _expect(self, fits: Callable[[str], bool], allowed: str) -> str:
        token = self._peek()
        if not fits(token):
            raise BadSelector(f"{self._place()}: found {repr(token) if token else 'the end'}, allowed: {allowed}")
        return self._take()


def _is_word(token: str) -> bool:
    return bool(token) and token[0] not in "=!(),<>"


def _shorten(text: str) -> str:
    return text if len(text) <= 100 else text[:100] + "…"
