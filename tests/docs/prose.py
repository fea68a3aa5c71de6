"""Measure how plain texts are: clauses with what, who or nobody, and long sentences, in 100 sentences.

Three kinds of text are read: pages, docstrings, and the texts that the program prints (help, errors, Events, logs).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LONG = 30
"""A sentence with more words is long."""
_VAGUE = re.compile(r"\b(what|who|whom|whose|whoever|whatever|nobody|somebody|whither|anybody)\b", re.IGNORECASE)
_NOT_PROSE = re.compile(r"\s*(\||#|<|    \S|\[.*\]:|!\[)")
_FENCED = re.compile(r"(?ms)^\s*(```|~~~).*?^\s*\1\s*$")
_LEAST_WORDS = 4
"""A literal with fewer words is a name or a value, not a text."""


@dataclass(frozen=True)
class Measured:
    """Counts of one or more texts."""

    sentences: int = 0
    vague: int = 0
    long: int = 0

    def __add__(self, other: Measured) -> Measured:
        return Measured(self.sentences + other.sentences, self.vague + other.vague, self.long + other.long)

    @property
    def clauses(self) -> float:
        """Vague clauses in 100 sentences."""
        return 100 * self.vague / max(1, self.sentences)

    @property
    def long_part(self) -> float:
        """Percentage of long sentences."""
        return 100 * self.long / max(1, self.sentences)


def measured(text: str) -> Measured:
    text = re.sub(r"`[^`]*`", "code", text)
    sentences = [each for each in re.split(r"(?<=[.!?])\s+|\n\s*\n", text) if len(each.split()) >= 3]
    long = sum(len(each.split()) > LONG for each in sentences)
    return Measured(len(sentences), len(_VAGUE.findall(text)), long)


def page(path: Path) -> Measured:
    """Measure a page without its code, tables, headings and HTML."""
    lines = _FENCED.sub("", path.read_text(encoding="utf-8")).splitlines()
    text = "\n".join(line for line in lines if not _NOT_PROSE.match(line))
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return measured(re.sub(r"(?m)^\s*([-*+]|\d+\.)\s+", ". ", text))


def docstrings(path: Path) -> Measured:
    """Measure the docstrings of a module, its classes, functions and attributes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return measured("\n\n".join(str(each.value) for node in ast.walk(tree) for each in _docstrings_of(node)))


def texts(path: Path) -> Measured:
    """Measure the string literals of a module that read as text: help, errors, Events, log lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {id(constant) for node in ast.walk(tree) for constant in _docstrings_of(node)}
    return measured("\n\n".join(_texts(tree, skipped)))


def _docstrings_of(node: ast.AST) -> Iterator[ast.Constant]:
    body = getattr(node, "body", None)
    for each in body if isinstance(body, list) else []:
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str):
            yield each.value


def _texts(node: ast.AST, skipped: set[int]) -> Iterator[str]:
    if isinstance(node, ast.JoinedStr):
        parts = (each.value if isinstance(each, ast.Constant) else "code" for each in node.values)
        found = "".join(map(str, parts))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
        found = node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from _texts(child, skipped)
        return
    if len(re.findall(r"\b[a-z]{2,}\b", found)) >= _LEAST_WORDS:
        yield found
