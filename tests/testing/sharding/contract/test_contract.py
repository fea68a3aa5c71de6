"""The checker of the executor's contract, as its users run it: sound executors pass, and each defect is named."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from situate.testing.sharding.contract.rules import RULES

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "reference" / "executor-contract.md"
EXECUTORS = {
    "ours": 15,
    "plain": 15,
    "plain no-renewal": 6,
    "plain no-fence": 6,
    "plain no-ack": 6,
    "plain works-on": 6,
}
"""Command, and seconds of the lease: long where a busy machine must not make a sound one late."""


@dataclass(frozen=True)
class Checked:
    code: int
    said: str

    @property
    def broken(self) -> set[str]:
        return set(re.findall(r"^BROKEN (\S+)", self.said, re.MULTILINE))

    @property
    def kept(self) -> set[str]:
        return set(re.findall(r"^kept +(\S+)", self.said, re.MULTILINE))


def checked(command: str, lease_s: float) -> Checked:
    program = [sys.executable, "-m", "situate.testing.sharding.contract", "--lease-duration", f"{lease_s:g}"]
    done = subprocess.run(
        [*program, "--command", command], cwd=ROOT, capture_output=True, text=True, timeout=900, check=False
    )
    return Checked(done.returncode, done.stdout + done.stderr)


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, Checked]]:
    """All at once, for most of it is waiting."""

    def one(name: str) -> Checked:
        return checked(f"{sys.executable} -m tests.testing.sharding.contract.{name}", EXECUTORS[name])

    with ThreadPoolExecutor(len(EXECUTORS)) as pool:
        yield dict(zip(EXECUTORS, pool.map(one, EXECUTORS), strict=True))


@pytest.mark.verify
@pytest.mark.rule("sharding:B17")
@pytest.mark.xdist_group("executors")
@pytest.mark.parametrize("name", ["ours", "plain"])
def test_a_sound_executor_keeps_every_rule(outcomes: dict[str, Checked], name: str) -> None:
    found = outcomes[name]
    assert (found.code, found.broken, found.kept) == (0, set(), set(RULES)), found.said


@pytest.mark.verify
@pytest.mark.rule("sharding:B17")
@pytest.mark.xdist_group("executors")
@pytest.mark.parametrize(
    ("defect", "rules"),
    [
        pytest.param("no-renewal", {"renewal"}, id="does not renew"),
        pytest.param("no-fence", {"late", "fenced"}, id="writes under an old epoch"),
        pytest.param("no-ack", {"ack"}, id="never acks"),
        pytest.param("works-on", {"revoke", "fenced"}, id="works after it was revoked"),
    ],
)
def test_each_defect_is_named(outcomes: dict[str, Checked], defect: str, rules: set[str]) -> None:
    found = outcomes[f"plain {defect}"]
    assert found.code == 1, found.said
    assert rules <= found.broken, found.said


@pytest.mark.rule("sharding:B17")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param("no-such-program-anywhere", "the command cannot be started", id="no such program"),
        pytest.param(f"{sys.executable} -c pass", "the executor has ended", id="ends at once"),
    ],
)
def test_what_cannot_be_tried_is_said_and_is_no_pass(command: str, said: str) -> None:
    found = checked(command, 6)
    assert (found.code, found.kept) == (2, set())
    assert said in found.said
    assert f"not tested: {', '.join(RULES)}" in found.said


@pytest.mark.rule("sharding:B17")
def test_the_page_names_every_rule_as_the_checker_does() -> None:
    page = PAGE.read_text()
    assert [*re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE)] == [*RULES]
    assert all(f"| {says} |" in page for says in RULES.values())
