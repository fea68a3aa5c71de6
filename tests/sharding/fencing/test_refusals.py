"""Refusals of the fencing policies, as API servers word them."""

from __future__ import annotations

import pytest

from situate.sharding.fencing.admit import Refusal
from situate.sharding.fencing.refusals import FenceRefusal, fence_refusal

TERM = "situate-fencing.reports.batch.example.com-term"


@pytest.mark.finding("N21")
@pytest.mark.parametrize("refusal", [each for each in Refusal if each is not Refusal.EPOCH])
def test_a_refusal_is_read_from_the_answer(refusal: Refusal) -> None:
    said = (
        f'cannot patch reports one: 403 Forbidden: reports.batch.example.com "one" is forbidden: '
        f"ValidatingAdmissionPolicy '{TERM}' with binding '{TERM}' denied request: {refusal}; change the object"
    )
    found = fence_refusal(said)
    assert found == FenceRefusal(TERM, refusal)
    assert TERM in str(found) or refusal is Refusal.OLD_TERM
    assert found.next_step


@pytest.mark.finding("N21")
def test_the_policy_of_an_earlier_output_is_named_with_the_command_that_removes_it() -> None:
    step = FenceRefusal(TERM, Refusal.STALE_LEADER).next_step
    assert "situate manifests sharding" in step
    assert f"kubectl delete validatingadmissionpolicy,validatingadmissionpolicybinding {TERM}" in step


@pytest.mark.finding("N21")
@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (
            "an executor may change of the assignment only this: release an object that is assigned to it and not "
            "completed, by removing executor, incarnation, label and drain request, and nothing else",
            Refusal.NOT_RELEASED,
        ),
        (
            "the assignment is the supervisor's: leave executor, label, epoch, term and notes as they are",
            Refusal.NOT_SUPERVISOR,
        ),
        ("whoever assigns or revokes writes the stored epoch plus one", Refusal.STEP),
        ("the write is of an older term than the stored one", Refusal.OLD_TERM),
        ("the write is of an older term than the leader's", Refusal.STALE_LEADER),
    ],
)
def test_a_policy_that_the_former_version_printed_is_recognised(text: str, refusal: Refusal) -> None:
    said = f"ValidatingAdmissionPolicy '{TERM}' with binding '{TERM}' denied request: {text}"
    assert fence_refusal(said) == FenceRefusal(TERM, refusal)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("409 Conflict: the object has been modified", id="another answer"),
        pytest.param(
            "ValidatingAdmissionPolicy 'quota' with binding 'b' denied request: too many", id="another policy"
        ),
    ],
)
def test_other_answers_are_no_refusal_of_the_fence(said: str) -> None:
    assert fence_refusal(said) is None
