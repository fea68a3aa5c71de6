"""Objects from files, as `kubectl get -o yaml` and `-o json` print them: documents, Lists, several files, folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from situate.cli.failures import WrongInput
from situate.objects.settings import shown
from situate.objects.yaml_text import load_yaml_documents

_MOST_NODES: Final = 2_000_000
"""Of a file in YAML, which takes 2 GB of memory then, and minutes: some 10,000 pods. JSON may be larger."""
_LARGER: Final = "write it as JSON (kubectl get -o json), which takes a twentieth of the time and memory"
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True, slots=True)
class Dumped:
    """One object as plain data, and where it stands."""

    place: str
    """`cluster.yaml: items[3]`, for messages."""
    content: Mapping[str, Any]

    @property
    def api_version(self) -> str:
        return str(self.content.get("apiVersion", ""))

    @property
    def kind(self) -> str:
        return str(self.content.get("kind", ""))

    @property
    def name(self) -> str:
        """`shop/web`, or as much as the object says."""
        metadata = self.content.get("metadata")
        if not isinstance(metadata, Mapping):
            return ""
        return "/".join(str(metadata[key]) for key in ("namespace", "name") if metadata.get(key))


def read_objects(paths: Iterable[Path], option: str) -> Iterator[Dumped]:
    """The objects of files, and of the YAML and JSON files of folders in the order of their names.

    Raises `WrongInput`, which names `option` and the file; what is no object at all is an error, not skipped.
    """
    for path in paths:
        try:
            files = _files(path)
        except OSError as problem:
            raise WrongInput(f"{option} {path}: cannot be read: {problem.strerror}") from None
        if not files:
            raise WrongInput(f"{option} {path}: the folder has no file that ends in .yaml, .yml or .json")
        for file in files:
            yield from _objects_of(file, option)


def _files(path: Path) -> list[Path]:
    """The path itself, unless it is a folder."""
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES and each.is_file())


def _objects_of(path: Path, option: str) -> Iterator[Dumped]:
    for number, document in enumerate(_documents(path, option)):
        where = f"{option} {path}: document {number + 1}" if number else f"{option} {path}"
        if not isinstance(document, Mapping):
            allowed = "a Kubernetes object, or a List of them"
            raise WrongInput(f"{where}: found {shown(document)}, allowed: {allowed}")
        items = document.get("items")
        if not isinstance(items, list):
            yield Dumped(where, document)
            continue
        kind = str(document.get("kind", "")).removesuffix("List")
        version = document.get("apiVersion", "")
        for place, item in enumerate(items):
            if not isinstance(item, Mapping):
                raise WrongInput(f"{where}: items[{place}]: found {shown(item)}, allowed: a Kubernetes object")
            # the items of a typed list, such as a PodList, do not repeat what they are
            known = {"apiVersion": version, "kind": kind} if kind and "kind" not in item else {}
            yield Dumped(f"{where}: items[{place}]", {**known, **item})


def _documents(path: Path, option: str) -> list[object]:
    """As JSON if it is that, since reading a large dump as YAML takes minutes."""
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise WrongInput(f"{option} {path}: cannot be read: {problem.strerror}") from None
    with suppress(ValueError, RecursionError):
        return [msgspec.json.decode(content)]
    try:
        documents, mistakes = load_yaml_documents(content.decode(), _MOST_NODES, _LARGER, halves=True)
    except UnicodeDecodeError as problem:
        raise WrongInput(f"{option} {path}: byte {problem.start} is no UTF-8; allowed is YAML or JSON") from None
    if mistakes:
        raise WrongInput("\n".join(f"{option} {path}: {each}" for each in mistakes))
    return documents
