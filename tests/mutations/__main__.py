"""`python -m tests.mutations [NAME …]`: each guard with the first test that misses it.

Works on copies of the tree, two at a time. Fails if a mutation survives, if a patch does not apply any more, or if the
tests are red without any patch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from tests.mutations.guards import GUARDS
from tests.mutations.patch import DoesNotApply, Mutation

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = 2
TIMEOUT_S = 300.0
"""Of one mutation: a busy machine is slow, and only tests that hang take longer."""
ALL_TESTS_TIMEOUT_S = 1800.0
"""For all the tests that mutations name, one after the other."""
_COPIED = ("src", "tests", "examples", "docs", "pyproject.toml")
_NOT_COPIED = shutil.ignore_patterns("__pycache__", ".hypothesis", "vectors", "mutations")
_TESTS_FAILED = 1  # pytest's exit code; any other than this and 0 means that nothing was tested
# the copy must be what is imported, not the installed package
_RUN = (
    "import pathlib, sys, situate\n"
    "assert pathlib.Path(situate.__file__).is_relative_to(pathlib.Path.cwd()), situate.__file__\n"
    "import pytest\n"
    "sys.exit(pytest.main(sys.argv[1:]))"
)


def main(names: Sequence[str]) -> int:
    known = {mutation.name: mutation for mutation in GUARDS}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no such mutation: {', '.join(unknown)}; there are {', '.join(known)}")
        return 2
    chosen = [known[name] for name in names] or list(GUARDS)
    failures = 0
    with _copies() as copies, ThreadPoolExecutor(PROCESSES) as pool:
        jobs = [pool.submit(_unpatched, copies, chosen)]
        jobs += [pool.submit(tried, copies, mutation) for mutation in chosen]
        width = max(len(mutation.name) for mutation in chosen)
        for label, guard, job in zip(
            ("", *(mutation.name for mutation in chosen)),
            ("without any patch the tests are green", *(mutation.guard for mutation in chosen)),
            jobs,
            strict=True,
        ):
            is_well, line = job.result()
            failures += not is_well
            print(f"{'ok  ' if is_well else 'FAIL'} {label:{width}}  {guard}\n     {'':{width}}  {line}", flush=True)
    noticed = len(chosen) - failures
    print(f"{len(chosen)} guards; " + (f"{failures} FAILED" if failures else f"all {noticed} are missed when they go"))
    return 1 if failures else 0


def tried(copies: SimpleQueue[Path], mutation: Mutation) -> tuple[bool, str]:
    """Whether a test noticed, and which one."""
    copy = copies.get()
    try:
        before = mutation.apply(copy)
    except DoesNotApply as problem:
        copies.put(copy)
        return False, f"does not apply any more: {problem}"
    try:
        code, output = _run(copy, mutation.tests)
    finally:
        mutation.path(copy).write_text(before, encoding="utf-8")
        copies.put(copy)
    failed = next((line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))), "")
    if code == 0:
        return False, f"SURVIVES {' '.join(mutation.tests)}"
    if code != _TESTS_FAILED or not failed:
        return False, f"nothing was tested, pytest ended with {code}: {_last_line(output)}"
    return True, failed.partition(" ")[2].partition(" - ")[0]


def _unpatched(copies: SimpleQueue[Path], chosen: Sequence[Mutation]) -> tuple[bool, str]:
    copy = copies.get()
    try:
        tests = sorted({test for mutation in chosen for test in mutation.tests})
        code, output = _run(copy, tests, ALL_TESTS_TIMEOUT_S)
    finally:
        copies.put(copy)
    return code == 0, _last_line(output)


def _run(copy: Path, tests: Sequence[str], timeout_s: float = TIMEOUT_S) -> tuple[int, str]:
    command = [sys.executable, "-c", _RUN, "-x", "-rfE", "--tb=no", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return -1, f"not done after {timeout_s:g} s"
    return done.returncode, done.stdout + done.stderr


def _last_line(output: str) -> str:
    return next((line for line in reversed(output.splitlines()) if line.strip()), "no output")


@contextmanager
def _copies() -> Iterator[SimpleQueue[Path]]:
    """One copy of the tree for each process; never the tree itself."""
    copies: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="situate-mutations-") as folder:
        for number in range(PROCESSES):
            copy = Path(folder) / str(number)
            copy.mkdir()
            for name in _COPIED:
                source = ROOT / name
                if source.is_dir():
                    shutil.copytree(source, copy / name, ignore=_NOT_COPIED)
                elif source.is_file():
                    shutil.copy(source, copy / name)
            copies.put(copy)
        yield copies


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
