"""Long runs: how much they play, where they go on, what they say, and that they end at the first breach."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from situate.testing.histories import soak
from situate.testing.histories.play import HistoryResult, HistoryTotals, Product, command_line

ROOT = Path(__file__).parents[3]
PREFIX = "numbers-"
BREAKS = 105
"""The seed of the only history that does not hold."""


class Numbers(msgspec.Struct, frozen=True):
    """A history whose steps are numbers; 3 is one too many."""

    seed: int
    steps: tuple[int, ...]

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)


def generate(seed: int) -> Numbers:
    return Numbers(seed, (1, 2, 3, 4) if seed == BREAKS else (1, 2, 4))


def read(data: bytes) -> Numbers:
    return msgspec.json.decode(data, type=Numbers)


def play(history: Numbers) -> HistoryResult:
    breach = "there is a 3" if 3 in history.steps else None
    return HistoryResult(breach, happened=Counter(map(str, history.steps)), writes=len(history.steps))


PRODUCT = Product("numbers", generate, read, play, {"one": ("1",), "two": ("2",)}, PREFIX)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of the checkout's own soaks is touched, and there is no commit."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def soaked(*words: str, product: Product[Numbers] = PRODUCT) -> tuple[int, list[str]]:
    result = CliRunner().invoke(command_line(product), ["soak", "--jobs", "1", *words])
    return result.exit_code, result.output.splitlines()


def counted(seeds: range) -> None:
    """As an earlier run has left it."""
    totals = HistoryTotals("unversioned")
    for seed in seeds:
        totals.add(seed, HistoryResult(happened=Counter({"1": 1, "2": 1})))
    totals.save(PREFIX)


def test_a_run_plays_so_many_and_the_next_one_goes_on() -> None:
    code, said = soaked("--histories", "3")
    assert code == 0
    assert said[0] == "commit unversioned: 0 of 3 histories so far; next seed 0"
    assert "3 histories, 9 writes" in said[1]
    code, said = soaked("--histories", "5")
    assert said[0] == "commit unversioned: 3 of 5 histories so far; next seed 3"
    assert "5 histories, 15 writes" in said[1]
    assert said[1].endswith("all 5 are played")
    assert HistoryTotals.load("unversioned", PREFIX).next_seed == 5


def test_when_all_are_played_it_ends_at_once_with_a_line() -> None:
    soaked("--histories", "3")
    code, said = soaked("--histories", "3")
    assert code == 0
    assert len(said) == 1
    assert said[0].startswith("commit unversioned: 3 histories")


def test_without_a_word_it_plays_a_hundred_thousand() -> None:
    counted(range(99_998, 100_000))
    kept = HistoryTotals.load("unversioned", PREFIX)
    kept.histories = 99_998
    kept.save(PREFIX)
    code, said = soaked()
    assert code == 0
    assert said[0] == "commit unversioned: 99,998 of 100,000 histories so far; next seed 100000"
    assert said[1].startswith("commit unversioned: 100,000 histories")


def test_its_time_ends_a_run_which_says_what_is_left() -> None:
    code, said = soaked("--minutes", "0")
    assert code == 0
    assert said[-1].endswith("100,000 are left, and the same command continues")


def test_seeds_of_ones_own_are_not_counted() -> None:
    counted(range(2))
    code, said = soaked("--from", "50", "--histories", "4")
    assert code == 0
    assert said[0] == "commit unversioned: 0 of 4 histories so far; next seed 50"
    assert "4 histories, 12 writes" in said[1]
    assert HistoryTotals.load("unversioned", PREFIX).next_seed == 2


def test_it_ends_at_the_first_breach_with_a_shorter_history_and_begins_there_again(folder: Path) -> None:
    for _ in range(2):
        code, said = soaked("--from", "103", "--histories", "9")
        assert code == 1
        assert "seed 105, step 0: there is a 3" in said
        assert said[-1] == "1 steps: python -m numbers replay .soak/numbers-seed-105.json"
    assert read((folder / ".soak" / "numbers-seed-105.json").read_bytes()).steps == (3,)


def test_several_at_once_go_in_order_and_keep_what_held_before_a_breach(folder: Path) -> None:
    """In a process of its own, for it forks others."""
    command = "from tests.testing.histories.test_soak import PRODUCT, command_line; command_line(PRODUCT)()"
    for held in (BREAKS, 0):
        done = subprocess.run(
            (sys.executable, "-c", command, "soak", "--jobs", "2"),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1, done.stderr
        assert f"{BREAKS - held} of 100,000 histories so far" in done.stdout
        assert f"seed {BREAKS}, step 0: there is a 3" in done.stdout
        assert HistoryTotals.load("unversioned", PREFIX).histories == BREAKS


def test_a_fault_that_never_happened_fails_the_run() -> None:
    product = Product("numbers", generate, read, play, {"nine": ("9",)}, PREFIX)
    assert soaked("--histories", "99", product=product)[0] == 0
    code, said = soaked("--histories", "100", product=product)
    assert (code, said[-1]) == (1, "never happened: 9")


@pytest.mark.parametrize(
    ("done", "before", "spent_s", "left_s", "said"),
    [
        pytest.param(
            3000,
            1000,
            100.0,
            float("inf"),
            "   100 s  3,000 of 100,000 x, 20.00 a second, 81 min to go",
            id="all of it",
        ),
        pytest.param(
            3000,
            1000,
            100.0,
            60.0,
            "   100 s  3,000 of 100,000 x, 20.00 a second, 81 min to go (this run: 60 s)",
            id="time",
        ),
        pytest.param(
            5,
            0,
            10.0,
            -3.0,
            "    10 s  5 of 100,000 x, 0.50 a second, 55 h 33 min to go (the time of this run is over)",
            id="over",
        ),
        pytest.param(99_999, 0, 9.0, 600.0, "     9 s  99,999 of 100,000 x, 11111.00 a second, 0 s to go", id="nearly"),
        pytest.param(5, 5, 10.0, float("inf"), "    10 s  5 of 100,000 x, 0.00 a second", id="none yet"),
    ],
)
def test_progress(done: int, before: int, spent_s: float, left_s: float, said: str) -> None:
    assert soak.progress_line("x", done, before, 100_000, spent_s, left_s) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(89.0, "89 s"), (90.0, "2 min"), (5940.0, "99 min"), (9000.0, "2 h 30 min")]
)
def test_durations(seconds: float, said: str) -> None:
    assert soak.duration_text(seconds) == said


def test_what_has_held_for_a_commit_is_not_run_again() -> None:
    def once(word: str) -> int:
        return soak.run_once_per_commit(
            "checks", (sys.executable, "-c", f"import sys; open('ran', 'a').write('x'); sys.exit({word})")
        )

    assert [once("3"), once("0"), once("3")] == [3, 0, 0]
    assert Path("ran").read_text() == "xx"


def test_a_changed_source_is_another_commit(folder: Path) -> None:
    def git(*words: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(("git", *author, *words), check=True, capture_output=True)

    git("init")
    source = folder / "src" / "code.py"
    source.parent.mkdir()
    source.write_text("1")
    git("add", "src")
    git("commit", "-m", "one")
    names = [soak.current_commit()]
    for text in ("2", "3"):
        source.write_text(text)
        names.append(soak.current_commit())
    (folder / "src" / "more.py").write_text("4")
    names.append(soak.current_commit())
    assert len(set(names)) == 4
    assert all(name.startswith(f"{names[0]}-changed-") for name in names[1:])


_OF_MAKE = ("ARGS", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL")
"""What the `make` that runs these tests tells every `make` below it."""


def soak_of_make(folder: Path, *words: str, fails: str = "nothing") -> tuple[int, list[str]]:
    """`make soak` with another `python`, which writes down how it is called."""
    python = folder / "python"
    python.write_text(f"""#!/bin/sh\necho "$*"\ncase "$*" in *'{fails}'*) exit 1;; esac\n""")
    python.chmod(0o755)
    stamp = folder / "installed"
    stamp.touch()
    command = ("make", "--no-print-directory", "-C", str(ROOT), "soak", f"BIN={folder}", f"STAMP={stamp}", *words)
    plain = {name: value for name, value in os.environ.items() if name not in _OF_MAKE}
    done = subprocess.run(command, env=plain, capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()


def soaks(said: Sequence[str]) -> list[str]:
    return [line.removeprefix("-m ") for line in said if " soak" in line and "pytest" not in line]


def test_make_passes_limits_to_every_soak(folder: Path) -> None:
    limits = "--minutes 1 --histories 20"
    code, said = soak_of_make(folder, f"ARGS={limits}")
    assert code == 0
    ours = [f"situate.testing.{name}" for name in ("vpod", "spot", "sharding", "vm.ledger", "vm", "scheduler")]
    assert soaks(said) == [f"{module} soak {limits}" for module in (*ours, "tests.e2e.differential")]


def test_make_stops_behind_the_first_soak_that_has_found_something(folder: Path) -> None:
    code, said = soak_of_make(folder, fails="testing.sharding soak")
    assert code != 0
    assert soaks(said)[-1] == "situate.testing.sharding soak"
