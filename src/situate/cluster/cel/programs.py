"""CEL expressions of admission: match conditions and the validations of policies.

The package `common-expression-language` parses and evaluates; `docs/decisions/0004-cel.md` argues it. It has no type
checker: that is `cel.checker`. What Kubernetes has and this server has not is refused by name when an object is
created, never when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from situate.cluster.cel.checker import check
from situate.cluster.cel.environments import CONDITION_VARIABLES
from situate.cluster.cel.functions import CODE_POINTS, FUNCTIONS
from situate.cluster.cel.syntax import tokens
from situate.cluster.cel.types import Type

MAX_LENGTH: Final = 16 * 1024
"""Characters of an expression."""


@dataclass(frozen=True, slots=True)
class CelError:
    """An evaluation that came to no value, such as a key that is not there."""

    message: str


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression."""

    expression: str
    runnable: Any
    names: frozenset[str]
    """All that it names: of variables, which are whole objects and copied for the evaluator, no others are needed."""

    def evaluate(self, variables: Mapping[str, Any]) -> Any | CelError:
        """The value for these variables; those that the expression does not name may be absent."""
        named = {name: value for name, value in variables.items() if name in self.names}
        context = _library().Context(variables=named, functions=dict(FUNCTIONS))
        try:
            return self.runnable.execute(context)
        except (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError) as error:
            return CelError(_reason(error))

    def holds(self, variables: Mapping[str, Any]) -> bool | CelError:
        """The value of a condition, which must be true or false."""
        value = self.evaluate(variables)
        if isinstance(value, (bool, CelError)):
            return value
        return CelError(f"cel expression evaluates to {type(value).__name__}, not bool")


@dataclass(frozen=True, slots=True)
class Compiled(Program):
    """An expression that was checked, and the type of its value."""

    type: Type


def compile_condition(expression: str, declared: Mapping[str, Type] = CONDITION_VARIABLES) -> Compiled | str:
    """A condition ready to run, or why it is refused."""
    compiled = compile_expression(expression, declared)
    return compiled if isinstance(compiled, str) else wrong_type(compiled.type, "bool") or compiled


def wrong_type(found: Type, *wanted: str) -> str:
    """Why an expression with a value of that type is refused if it is none of those wanted."""
    if found.result in wanted:
        return ""
    shown = wanted[0] if len(wanted) == 1 else f"one of [{' '.join(wanted)}]"
    return f"must evaluate to {shown} but got {found.result}"


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
        names = frozenset(word.text for word in tokens(expression) if word.kind == "name")
        return Program(expression, _library().compile(_counting_code_points(expression)), names)
    except ValueError as error:
        _, _, problem = str(error).partition("': ERROR:")
        # The parser's report has the form of upstream's but for the indentation of the line that it shows.
        shown = problem.replace("\n|", "\n |").rstrip() if problem else f" {error}"
        return f"compilation failed: ERROR:{shown}"


def _counting_code_points(expression: str) -> str:
    """The evaluator's own `size` counts the bytes of a text and cannot be replaced under its name."""
    calls = [
        one.at
        for one, other in pairwise(tokens(expression))
        if one.kind == "name" and one.text == "size" and other.text == "("
    ]
    for position in reversed(calls):
        expression = f"{expression[:position]}{CODE_POINTS}{expression[position + len('size') :]}"
    return expression


def compile_expression(expression: str, declared: Mapping[str, Type]) -> Compiled | str:
    """Any expression over the declared variables, or why it is refused."""
    if len(expression) > MAX_LENGTH:
        return f"expression is longer than {MAX_LENGTH} characters"
    refused = _unsupported_syntax(expression)
    if refused:
        return refused
    program = _parsed(expression)
    if isinstance(program, str):
        return program
    checked = check(expression, declared)
    return checked.problem or Compiled(program.expression, program.runnable, program.names, checked.type)


def _unsupported_syntax(expression: str) -> str:
    for one, other in pairwise(tokens(expression)):
        if other.text == "?" and one.kind == "mark" and one.text in (".", "[", "{", ","):
            return f"not supported by this server: optional syntax '{one.text}?'; test with has() instead"
    return ""


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no such key: {error.args[0]}"
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    return str(error)
