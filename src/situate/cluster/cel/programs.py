"""Compile CEL expressions of admission: match conditions and validations of policies.

The package `common-expression-language` parses and evaluates; `docs/decisions/0004-cel.md` explains the choice. It has
no type checker; `cel.checker` is one. Features of Kubernetes that this server lacks are refused by name when an object
is created, never when it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    """An evaluation that failed, for example because of a missing key."""

    message: str


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression."""

    expression: str
    runnable: Any
    names: frozenset[str]
    """All names in the expression.

    Only these variables are passed, because the evaluator copies variables, and they are whole objects.
    """

    def evaluate(self, variables: Mapping[str, Any]) -> Any | CelError:
        """Return the value for these variables. Variables that the expression does not name may be absent."""
        named = {name: value for name, value in variables.items() if name in self.names}
        context = _import_library().Context(variables=named, functions=dict(FUNCTIONS))
        try:
            return self.runnable.execute(context)
        except (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError) as error:
            return CelError(_error_reason(error))

    def holds(self, variables: Mapping[str, Any]) -> bool | CelError:
        """Return the value of a condition, which must be true or false."""
        value = self.evaluate(variables)
        if isinstance(value, (bool, CelError)):
            return value
        return CelError(f"cel expression evaluates to {type(value).__name__}, not bool")


@dataclass(frozen=True, slots=True)
class TypedProgram(Program):
    """A checked expression, and the type of its value."""

    type: Type


def compile_condition(expression: str, declared: Mapping[str, Type] = CONDITION_VARIABLES) -> TypedProgram | str:
    """Compile a condition; return the reason if it is refused."""
    compiled = compile_expression(expression, declared)
    return compiled if isinstance(compiled, str) else type_problem(compiled.type, "bool") or compiled


def type_problem(found: Type, *wanted: str) -> str:
    """Return the reason to refuse an expression of type `found`; empty if the type is one of those wanted."""
    if found.result in wanted:
        return ""
    shown = wanted[0] if len(wanted) == 1 else f"one of [{' '.join(wanted)}]"
    return f"must evaluate to {shown} but got {found.result}"


def conditions_met(programs: Iterable[Program], variables: Mapping[str, Any]) -> bool | CelError:
    """Return whether all conditions are true. One false condition decides, even if others fail."""
    errors: list[str] = []
    for program in programs:
        holds = program.holds(variables)
        if isinstance(holds, CelError):
            errors.append(f"expression '{program.expression}' resulted in error: {holds.message}")
        elif not holds:
            return False
    if not errors:
        return True
    return CelError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")


def compile_accepted(expression: str) -> Program:
    """Return an expression that `compile_expression` accepted before, without checking it again."""
    program = _parse_expression(expression.strip())
    assert isinstance(program, Program), f"{expression!r} was accepted and is refused now: {program}"
    return program


def _import_library() -> Any:
    """Import the library at the first expression. The import takes a third of the API server's start time."""
    import cel

    return cel


@lru_cache(maxsize=1024)
def _parse_expression(expression: str) -> Program | str:
    try:
        _import_library().compile(expression)
        names = frozenset(word.text for word in tokens(expression) if word.kind == "name")
        return Program(expression, _import_library().compile(_rename_size_calls(expression)), names)
    except ValueError as error:
        _, _, problem = str(error).partition("': ERROR:")
        # The parser's report has upstream's form except for the indentation of the quoted line.
        shown = problem.replace("\n|", "\n |").rstrip() if problem else f" {error}"
        return f"compilation failed: ERROR:{shown}"


def _rename_size_calls(expression: str) -> str:
    """Rename calls of `size`, because the evaluator's own `size` counts bytes and cannot be replaced."""
    calls = [
        one.at
        for one, other in pairwise(tokens(expression))
        if one.kind == "name" and one.text == "size" and other.text == "("
    ]
    for position in reversed(calls):
        expression = f"{expression[:position]}{CODE_POINTS}{expression[position + len('size') :]}"
    return expression


def compile_expression(expression: str, declared: Mapping[str, Type]) -> TypedProgram | str:
    """Compile any expression with the declared variables; return the reason if it is refused."""
    if len(expression) > MAX_LENGTH:
        return f"expression is longer than {MAX_LENGTH} characters"
    refused = _unsupported_syntax(expression)
    if refused:
        return refused
    program = _parse_expression(expression)
    if isinstance(program, str):
        return program
    checked = check(expression, declared)
    return checked.problem or TypedProgram(program.expression, program.runnable, program.names, checked.type)


def _unsupported_syntax(expression: str) -> str:
    for one, other in pairwise(tokens(expression)):
        if other.text == "?" and one.kind == "mark" and one.text in (".", "[", "{", ","):
            return f"not supported by this server: optional syntax '{one.text}?'; test with has() instead"
    return ""


def _error_reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no such key: {error.args[0]}"
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    return str(error)
