"""Reads the rule marks of all tests from their source and lays them out beside what each rule says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

_DEFINED = re.compile(r"^\s*- \*\*([A-Z]\d+)\*\*|^\| \**([A-Z]\d+)\** \|", re.MULTILINE)
_SPAN = re.compile(r"([A-Z])(\d+)(?:-[A-Z]?(\d+))?")


def page(root: Path) -> str:
    """docs/contributing/rules.md: a table for each product that has a list of rules beside this file."""
    parts = [
        "# Rules and the tests that prove them",
        "",
        "Made by `python -m tests.rules` from the marks on the tests. The specifications have the rules in full:",
        "[vpod](../spec/vpod.md), [vm](../spec/vm.md), [spot](../spec/spot.md), [sharding](../spec/sharding.md), and",
        "the [framework](../spec/framework.md), whose rules have no numbers.",
    ]
    tests = _tests_by_rule(root / "tests")
    for statements in sorted((root / "tests" / "rules").glob("*.yaml")):
        product = statements.stem
        rules: dict[str, str] = yaml.safe_load(statements.read_text(encoding="utf-8"))
        parts += [
            "",
            f"## {product}",
            "",
            f"[The rules of {product} in full](../spec/{product}.md)",
            "",
            "| rule | what it says | tests |",
            "| --- | --- | --- |",
        ]
        for number, statement in rules.items():
            named = tests.get(f"{product}:{number}", [])
            parts.append(f"| {number} | {statement} | {', '.join(named) or 'none'} |")
        unknown = sorted(rule for rule in tests if rule.startswith(f"{product}:") and rule.split(":")[1] not in rules)
        if unknown:
            raise ValueError(f"tests name rules that {statements.name} does not have: {', '.join(unknown)}")
    return "\n".join(parts) + "\n"


def defined(specification: str) -> list[str]:
    """List the rules that a page of docs/spec defines: items that begin with a bold code, rows that begin with one."""
    return [item or row for item, row in _DEFINED.findall(specification)]


def _tests_by_rule(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        for rule, test in _marks(path):
            name = f"`{path.relative_to(folder)}::{test}`" if test else f"`{path.relative_to(folder)}`"
            if name not in found.setdefault(rule, []):
                found[rule].append(name)
    return found


def _marks(path: Path) -> Iterator[tuple[str, str]]:
    """Pairs of rule and test; the test is empty where the whole file is marked."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    owners: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                owners.update(dict.fromkeys(ast.walk(decorator), node.name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "rule":
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    for rule in _numbers(argument.value):
                        yield rule, owners.get(node, "")


def _numbers(text: str) -> Iterator[str]:
    """`vpod:D1-D3` as its single rules."""
    product, _, span = text.partition(":")
    match = _SPAN.fullmatch(span)
    if match is None:
        raise ValueError(f"a mark names {text!r}, which is no rule such as vpod:B7 or vpod:D1-D3")
    for number in range(int(match[2]), int(match[3] or match[2]) + 1):
        yield f"{product}:{match[1]}{number}"
