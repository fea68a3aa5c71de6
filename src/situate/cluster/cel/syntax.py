"""Parse a CEL expression that the evaluator's parser has accepted into a syntax tree.

After the grammar of cel-spec's `doc/langdef.md`. The position of a node is where the API server points in its errors: a
call's opening parenthesis, a selection's dot, the operator itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

_Key = TypeVar("_Key")

_TOKEN: Final = re.compile(
    r"""(?P<text>[rRbB]{0,2}(?:'''(?:\\.|.)*?'''|\"\"\"(?:\\.|.)*?\"\"\"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"))"""
    r"""|(?P<comment>//[^\n]*)|(?P<name>[A-Za-z_]\w*)"""
    r"""|(?P<number>0[xX][0-9a-fA-F]+[uU]?|(?:\d+\.\d+|\.\d+|\d+)(?:[eE][+-]?\d+)?[uU]?)"""
    r"""|(?P<space>\s+)|(?P<mark>==|!=|<=|>=|&&|\|\||.)""",
    re.DOTALL,
)
_OPERATORS_BY_PRECEDENCE: Final = (
    ("||",),
    ("&&",),
    ("<", "<=", ">=", ">", "==", "!=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
"""Binary operators by increasing precedence. All of them are left-associative."""
RESERVED_WORDS: Final = frozenset(
    {
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    }
)
"""Words that cannot be names."""
_LITERAL_WORDS: Final = {"true": "bool", "false": "bool", "null": "null"}


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    """text, name, number or mark; `end` after the last token."""
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal value; `type` is the name of its CEL type."""

    type: str
    at: int


@dataclass(frozen=True, slots=True)
class Name:
    name: str
    at: int


@dataclass(frozen=True, slots=True)
class FieldSelection:
    operand: Expression
    field: str
    at: int


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a function, a method or an operator; operators have their cel-go names, such as `_+_`."""

    function: str
    target: Expression | None
    arguments: tuple[Expression, ...]
    at: int


@dataclass(frozen=True, slots=True)
class ListLiteral:
    items: tuple[Expression, ...]
    at: int


@dataclass(frozen=True, slots=True)
class MapLiteral:
    entries: tuple[tuple[Expression, Expression], ...]
    at: int


@dataclass(frozen=True, slots=True)
class ObjectLiteral:
    """An object of a named type, such as `Object.spec{replicas: 3}`."""

    type: str
    fields: tuple[tuple[str, Expression], ...]
    at: int


Expression: TypeAlias = Literal | Name | FieldSelection | FunctionCall | ListLiteral | MapLiteral | ObjectLiteral


def tokens(expression: str) -> list[Token]:
    """Return the tokens without whitespace and comments."""
    found = [Token(match.lastgroup or "", match[0], match.start()) for match in _TOKEN.finditer(expression)]
    return [token for token in found if token.kind not in ("space", "comment")]


def parse(expression: str) -> Expression:
    """Return the tree of an expression with correct syntax."""
    return _Parser(tokens(expression), len(expression)).parse_conditional()


class _Parser:
    def __init__(self, found: list[Token], end: int) -> None:
        self._tokens = [*found, Token("end", "", end)]
        self._index = 0

    def parse_conditional(self) -> Expression:
        """Parse a conditional expression, or one without a condition."""
        condition = self._parse_binary(0)
        if self._next.text != "?":
            return condition
        at = self._take().at
        then = self._parse_binary(0)
        self._take()
        return FunctionCall("_?_:_", None, (condition, then, self.parse_conditional()), at)

    @property
    def _next(self) -> Token:
        return self._tokens[self._index]

    def _take(self) -> Token:
        token = self._next
        self._index += 1
        return token

    def _parse_binary(self, level: int) -> Expression:
        if level == len(_OPERATORS_BY_PRECEDENCE):
            return self._parse_unary()
        left = self._parse_binary(level + 1)
        while self._next.kind != "text" and self._next.text in _OPERATORS_BY_PRECEDENCE[level]:
            operator = self._take()
            name = "@in" if operator.text == "in" else f"_{operator.text}_"
            left = FunctionCall(name, None, (left, self._parse_binary(level + 1)), operator.at)
        return left

    def _parse_unary(self) -> Expression:
        if self._next.kind != "mark" or self._next.text not in ("!", "-"):
            return self._parse_member()
        operator = self._take()
        if operator.text == "-" and self._next.kind == "number":
            literal = self._parse_member()
            return Literal(literal.type, operator.at) if isinstance(literal, Literal) else literal
        return FunctionCall(f"{operator.text}_", None, (self._parse_unary(),), operator.at)

    def _parse_member(self) -> Expression:
        found = self._parse_primary()
        while self._next.kind == "mark":
            at = self._next.at
            if self._next.text == ".":
                self._take()
                field = self._take().text
                if self._next.text == "(":
                    at = self._take().at
                    found = FunctionCall(field, found, self._parse_list_until(")"), at)
                else:
                    found = FieldSelection(found, field, at)
            elif self._next.text == "[":
                self._take()
                (index,) = self._parse_list_until("]")
                found = FunctionCall("_[_]", None, (found, index), at)
            elif self._next.text == "{":
                self._take()
                found = ObjectLiteral(_dotted_name(found), self._parse_pairs(lambda: self._take().text), at)
            else:
                break
        return found

    def _parse_primary(self) -> Expression:
        token = self._take()
        if token.kind == "number":
            return Literal(_number_type(token.text), token.at)
        if token.kind == "text":
            quote = min(token.text.find(mark) for mark in "'\"" if mark in token.text)
            return Literal("bytes" if "b" in token.text[:quote].lower() else "string", token.at)
        if token.kind == "name":
            if self._next.text == "(" and self._next.kind == "mark":
                at = self._take().at
                return FunctionCall(token.text, None, self._parse_list_until(")"), at)
            if token.text in _LITERAL_WORDS:
                return Literal(_LITERAL_WORDS[token.text], token.at)
            return Name(token.text, token.at)
        if token.text == "(":
            (inner,) = self._parse_list_until(")")
            return inner
        if token.text == "[":
            return ListLiteral(self._parse_list_until("]"), token.at)
        if token.text == "{":
            return MapLiteral(self._parse_pairs(self.parse_conditional), token.at)
        # A leading dot: the name belongs to the outermost scope.
        return self._parse_primary()

    def _parse_list_until(self, closing: str) -> tuple[Expression, ...]:
        """Parse expressions separated by commas. A trailing comma is allowed."""
        found: list[Expression] = []
        while self._next.text != closing:
            found.append(self.parse_conditional())
            if self._next.text == ",":
                self._take()
        self._take()
        return tuple(found)

    def _parse_pairs(self, parse_key: Callable[[], _Key]) -> tuple[tuple[_Key, Expression], ...]:
        """Parse the entries of a map, or the fields of an object, up to the closing brace."""
        found: list[tuple[_Key, Expression]] = []
        while self._next.text != "}":
            key = parse_key()
            self._take()
            found.append((key, self.parse_conditional()))
            if self._next.text == ",":
                self._take()
        self._take()
        return tuple(found)


def _dotted_name(expression: Expression) -> str:
    if isinstance(expression, FieldSelection):
        return f"{_dotted_name(expression.operand)}.{expression.field}"
    return expression.name if isinstance(expression, Name) else ""


def _number_type(text: str) -> str:
    if text[-1] in "uU":
        return "uint"
    plain = text[:2].lower() == "0x" or text.isdigit()
    return "int" if plain else "double"
