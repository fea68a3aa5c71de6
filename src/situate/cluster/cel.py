"""CEL expressions of admission: match conditions and the validations of policies.

The package `common-expression-language` parses and evaluates; `docs/decisions/0004-cel.md` argues it. It has no type
checker, so what upstream finds by types is found here by reading the tokens: names that are not declared, fields that
`request` has not, functions that do not exist. What Kubernetes has and this server has not is refused by name when an
object is created, never when it is used.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

from situate.cluster.cel_functions import BUILT_IN, CODE_POINTS, FUNCTIONS, KNOWN_UPSTREAM

MAX_LENGTH: Final = 16 * 1024
"""Characters of an expression."""
MAX_NESTING: Final = 3
"""Comprehensions inside one another: with the size limit of objects this bounds the time of an evaluation."""
CONDITION_VARIABLES: Final = frozenset({"object", "oldObject", "request", "namespaceObject"})
"""Declared in match conditions of webhooks."""
PARAMETER_VARIABLES: Final = CONDITION_VARIABLES | {"params"}
"""Declared in match conditions of policies."""
POLICY_VARIABLES: Final = PARAMETER_VARIABLES | {"variables"}
"""Declared in the validations of policies."""

_REQUEST_FIELDS: Final = frozenset(
    {
        *("kind", "resource", "subResource", "requestKind", "requestResource", "requestSubResource", "uid"),
        *("name", "namespace", "operation", "userInfo", "dryRun", "options", "object", "oldObject"),
    }
)
_FIELDS: Final = MappingProxyType(
    {"request": _REQUEST_FIELDS, "namespaceObject": frozenset({"metadata", "spec", "status"})}
)
"""Of variables whose type is known."""
_TOKEN: Final = re.compile(
    r"""(?P<text>[rRbB]{0,2}(?:'''(?:\\.|.)*?'''|\"\"\"(?:\\.|.)*?\"\"\"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"))"""
    r"""|(?P<comment>//[^\n]*)|(?P<name>[A-Za-z_]\w*)|(?P<number>\d[\w.]*)|(?P<space>\s+)|(?P<mark>.)""",
    re.DOTALL,
)
_LITERALS: Final = frozenset({"true", "false", "null", "in"})
_TYPES: Final = frozenset({"int", "uint", "double", "string", "bytes", "bool", "list", "map", "null_type", "type"})
_COMPREHENSIONS: Final = frozenset({"all", "exists", "exists_one", "filter", "map"})
_EVIDENT: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    ("int", re.compile(r"-?\d+")),
    ("double", re.compile(r"-?\d+\.\d+")),
    ("string", re.compile(r"'[^']*'|\"[^\"]*\"")),
    ("bytes", re.compile(r"b('[^']*'|\"[^\"]*\")")),
    ("bool", re.compile(r"true|false")),
    ("null_type", re.compile(r"null")),
    ("dyn", re.compile(r"(object|oldObject|params)(\s*\.\s*\w+)*")),
)
"""Types that can be told without a type checker: of literals, and of paths into objects."""


@dataclass(frozen=True, slots=True)
class CelError:
    """An evaluation that came to no value, such as a key that is not there."""

    message: str


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression."""

    expression: str
    _compiled: Any

    def evaluate(self, variables: Mapping[str, Any]) -> Any | CelError:
        """The value for these variables; those that the expression does not name may be absent."""
        context = _library().Context(variables=dict(variables), functions=dict(FUNCTIONS))
        try:
            return self._compiled.execute(context)
        except (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError) as error:
            return CelError(_reason(error))

    def holds(self, variables: Mapping[str, Any]) -> bool | CelError:
        """The value of a condition, which must be true or false."""
        value = self.evaluate(variables)
        if isinstance(value, (bool, CelError)):
            return value
        return CelError(f"cel expression evaluates to {type(value).__name__}, not bool")


def compile_condition(expression: str, declared: Collection[str] = CONDITION_VARIABLES) -> Program | str:
    """A condition ready to run, or why it is refused."""
    compiled = compile_expression(expression, declared)
    return compiled if isinstance(compiled, str) else wrong_type(expression, "bool") or compiled


def wrong_type(expression: str, *wanted: str) -> str:
    """Why the expression is refused if its type is evident and not among those wanted."""
    found = next((kind for kind, form in _EVIDENT if form.fullmatch(expression.strip())), "")
    if not found or found in wanted:
        return ""
    shown = wanted[0] if len(wanted) == 1 else f"one of [{' '.join(wanted)}]"
    return f"must evaluate to {shown} but got {found}"


def accepted_expression(expression: str) -> Program:
    """An expression that `compile_expression` accepted before: it is not checked again."""
    program = _parsed(expression.strip())
    assert isinstance(program, Program), f"{expression!r} was accepted and is refused now: {program}"
    return program


def _library() -> Any:
    """Imported with the first expression: with what it imports it takes a third of the API server's start."""
    import cel

    return cel


@lru_cache(maxsize=1024)
def _parsed(expression: str) -> Program | str:
    try:
        _library().compile(expression)
        return Program(expression, _library().compile(_counting_code_points(expression)))
    except ValueError as error:
        _, _, problem = str(error).partition("': ERROR:")
        # The parser's report has the form of upstream's but for the indentation of the line that it shows.
        shown = problem.replace("\n|", "\n |").rstrip() if problem else f" {error}"
        return f"compilation failed: ERROR:{shown}"


def _counting_code_points(expression: str) -> str:
    """The evaluator's own `size` counts the bytes of a text and cannot be replaced under its name."""
    tokens = _tokens(expression)
    calls = [
        position
        for (kind, name, position), (_, following, _) in pairwise(tokens)
        if kind == "name" and name == "size" and following == "("
    ]
    for position in reversed(calls):
        expression = f"{expression[:position]}{CODE_POINTS}{expression[position + len('size') :]}"
    return expression


def compile_expression(
    expression: str, declared: Collection[str], variables: Collection[str] = frozenset()
) -> Program | str:
    """Any expression over the declared variables, or why it is refused.

    If `variables` is declared, the given names are its fields.
    """
    if len(expression) > MAX_LENGTH:
        return f"expression is longer than {MAX_LENGTH} characters"
    refused = _unsupported_syntax(expression)
    if refused:
        return refused
    program = _parsed(expression)
    if isinstance(program, str):
        return program
    return _undeclared(expression, declared, {**_FIELDS, "variables": variables}) or program


def _tokens(expression: str) -> list[tuple[str, str, int]]:
    """(kind, text, position) without blanks and comments."""
    found = [(match.lastgroup or "", match[0], match.start()) for match in _TOKEN.finditer(expression)]
    return [token for token in found if token[0] not in ("space", "comment")]


def _unsupported_syntax(expression: str) -> str:
    tokens = _tokens(expression)
    for (_, text, _), (_, following, _) in pairwise(tokens):
        if following == "?" and text in (".", "[", "{", ","):
            return f"not supported by this server: optional syntax '{text}?'; test with has() instead"
    return ""


def _undeclared(expression: str, declared: Collection[str], fields: Mapping[str, Collection[str]]) -> str:
    """The first name that means nothing, with upstream's report of it."""
    tokens = _tokens(expression)
    bound = _bound_variables(tokens)
    if _nesting(tokens) > MAX_NESTING:
        return f"not supported by this server: more than {MAX_NESTING} comprehensions inside one another"
    for index, (kind, name, position) in enumerate(tokens):
        if kind != "name" or name in _LITERALS:
            continue
        before = tokens[index - 1][1] if index else ""
        following = tokens[index + 1][1] if index + 1 < len(tokens) else ""
        if following == "(":
            if name in FUNCTIONS or name in BUILT_IN:
                continue
            if name in KNOWN_UPSTREAM:
                return f"not supported by this server: the function '{name}'"
            return _report(expression, tokens[index + 1][2], f"undeclared reference to '{name}' (in container '')")
        if before == ".":
            holder = tokens[index - 2] if index >= 2 else ("", "", 0)
            apart = index < 3 or tokens[index - 3][1] != "."
            known = fields.get(holder[1]) if apart and holder[0] == "name" and holder[1] in declared else None
            if known is not None and name not in known:
                return _report(expression, tokens[index - 1][2], f"undefined field '{name}'")
            continue
        if name == "authorizer":
            return "not supported by this server: the variable 'authorizer'"
        if following == "{":
            return f"not supported by this server: objects of a type, such as {name}{{}}"
        if name not in declared and name not in bound and name not in _TYPES:
            return _report(expression, position, f"undeclared reference to '{name}' (in container '')")
    return ""


def _bound_variables(tokens: list[tuple[str, str, int]]) -> set[str]:
    """Names that comprehensions introduce."""
    return {
        tokens[index + 2][1]
        for index, (_, name, _) in enumerate(tokens[:-2])
        if name in _COMPREHENSIONS and tokens[index + 1][1] == "(" and tokens[index + 2][0] == "name"
    }


def _nesting(tokens: list[tuple[str, str, int]]) -> int:
    """How many comprehensions are open at once at most."""
    open_calls: list[bool] = []
    deepest = 0
    for index, (_, text, _) in enumerate(tokens):
        if text == "(":
            open_calls.append(index > 0 and tokens[index - 1][1] in _COMPREHENSIONS)
            deepest = max(deepest, sum(open_calls))
        elif text == ")" and open_calls:
            open_calls.pop()
    return deepest


def _report(expression: str, position: int, problem: str) -> str:
    line_start = expression.rfind("\n", 0, position) + 1
    line = expression.count("\n", 0, position) + 1
    column = position - line_start
    shown = expression[line_start:].partition("\n")[0]
    return f"compilation failed: ERROR: <input>:{line}:{column + 1}: {problem}\n | {shown}\n | {'.' * column}^"


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no such key: {error.args[0]}"
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    return str(error)
