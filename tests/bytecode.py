"""Bytecode of ours, made once before xdist's workers start: each would make all of it, and at the same time.

What takes long is that pytest rewrites the asserts of tests: ten times as long as compiling does. Its own cache is
filled here; should another version keep it elsewhere, the workers do that work as before.
"""

from __future__ import annotations

import ast
import marshal
import os
import py_compile
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import MAGIC_NUMBER, cache_from_source
from multiprocessing import get_context
from pathlib import Path

from _pytest.assertion import rewrite

_FEW = 20
"""So many files are not worth other processes."""


def make(folders: Iterable[Path]) -> int:
    """Makes what is not there yet of all modules in the folders, and says of how many. Uses every processor."""
    if sys.dont_write_bytecode:
        return 0
    stale = [path for path in _modules(folders) if not is_made(path)]
    if len(stale) < _FEW:
        return 0
    # a fork would inherit what pytest has opened
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return sum(pool.map(make_one, stale, chunksize=10))


def make_one(path: Path) -> bool:
    """Whether it could be made; what cannot be compiled is told by the worker that imports it."""
    try:
        if _is_rewritten(path):
            _rewrite(path)
        else:
            py_compile.compile(str(path), doraise=True)
    except (OSError, SyntaxError, py_compile.PyCompileError):
        return False
    return True


def is_made(path: Path) -> bool:
    """Whether there is bytecode of the file as it is now."""
    try:
        with _bytecode_of(path).open("rb") as bytecode:
            return bytecode.read(16) == _head(path)
    except OSError:
        return False


def _modules(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(folder.rglob("*.py"))


def _is_rewritten(path: Path) -> bool:
    """As pytest chooses: by the name."""
    return path.name == "conftest.py" or path.name.startswith("test_")


def _rewrite(path: Path) -> None:
    source, head = path.read_bytes(), _head(path)
    tree = ast.parse(source, str(path))
    rewrite.rewrite_asserts(tree, source, str(path))
    code = compile(tree, str(path), "exec", dont_inherit=True)
    bytecode = _bytecode_of(path)
    bytecode.parent.mkdir(exist_ok=True)
    partial = bytecode.with_name(f"{bytecode.name}.{os.getpid()}")
    partial.write_bytes(head + marshal.dumps(code))
    partial.replace(bytecode)


def _bytecode_of(path: Path) -> Path:
    if _is_rewritten(path):
        return rewrite.get_cache_dir(path) / (path.stem + rewrite.PYC_TAIL)
    return Path(cache_from_source(path))


def _head(path: Path) -> bytes:
    """What bytecode begins with: of which Python, and of which time and size the file was."""
    stat = path.stat()
    numbers = (0, int(stat.st_mtime), stat.st_size)
    return MAGIC_NUMBER + b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in numbers)
