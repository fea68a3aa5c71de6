"""Read objects from files and folders, as `kubectl get -o yaml` and `-o json` print them, Lists included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from situate.cli.input.file_kinds import LISTING, OBJECTS, wrong_kind_of_document, wrong_kind_of_text
from situate.cli.terminal.failures import WrongInput
from situate.objects.settings.section import format_value
from situate.objects.settings.yaml_text import Document, load_yaml_documents

_MOST_NODES: Final = 2_000_000
"""Largest YAML file, in YAML nodes: some 10,000 Pods. It takes 2 GB of memory, and minutes. JSON may be larger."""
_LARGE_FILE_HINT: Final = "write it as JSON (kubectl get -o json), which takes a twentieth of the time and memory"
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True, slots=True)
class DumpedObject:
    """One object as plain data, with its position in the files."""

    position: str
    """Position for messages, such as `--objects cluster.yaml: document 2, line 40, items[3]`; JSON has no lines."""
    content: Mapping[str, Any]

    @property
    def api_version(self) -> str:
        return str(self.content.get("apiVersion", ""))

    @property
    def kind(self) -> str:
        return str(self.content.get("kind", ""))

    @property
    def name(self) -> str:
        """`shop/web`, or the part of it that the object has."""
        metadata = self.content.get("metadata")
        if not isinstance(metadata, Mapping):
            return ""
        return "/".join(str(metadata[key]) for key in ("namespace", "name") if metadata.get(key))


def read_objects(paths: Iterable[Path], option: str) -> Iterator[DumpedObject]:
    """Read the objects of files, and of the YAML and JSON files of folders, sorted by file name.

    Raises `WrongInput`, which names `option` (empty: the files are arguments) and the file. Content that is no
    Kubernetes object is an error and is not skipped.
    """
    for path in paths:
        try:
            files = _files_in(path)
        except OSError as problem:
            raise WrongInput(f"{_file_argument(option, path)}: cannot be read: {problem.strerror}") from None
        if not files:
            raise WrongInput(
                f"{_file_argument(option, path)}: the folder has no file that ends in .yaml, .yml or .json"
            )
        for file in files:
            yield from _objects_of(file, option, alone=file == path)


def _files_in(path: Path) -> list[Path]:
    """Return the files of a folder, or the path itself if it is a file."""
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES and each.is_file())


def _objects_of(path: Path, option: str, *, alone: bool) -> Iterator[DumpedObject]:
    """Read the objects of one file.

    Raises `WrongInput` for a part without `apiVersion` or `kind`, as the last part of a truncated file is. `alone`
    means that the user named the file, so it must hold objects. A folder may hold other files of situate.
    """
    documents = _parse_documents(path, option)
    if alone and not documents:
        raise WrongInput(f"{option} {path}: the file is empty; write it again with kubectl get -o yaml")
    for each in documents:
        several = len(documents) > 1 or each.number > 1
        number = f"document {each.number}" if several else ""
        where = _position_text(path, option, number, each.line)
        content = each.content
        if not isinstance(content, Mapping):
            allowed = "a Kubernetes object, or a List of them"
            raise WrongInput(f"{where}: found {format_value(content)}, allowed: {allowed}")
        wrong = wrong_kind_of_document(content, OBJECTS, LISTING)
        if wrong is not None:
            if alone:
                raise WrongInput(f"{where}: found {wrong.found}, allowed: {wrong.allowed}; {wrong.hint}")
            continue
        _require_type(where, content)
        items = content.get("items")
        if not isinstance(items, list):
            yield DumpedObject(where, content)
            continue
        kind = str(content["kind"]).removesuffix("List")
        for place, item in enumerate(items):
            line = each.item_lines[place] if each.item_lines else 0
            within = _position_text(path, option, number, line, f"items[{place}]")
            if not isinstance(item, Mapping):
                raise WrongInput(f"{within}: found {format_value(item)}, allowed: a Kubernetes object")
            # items of a typed list, such as a PodList, do not repeat apiVersion and kind
            known = {"apiVersion": content["apiVersion"], "kind": kind} if kind and "kind" not in item else {}
            whole = {**known, **item}
            _require_type(within, whole)
            yield DumpedObject(within, whole)


def _position_text(path: Path, option: str, document: str, line: int, item: str = "") -> str:
    """Return the position, such as `--objects cluster.yaml: document 2, line 40, items[3]`, as far as it is known."""
    parts = [each for each in (document, f"line {line}" if line else "", item) if each]
    return _file_argument(option, path) + (f": {', '.join(parts)}" if parts else "")


def _file_argument(option: str, path: Path) -> str:
    """Return the file as the command line names it, with its option unless it is an argument."""
    return f"{option} {path}".strip()


def _require_type(where: str, content: Mapping[str, Any]) -> None:
    for key, example in (("apiVersion", "v1"), ("kind", "List" if "items" in content else "Pod")):
        value = content.get(key)
        if not isinstance(value, str) or not value:
            found = f"found {format_value(value)}" if key in content else "missing"
            raise WrongInput(
                f"{where}: {key}: {found}, allowed: the {key} of a Kubernetes object, such as {example}; "
                "add the line, or write the file again if it was cut off"
            )


def _parse_documents(path: Path, option: str) -> list[Document]:
    """Parse a file as JSON if possible: a large dump takes minutes as YAML. Documents in JSON have no line numbers."""
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise WrongInput(f"{_file_argument(option, path)}: cannot be read: {problem.strerror}") from None
    with suppress(ValueError, RecursionError):
        return [Document(msgspec.json.decode(content), 1, 0, ())]
    try:
        text = content.decode()
        documents, mistakes = load_yaml_documents(text, _MOST_NODES, _LARGE_FILE_HINT, halves=True)
    except UnicodeDecodeError as problem:
        raise WrongInput(
            f"{_file_argument(option, path)}: byte {problem.start} is not UTF-8, allowed: YAML or JSON in UTF-8"
        ) from None
    if mistakes and (of_another_kind := wrong_kind_of_text(text, OBJECTS, LISTING)) is not None:
        mistakes = (of_another_kind,)
    if mistakes:
        raise WrongInput("\n".join(f"{_file_argument(option, path)}: {each}" for each in mistakes))
    return documents
