"""Conditions in CEL: values, refusals with upstream's reports, what this server has not by name, errors as values."""

from __future__ import annotations

from typing import Any

import pytest

from situate.cluster.cel.programs import MAX_LENGTH, CelError, Program, compile_condition, compile_expression

POD = {
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "a", "image": "Reg/x:1", "resources": {"requests": {"cpu": "500m"}}}], "n": 3},
}
VARIABLES: dict[str, Any] = {
    "object": POD,
    "oldObject": None,
    "request": {"operation": "CREATE", "userInfo": {"username": "u"}},
}


def holds(expression: str) -> bool | CelError:
    program = compile_condition(expression)
    assert isinstance(program, Program), program
    return program.holds(VARIABLES)


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("object.metadata.name == 'web'", True),
        ("has(object.metadata.annotations)", False),
        ("'app' in object.metadata.labels", True),
        ("object.spec.containers.all(c, c.image.startsWith('Reg/'))", True),
        ("object.spec.containers.exists(c, c.name == 'b')", False),
        ("oldObject == null", True),
        ("request.operation in ['CREATE', 'UPDATE'] && request.userInfo.username != 'system'", True),
        ("object.spec.containers[0].image.lowerAscii() == 'reg/x:1'", True),
        ("object.spec.containers[0].image.split('/')[1] == 'x:1'", True),
        ("object.spec.containers.map(c, c.name).join(',') == 'a'", True),
        ("quantity(object.spec.containers[0].resources.requests.cpu).isLessThan(quantity('1'))", True),
        ("quantity('1Gi') == quantity('1024Mi') && quantity('1').add(quantity('500m')) == quantity('1500m')", True),
        ("quantity('1k').compareTo(quantity('1Ki')) == -1", True),
        ("'h\u00e9'.size() == 2", True),
        ("'abc'.find('b.') == 'bc' && 'aXbX'.findAll('[ab]') == ['a', 'b']", True),
        ("'abc'.substring(1, 2) == 'b' && 'abc'.indexOf('c') == 2 && 'abca'.lastIndexOf('a') == 3", True),
        ("object.missing == 1 || true", True),
        ("[1, 2, 3].sum() == 6 && [1, 2].isSorted()", True),
        ("object.spec.n > 2 ? true : false", True),
    ],
)
def test_conditions(expression: str, want: bool) -> None:
    assert holds(expression) == want


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("object.metadata.missing == 1", "no such key: missing"),
        ("object.spec.n / 0 == 1", "division by zero"),
    ],
)
def test_an_evaluation_without_a_value_is_an_error_that_says_why(expression: str, reason: str) -> None:
    assert holds(expression) == CelError(reason)


def test_a_condition_must_be_true_or_false() -> None:
    assert compile_condition("object.spec.n") == "must evaluate to bool but got dyn"
    assert isinstance(holds("object.spec.n || false"), CelError)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        pytest.param(
            "foo == 1",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n"
            " | foo == 1\n | ^",
            id="an undeclared name",
        ),
        pytest.param(
            "request.foo == 'a'",
            "compilation failed: ERROR: <input>:1:8: undefined field 'foo'\n | request.foo == 'a'\n | .......^",
            id="a field that request has not",
        ),
        pytest.param(
            "[1,2].foo()",
            "compilation failed: ERROR: <input>:1:10: undeclared reference to 'foo' (in container '')\n"
            " | [1,2].foo()\n | .........^",
            id="an unknown method",
        ),
        pytest.param("1", "must evaluate to bool but got int", id="a number"),
        pytest.param(
            "object.?a.hasValue()",
            "not supported by this server: optional syntax '.?'; test with has() instead",
            id="optional",
        ),
        pytest.param(
            "authorizer.check('x').allowed()",
            "not supported by this server: the variable 'authorizer'",
            id="authorizer",
        ),
        pytest.param(
            "authorizer == 1", "not supported by this server: the variable 'authorizer'", id="the authorizer itself"
        ),
        pytest.param(
            "Object{a: 1} == object",
            "not supported by this server: objects of a type, such as Object{}",
            id="typed objects",
        ),
        pytest.param(
            "url('x') == 1", "not supported by this server: the function 'url'", id="a library that is missing"
        ),
        pytest.param("a" * (MAX_LENGTH + 1), f"expression is longer than {MAX_LENGTH} characters", id="too long"),
    ],
)
def test_expressions_that_are_refused(expression: str, problem: str) -> None:
    assert compile_condition(expression) == problem


def test_a_syntax_error_is_reported_as_upstream_reports_it() -> None:
    problem = compile_condition("1 +")
    assert isinstance(problem, str)
    assert problem.startswith(
        "compilation failed: ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting"
    )
    assert problem.endswith("\n | 1 +\n | ...^")


def test_comprehensions_may_not_be_nested_without_end() -> None:
    expression = "object.l.all(a, " * 4 + "true" + ")" * 4
    assert "more than 3 comprehensions" in str(compile_condition(expression))


def test_names_in_texts_and_comments_are_no_names() -> None:
    assert holds("'foo bar' == \"foo bar\" // baz\n && object.metadata.name == 'web'") is True


@pytest.mark.parametrize(
    ("expression", "want"),
    [("string(1 == 1)", "true"), ("string(1 == 2)", "false"), ("string(12)", "12"), ("string('a')", "a")],
)
def test_anything_simple_becomes_a_string(expression: str, want: str) -> None:
    program = compile_expression(expression, {})
    assert isinstance(program, Program)
    assert program.evaluate({}) == want


def test_a_map_becomes_no_string() -> None:
    program = compile_expression("string(dyn({}))", {})
    assert isinstance(program, Program)
    assert isinstance(program.evaluate({}), CelError)
