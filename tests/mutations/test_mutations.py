from __future__ import annotations

from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.mutations.__main__ import ROOT, main, tried
from tests.mutations.guards import GUARDS
from tests.mutations.patch import DoesNotApply, Mutation

CODE = "LIMIT = 3\n\n\ndef capped(value):\n    return min(value, LIMIT)\n"
TESTS = """
from situate.code import capped

def test_small():
    assert capped(2) == 2

def test_large():
    assert capped(9) == 3
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package with one guard, and its tests."""
    package = tmp_path / "src" / "situate"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "code.py").write_text(CODE)
    (tmp_path / "test_code.py").write_text(TESTS)
    return tmp_path


def mutation(before: str, after: str, *tests: str) -> Mutation:
    return Mutation("cap", "a cap", "code.py", before, after, tests)


def outcome(tree: Path, subject: Mutation) -> tuple[bool, str]:
    copies: SimpleQueue[Path] = SimpleQueue()
    copies.put(tree)
    answer = tried(copies, subject)
    assert copies.get_nowait() == tree
    assert (tree / "src" / "situate" / "code.py").read_text() == CODE
    return answer


def test_the_first_test_that_fails_is_named(tree: Path) -> None:
    found = outcome(tree, mutation("min(value, LIMIT)", "value", "test_code.py"))
    assert found == (True, "test_code.py::test_large")


def test_a_mutation_that_no_test_notices_survives(tree: Path) -> None:
    well, line = outcome(tree, mutation("min(value, LIMIT)", "value", "test_code.py::test_small"))
    assert (well, line) == (False, "SURVIVES test_code.py::test_small")


def test_tests_that_are_not_there_notice_nothing(tree: Path) -> None:
    well, line = outcome(tree, mutation("min(value, LIMIT)", "value", "test_gone.py"))
    assert (well, line.startswith("nothing was tested")) == (False, True)


def test_code_that_cannot_be_imported_is_no_test(tree: Path) -> None:
    well, line = outcome(tree, mutation("LIMIT = 3", "LIMIT = ", "test_code.py"))
    assert (well, line.startswith("nothing was tested")) == (False, True)


@pytest.mark.parametrize(("before", "times"), [("max(", 0), ("LIMIT", 2)])
def test_a_patch_that_does_not_apply_says_so(tree: Path, before: str, times: int) -> None:
    well, line = outcome(tree, mutation(before, "", "test_code.py"))
    assert not well
    assert line == f"does not apply any more: code.py contains the text to replace {times} times, needed: once"


@pytest.mark.parametrize("guard", GUARDS, ids=[guard.name for guard in GUARDS])
def test_every_patch_applies_to_the_code_as_it_is(guard: Mutation, tmp_path: Path) -> None:
    copy = guard.path(tmp_path)
    copy.parent.mkdir(parents=True)
    copy.write_text(guard.path(ROOT).read_text(encoding="utf-8"), encoding="utf-8")
    try:
        guard.apply(tmp_path)
    except DoesNotApply as problem:
        pytest.fail(f"{guard.name}: {problem}; let the patch in tests/mutations/guards.py follow the code")
    compile(copy.read_text(encoding="utf-8"), guard.file, "exec")


def test_names_are_there_once_and_others_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert len({guard.name for guard in GUARDS}) == len(GUARDS)
    assert main(["no-such"]) == 2
    assert "no such mutation: no-such; there are trim, " in capsys.readouterr().out
