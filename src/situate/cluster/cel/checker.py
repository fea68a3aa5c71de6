"""Find type errors in CEL expressions, with the API server's texts.

After cel-go's `checker/checker.go`. As there, an expression with a reported error fits every type, so each mistake is
reported once. Features of Kubernetes' CEL that this server lacks get their own error, which names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from situate.cluster.cel.functions import KNOWN_UPSTREAM
from situate.cluster.cel.syntax import (
    Expression,
    FieldSelection,
    FunctionCall,
    ListLiteral,
    Literal,
    MapLiteral,
    Name,
    ObjectLiteral,
    parse,
)
from situate.cluster.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    TYPE_NAMES,
    Type,
    call_result_type,
    list_of,
    map_of,
    signatures,
)

MAX_NESTING: Final = 3
"""Largest depth of nested comprehensions. With the size limit of objects it bounds the time of an evaluation."""
_COMPREHENSIONS: Final[Mapping[str, tuple[int, ...]]] = {
    "all": (2,),
    "exists": (2,),
    "exists_one": (2,),
    "filter": (2,),
    "map": (2, 3),
}
"""Macros over a list or the keys of a map, and their numbers of arguments."""
_LIBRARIES: Final = frozenset({"sets", "optional", "format", "authorizer"})
"""Prefixes of functions that this server lacks."""


class Unsupported(Exception):
    """A construct of Kubernetes' CEL that this server lacks; the text names it."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of the check of an expression."""

    type: Type
    problem: str = ""
    """Empty, or all errors as the API server reports them."""


def check(expression: str, declared: Mapping[str, Type]) -> CheckResult:
    """Return type and errors of an expression with correct syntax, for the declared variables."""
    checker = _Checker()
    try:
        found = checker.check(parse(expression), declared)
    except Unsupported as unsupported:
        return CheckResult(DYN, f"not supported by this server: {unsupported}")
    except RecursionError:
        return CheckResult(DYN, "not supported by this server: an expression of so many parts inside one another")
    if not checker.errors:
        return CheckResult(found)
    told = "\n".join(f"ERROR: {_format_error(expression, at, text)}" for at, text in sorted(checker.errors))
    return CheckResult(ERROR, f"compilation failed: {told}")


class _Checker:
    def __init__(self) -> None:
        self.errors: list[tuple[int, str]] = []
        self._depth = 0

    def check(self, node: Expression, scope: Mapping[str, Type]) -> Type:
        match node:
            case Literal():
                return Type(node.type)
            case Name():
                return self._check_name(node, scope)
            case FieldSelection():
                return self._check_select(node, scope, node.at)
            case FunctionCall():
                return self._check_call(node, scope)
            case ListLiteral():
                return list_of(self._common_type([(each.at, self.check(each, scope)) for each in node.items]))
            case MapLiteral():
                keys = [(key.at, self.check(key, scope)) for key, _ in node.entries]
                values = [(value.at, self.check(value, scope)) for _, value in node.entries]
                return map_of(self._common_type(keys), self._common_type(values))
            case ObjectLiteral():
                raise Unsupported(f"objects of a type, such as {node.type}{{}}")
            case _:
                assert_never(node)

    def _check_name(self, node: Name, scope: Mapping[str, Type]) -> Type:
        found = scope.get(node.name) or TYPE_NAMES.get(node.name)
        if found is not None:
            return found
        if node.name in _LIBRARIES:
            raise Unsupported(f"the variable '{node.name}'")
        return self._add_error(node.at, f"undeclared reference to '{node.name}' (in container '')")

    def _check_select(self, node: FieldSelection, scope: Mapping[str, Type], at: int) -> Type:
        of = self.check(node.operand, scope)
        if of.fields is not None:
            found = of.fields.get(node.field)
            return found if found is not None else self._add_error(at, f"undefined field '{node.field}'")
        if of.name == "map":
            return of.parameters[1]
        if of in (DYN, ERROR):
            return of
        return self._add_error(at, f"type '{of}' does not support field selection")

    def _check_call(self, node: FunctionCall, scope: Mapping[str, Type]) -> Type:
        count = len(node.arguments)
        if (
            node.target is None
            and node.function == "has"
            and count == 1
            and isinstance(node.arguments[0], FieldSelection)
        ):
            found = self._check_select(node.arguments[0], scope, node.at)
            return ERROR if found == ERROR else BOOL
        if node.function in ("_&&_", "_||_"):
            for argument in node.arguments:
                self._expect_bool(argument, scope)
            return BOOL
        if node.target is not None and count in _COMPREHENSIONS.get(node.function, ()):
            return self._check_comprehension(node, node.target, scope)
        known = signatures(node.function)
        before = () if node.target is None else (self.check(node.target, scope),)
        given = (*before, *(self.check(argument, scope) for argument in node.arguments))
        if not known and node.function in KNOWN_UPSTREAM:
            raise Unsupported(f"the function '{node.function}'")
        if not known:
            return self._add_error(node.at, f"undeclared reference to '{node.function}' (in container '')")
        return self._call_type(node.function, given, node.at, method=node.target is not None)

    def _call_type(self, function: str, given: tuple[Type, ...], at: int, *, method: bool = False) -> Type:
        if ERROR in given:
            return ERROR
        found = call_result_type(signatures(function), given, method=method)
        if found is not None:
            return found
        receiver = f"{given[0]}." if method else ""
        shown = ", ".join(str(each) for each in given[1 if method else 0 :])
        return self._add_error(at, f"found no matching overload for '{function}' applied to '{receiver}({shown})'")

    def _check_comprehension(self, node: FunctionCall, over: Expression, scope: Mapping[str, Type]) -> Type:
        variable, *rest = node.arguments
        of = self.check(over, scope)
        if of.name in ("list", "map"):
            each = of.parameters[0]
        elif of in (DYN, ERROR):
            each = of
        else:
            kinds = "must be list, map, or dynamic"
            self._add_error(over.at, f"expression of type '{of}' cannot be range of a comprehension ({kinds})")
            each = ERROR
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise Unsupported(f"more than {MAX_NESTING} comprehensions inside one another")
        inner = {**scope, variable.name: each} if isinstance(variable, Name) else scope
        if node.function in ("all", "exists"):
            self._expect_bool(rest[0], inner)
            found = BOOL
        elif node.function == "exists_one":
            self._call_type("_?_:_", (self.check(rest[0], inner), INT, INT), node.at)
            found = BOOL
        else:
            found = self._collection_type(node, rest, each, inner)
        self._depth -= 1
        return found

    def _collection_type(
        self, node: FunctionCall, rest: list[Expression], each: Type, scope: Mapping[str, Type]
    ) -> Type:
        """Return the type of the list that `filter` or `map` builds. The first argument can be a condition."""
        condition = self.check(rest[0], scope) if node.function == "filter" or len(rest) > 1 else BOOL
        found = list_of(each if node.function == "filter" else self.check(rest[-1], scope))
        self._call_type("_?_:_", (condition, found, found), node.at)
        return found

    def _expect_bool(self, node: Expression, scope: Mapping[str, Type]) -> None:
        found = self.check(node, scope)
        if found not in (BOOL, DYN, ERROR):
            self._add_error(node.at, f"expected type 'bool' but found '{found}'")

    def _common_type(self, given: list[tuple[int, Type]]) -> Type:
        """Return the common type of all items of a literal."""
        if not given:
            return DYN
        first = ERROR
        for at, found in given:
            if first == ERROR:
                first = found
                continue
            open_ended = DYN not in (first, found) and call_result_type(
                signatures("_==_"), (first, found), method=False
            )
            if found not in (first, ERROR) and not open_ended:
                # Reported once: after that, all items fit.
                return self._add_error(at, f"expected type '{first}' but found '{found}'")
        return first

    def _add_error(self, at: int, text: str) -> Type:
        self.errors.append((at, text))
        return ERROR


def _format_error(expression: str, position: int, problem: str) -> str:
    line_start = expression.rfind("\n", 0, position) + 1
    line = expression.count("\n", 0, position) + 1
    column = position - line_start
    shown = expression[line_start:].partition("\n")[0]
    return f"<input>:{line}:{column + 1}: {problem}\n | {shown}\n | {'.' * column}^"
