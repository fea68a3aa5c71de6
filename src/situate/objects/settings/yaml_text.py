"""Read YAML text into plain data, with the line of each mistake.

This module refuses two faults that PyYAML accepts: a duplicate key, where PyYAML drops the first value, and a key that
is not hashable. Tags other than YAML's own are refused, so no text can construct anything but plain data. The number of
values is limited, and so is the number that aliases add: PyYAML uses 900 bytes for each value. Everything that is read
can be written again: numbers are not too long to show, and texts contain no half characters unless the caller allows
them. Callers read the files.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import yaml

from situate.objects.settings.section import Mistake, format_value

_MAX_NODES = 200_000
"""The largest number of values in a text, and the largest number that aliases may add."""
_LONG = 100
"""Characters of a text above which each repetition by an alias counts as several values."""
_LONGEST_NUMBER = 1000
"""Characters of a number. Python refuses to write more than 4300 digits, and needs hours for the longest of base 60."""


_CUT_OFF = "the text ends too early: close the open bracket or quote, or restore the part that was cut off"

UNFIT = (LookupError, AttributeError, TypeError)
"""Errors besides its own that PyYAML raises if a tag does not fit its value, as in `!!bool maybe`."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a text."""

    content: object
    number: int
    """The number of the document from 1, with empty documents counted."""
    line: int
    """The first line, from 1."""
    item_lines: tuple[int, ...]
    """The first lines of the entries of its key `items` if it is a list: these are the objects of a Kubernetes List."""


class _TooManyValues(Exception):
    """The text has more values than allowed."""


class _Loader(yaml.SafeLoader):
    """A SafeLoader that reports duplicate keys, and stops above the limit of values."""

    def __init__(self, text: str, most_nodes: int, halves: bool) -> None:
        super().__init__(text)
        self._halves = halves
        self.mistakes: list[Mistake] = []
        self.nodes = 0
        self._most_nodes = most_nodes

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.nodes += 1
        if self.nodes > self._most_nodes:
            raise _TooManyValues
        node: yaml.Node | None = super().compose_node(parent, index)
        return node

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value: Any = super().construct_scalar(node)
        if not isinstance(value, str) or value.isascii():
            return value
        try:  # JSON writes characters beyond 16 bits as two halves, which PyYAML does not join
            return value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            if self._halves:
                return value
            problem = "half of a surrogate pair, such as \\ud800"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        """Construct an integer or a float. Raises `ValueError` above the limit of characters."""
        if len(node.value) > _LONGEST_NUMBER:
            raise ValueError(f"a number of {len(node.value)} characters")
        whole = node.tag == "tag:yaml.org,2002:int"
        return self.construct_yaml_int(node) if whole else self.construct_yaml_float(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[Hashable, int] = {}
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, Hashable):
                self.mistakes.append(Mistake(f"line {line}", format_value(key), "text as a key"))
            elif key in seen:
                hint = f"the key is already in line {seen[key]}; remove one of the two"
                self.mistakes.append(Mistake(f"line {line}", f"key {format_value(key)}", "each key once", hint))
            else:
                seen[key] = line
        if self.mistakes:
            return {}
        return super().construct_mapping(node, deep)


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _Loader.construct_number)


def load_yaml(text: str) -> tuple[object, tuple[Mistake, ...]]:
    """Return the data of a single document (None for an empty one), or None and the mistakes in the text.

    The paths of mistakes are lines, `line 3`. JSON is YAML, so JSON is read too.
    """
    documents, mistakes = load_yaml_documents(text)
    if mistakes:
        return None, mistakes
    if len(documents) > 1:
        return None, (Mistake("", f"{len(documents)} documents", "one document", "remove the lines '---'"),)
    return (documents[0].content if documents else None), ()


def load_yaml_documents(
    text: str, most_nodes: int = _MAX_NODES, if_more: str = "", *, halves: bool = False
) -> tuple[list[Document], tuple[Mistake, ...]]:
    """Return all documents of a text that are not empty. `if_more` is the hint if there are more than `most_nodes`
    values.

    `halves` allows half characters, for callers that check the objects one by one, so that the other objects are read.
    """
    documents: list[Document] = []
    number = 0
    try:
        loader = _Loader(text, most_nodes, halves)
        while True:
            number += 1
            if not loader.check_node():
                break
            node = loader.get_node()
            if node is None:
                continue
            most = loader.nodes + len(text) // _LONG + _MAX_NODES
            if count_unfolded(node, {}, most) > most:
                allowed = f"aliases that add at most {_MAX_NODES} values when expanded"
                return [], (Mistake("", "aliases within aliases", allowed),)
            data = loader.construct_document(node)
            if data is not None:
                documents.append(Document(data, number, node.start_mark.line + 1, _item_lines(node)))
    except _TooManyValues:
        return [], (Mistake("", f"more than {most_nodes} values", f"at most {most_nodes} values", if_more),)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line = f"line {mark.line + 1}" if mark is not None else ""
        where = ", ".join(filter(None, (f"document {number}" if number > 1 else "", line)))
        found = " ".join(str(each) for each in (problem.context, problem.problem) if each)
        ended = mark is not None and mark.index >= len(text.rstrip())
        return [], (Mistake(where, found, "YAML", _CUT_OFF if ended else ""),)
    except yaml.reader.ReaderError as problem:
        return [], (Mistake("", f"character {problem.character!r} at {problem.position}", "printable text"),)
    except RecursionError:
        return [], (Mistake("", "too many levels", "YAML with at most a few hundred levels"),)
    except (ValueError, OverflowError) as problem:  # 2001-99-99 has the form of a date but is none
        return [], (Mistake("", str(problem), "YAML", "quote values that only look like dates or numbers"),)
    except UNFIT:
        return [], (Mistake("", "a value that does not match its tag", "YAML", "remove tags such as !!bool"),)
    if loader.mistakes:
        return [], tuple(loader.mistakes)
    return documents, ()


def _item_lines(node: yaml.Node) -> tuple[int, ...]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == "items" and isinstance(value, yaml.SequenceNode):
                return tuple(each.start_mark.line + 1 for each in value.value)
    return ()


def count_unfolded(node: yaml.Node, sizes: dict[int, int], most: int) -> int:
    """Return the number of values with all aliases written out. Counting stops a little above `most`."""
    known = sizes.get(id(node))
    if known is not None:
        return known
    sizes[id(node)] = 1  # an alias to an enclosing node must not count without end
    size = 1
    if isinstance(node, yaml.ScalarNode):
        size += len(node.value) // _LONG
    if isinstance(node, yaml.MappingNode | yaml.SequenceNode):
        for child in node.value:
            for each in child if isinstance(child, tuple) else (child,):
                size += count_unfolded(each, sizes, most)
                if size > most:
                    break
    sizes[id(node)] = size
    return size
