from __future__ import annotations

from itertools import permutations

import pytest

from situate.vpod.policy.status import SUCCESS, Code, Status, merge_statuses

FULL = Status(Code.UNSCHEDULABLE, ("pod at full capacity",))
BROKEN = Status(Code.ERROR, ("node does not exist",))


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        pytest.param((), Code.SUCCESS, id="nothing to merge"),
        pytest.param((SUCCESS, FULL), Code.UNSCHEDULABLE, id="unschedulable over success"),
        pytest.param((SUCCESS, FULL, BROKEN), Code.ERROR, id="error over all"),
    ],
)
def test_precedence_does_not_depend_on_the_order(statuses: tuple[Status, ...], code: Code) -> None:
    assert {merge_statuses(order).code for order in permutations(statuses)} == {code}


def test_the_message_joins_the_reasons_of_all_that_failed() -> None:
    answer = merge_statuses((FULL, SUCCESS, BROKEN))
    assert answer.message == "pod at full capacity, node does not exist"
    assert (answer.is_success, answer.is_unschedulable, answer.is_error) == (False, False, True)
