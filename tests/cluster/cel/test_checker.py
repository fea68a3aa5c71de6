"""Types in CEL against what a real API server said of the same expressions, and what only this server says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from situate.cluster.cel.checker import check
from situate.cluster.cel.environments import CONDITION_VARIABLES, with_variables
from situate.cluster.cel.programs import MAX_LENGTH, TypedProgram, compile_expression, type_problem
from situate.cluster.cel.syntax import parse
from situate.cluster.cel.types import BOOL, DYN, INT, STRING, list_of
from situate.cluster.kinds.structural.cel import rule_type

RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "recorded/expressions.json").read_text())
SPEC = rule_type(RECORDED["schema"]["properties"]["spec"], root=False)
WHOLE = rule_type(RECORDED["schema"], root=True)
assert SPEC is not None
assert WHOLE is not None
VARIABLES = with_variables(CONDITION_VARIABLES, {"v": INT, "w": DYN, "y": STRING})
DECLARED = {
    "rules of spec": {"self": SPEC, "oldSelf": SPEC},
    "rules of the whole": {"self": WHOLE, "oldSelf": WHOLE},
    "validations": CONDITION_VARIABLES,
    "validations with variables": VARIABLES,
    "variables": with_variables(CONDITION_VARIABLES, {"v": INT}),
    "match conditions": CONDITION_VARIABLES,
}


@pytest.mark.parametrize("where", RECORDED["expressions"])
def test_what_is_wrong_with_an_expression(where: str) -> None:
    found = {each: problems(each, where) for each in RECORDED["expressions"][where]}
    assert found == RECORDED["expressions"][where]


def problems(expression: str, where: str) -> list[str]:
    compiled = compile_expression(expression, DECLARED[where])
    if not isinstance(compiled, TypedProgram):
        return re.findall(r"<input>:(\d+:\d+: .*)", compiled)
    if where.startswith("rules"):
        return [] if compiled.type == BOOL else ["cel expression must evaluate to a bool"]
    told = type_problem(compiled.type, "bool") if where != "variables" else ""
    return [told] if told else []


def test_all_errors_are_told_in_their_order() -> None:
    checked = check("foo ==\n 1 && [1].bar()", {})
    assert checked.problem == (
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo ==\n | ^\n"
        "ERROR: <input>:2:14: undeclared reference to 'bar' (in container '')\n |  1 && [1].bar()\n | .............^"
    )


@pytest.mark.parametrize(
    "expression",
    [
        "+".join(["1"] * (MAX_LENGTH // 2)),
        "!" * MAX_LENGTH + "true",
        "a" + ".b" * (MAX_LENGTH // 3),
        "a" + "[0]" * (MAX_LENGTH // 4),
    ],
    ids=["a sum", "a negation", "a path", "an index"],
)
def test_what_is_nested_too_deeply_is_refused(expression: str) -> None:
    told = check(expression, {"a": DYN}).problem
    assert told == "not supported by this server: an expression of so many parts inside one another"


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("1 + 2 * 3", INT),
        ("[1, 2].map(x, string(x))", list_of(STRING)),
        ("a ? 'x' : b.c", DYN),
        ("{'a': [1]}['a'][0] > 1 ? true : false", BOOL),
        ("// a comment\n1 - -1", INT),
        ("'a//b' + \"c'd\"", STRING),
    ],
)
def test_the_type_of_a_value(expression: str, type_: object) -> None:
    assert check(expression, {"a": DYN, "b": DYN}).type == type_


def test_operators_bind_as_they_should() -> None:
    plain, bracketed = "1 + 2 * 3 == 7 && !a.b || c ? d : e", "((((1 + (2 * 3)) == 7) && (!(a.b))) || c) ? d : e"
    assert shape(plain) == shape(bracketed)


def shape(expression: str) -> str:
    return re.sub(r"(, )?at=\d+", "", repr(parse(expression)))
