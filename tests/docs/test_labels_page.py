"""The page on labels and annotations names every key that the products read or write."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "situate"
PAGE = (ROOT / "docs" / "reference" / "labels-and-annotations.md").read_text(encoding="utf-8")
FOLDERS = {
    "vpod": ("vpod",),
    "spot": ("spot",),
    "vm": ("vm",),
    "sharding": ("sharding", "archive"),
    "scheduler": ("plugins/gpu_share", "scheduler"),
}
KEY = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*/[A-Za-z][A-Za-z0-9._-]*")
NO_KEYS = {
    "spot.situate.dev/Placed",  # a condition
    "example.com/check",  # an image that is never started
    "kubectl.kubernetes.io/last-applied-configuration",  # left out of recordings
}


def values(path: Path) -> Iterator[str]:
    """Texts of a module, and what it puts together from a prefix."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
    module = importlib.import_module(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign | ast.Assign) and isinstance(statement.value, ast.BinOp | ast.JoinedStr):
            target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
            if isinstance(target, ast.Name) and isinstance(found := getattr(module, target.id), str):
                yield found


def keys(folders: tuple[str, ...]) -> set[str]:
    found = {
        value
        for folder in folders
        for path in (SOURCE / folder).rglob("*.py")
        if path.name != "__main__.py"
        for value in values(path)
        if KEY.fullmatch(value) and "." in value.partition("/")[0] and not re.search(r"/v\d\w*$", value)
    }
    return found - NO_KEYS


def section(product: str) -> str:
    return PAGE[PAGE.index(f"\n## {product}\n") :].split("\n## ", 2)[1]


def named(text: str) -> set[str]:
    return {each for each in re.findall(r"`([^`\s]+)`", text) if KEY.fullmatch(each)}


@pytest.mark.parametrize("product", FOLDERS)
def test_every_key_of_a_product_is_in_its_section(product: str) -> None:
    everywhere = named(section("All installations"))
    assert not keys(FOLDERS[product]) - named(section(product)) - everywhere


def test_the_page_names_no_key_that_the_code_does_not_have() -> None:
    code = {value for folders in FOLDERS.values() for value in keys(folders)} | NO_KEYS
    more = {each for each in named(PAGE) - code if "." in each.partition("/")[0]}
    built = {"app.kubernetes.io/name", "app.kubernetes.io/managed-by"}  # by `situate manifests`
    assert not more - built - {"tests/docs/test_labels_page.py"}


def test_our_own_keys_stand_in_tables() -> None:
    cells = " ".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `"))
    ours = {each for folders in FOLDERS.values() for each in keys(folders) if ".situate.dev/" in each}
    assert not ours - named(cells)
