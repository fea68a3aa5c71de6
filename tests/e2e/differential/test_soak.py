"""Where a soak beside the real kube-scheduler ends, and what it says of how far it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.e2e.differential.__main__ import PREFIX, Goal, Totals, app
from tests.e2e.differential.cases import Played


def compared(clusters: int) -> Totals:
    totals = Totals("unversioned")
    for seed in range(clusters):
        totals.add(seed, Played(Counter({"pods": 40})))
    return totals


@pytest.mark.parametrize("limits", [("--pods", "80"), ("--histories", "2"), ("--minutes", "1", "--histories", "1")])
def test_when_all_is_compared_it_ends_at_once_with_a_line(
    limits: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a kube-scheduler started."""
    monkeypatch.chdir(tmp_path)
    compared(2).save(PREFIX)
    result = CliRunner().invoke(app, ["soak", *limits])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) == 1
    assert result.output.startswith("commit unversioned: 80 of ")
    assert result.output.endswith("all that was asked for\n")


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        pytest.param(Goal(20_000, None), "80 of 20,000 pods, 4.00 a second, 83 min to go", id="pods"),
        pytest.param(Goal(20_000, 20), "2 of 20 clusters, 0.10 a second, 3 min to go", id="clusters are nearer"),
        pytest.param(Goal(90, 20), "80 of 90 pods, 4.00 a second, 2 s to go", id="pods are nearer"),
    ],
)
def test_progress_is_told_of_what_ends_first(goal: Goal, said: str) -> None:
    assert goal.progress(compared(2), compared(1), 10.0, float("inf")) == f"    10 s  {said}"
