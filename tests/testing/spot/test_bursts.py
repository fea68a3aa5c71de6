"""B1 by the real controllers on virtual time: bursts are exact by class however far watches are behind."""

from __future__ import annotations

import pytest

from situate.testing.spot.bursts import SHAPES, BurstShape, play_burst, play_bursts

TRIES = 20
QUICK = ("5",)
"""Policies that `make test` plays; the other one, and the bursts of 500, belong to `make verify`."""


@pytest.mark.rule("spot:B1", "spot:D1", "spot:P17", "spot:P20", "spot:F1")
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(each, id=each.policy, marks=() if each.policy in QUICK else pytest.mark.verify)
        for each in SHAPES
        if each.replicas < 100
    ],
)
def test_twenty_of_twenty_bursts_are_exact(shape: BurstShape) -> None:
    wrong = [each for each in play_bursts([shape], TRIES) if not each.is_exact]
    assert not wrong


@pytest.mark.rule("spot:B1")
@pytest.mark.slow
@pytest.mark.verify
def test_bursts_of_five_hundred_are_exact() -> None:
    shape = next(each for each in SHAPES if each.replicas == 500)
    wrong = [each for each in play_bursts([shape], 3) if not each.is_exact]
    assert not wrong


@pytest.mark.rule("spot:B1", "spot:F13")
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(BurstShape(10, "50%", 25, 50), id="up, by a share"),
        pytest.param(BurstShape(20, "7", 7, 40), id="up, a number", marks=pytest.mark.verify),
        pytest.param(BurstShape(50, "50%", 5, 10), id="down, by a share", marks=pytest.mark.verify),
        pytest.param(BurstShape(30, "30%", 6, 20), id="down, a little"),
    ],
)
def test_two_scalings_within_a_second_leave_no_deficit(shape: BurstShape) -> None:
    for seed in range(TRIES // 2):
        found = play_burst(shape, seed)
        assert found.deficit == 0, found
        if shape.scaled_to is not None and shape.scaled_to > shape.replicas:
            assert found.is_exact, found


def test_a_burst_depends_on_its_seed_alone() -> None:
    assert play_burst(SHAPES[1], 7) == play_burst(SHAPES[1], 7)
