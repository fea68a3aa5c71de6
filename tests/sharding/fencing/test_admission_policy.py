"""The policy for API servers is `admit`, said in CEL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from situate.cluster.cel.policies import evaluate_policy
from situate.cluster.kinds.defaults import apply_defaults
from situate.cluster.kinds.validation import validate_create
from situate.objects.resources import unstructured
from situate.sharding.fencing.admission_policy import POD_UID, BadPolicy, LeaderLease, ServiceAccounts, fencing_policies
from situate.sharding.fencing.admit import Fence, Refusal, Role, Writer, WriteRequest, admit
from situate.sharding.model.field_paths import Content, FieldPaths
from tests.sharding.fencing.fenced_writes import (
    ACCOUNTS,
    FENCE,
    HOLDER_A,
    SUPERVISOR,
    USER,
    assigned,
    user_info,
    work,
    writes,
)
from tests.sharding.fencing.test_admit import ROWS

IDENTITY = "; the request came from "
"""What follows in a message is no part of the refusal."""
REPORTS = unstructured("batch.example.com", "v1", "Report", "reports")
LEASE = LeaderLease("shop", "reports-supervisor")


def policies(fence: Fence = FENCE) -> list[dict[str, Any]]:
    made = [*fencing_policies("reports-fencing", REPORTS, ACCOUNTS, fence, LEASE)]
    for each in made:
        apply_defaults(each)
    return made


POLICIES = [each for each in policies() if each["kind"] == "ValidatingAdmissionPolicy"]


def judged(stored: Content | None, request: WriteRequest, made: list[dict[str, Any]] = POLICIES) -> str | None:
    """The first refusal of a server that has the policies."""
    asked: dict[str, Any] = {"operation": "UPDATE" if stored else "CREATE", "userInfo": user_info(request.writer)}
    if request.subresource:
        asked["subResource"] = request.subresource
    variables = {
        "object": request.object,
        "oldObject": stored,
        "request": asked,
        "params": {"spec": {"leaseTransitions": request.leader_term}},
    }
    found = [violation.message for each in made for violation in evaluate_policy(each, "b", variables)]
    return found[0].partition(IDENTITY)[0] if found else None


def test_a_server_takes_the_policies() -> None:
    assert [[str(error) for error in validate_create(each)] for each in policies()] == [[], [], [], []]


@pytest.mark.rule("sharding:S2", "sharding:S3", "sharding:S6", "sharding:S10")
@pytest.mark.parametrize(("stored", "request_", "want"), ROWS)
def test_the_policy_says_what_the_table_says(
    stored: Content | None, request_: WriteRequest, want: Refusal | None
) -> None:
    """But for the epoch that a client's patch was made under, which no server sees."""
    seen = replace(request_, epoch=None)
    assert judged(stored, seen) == admit(stored, seen, FENCE)
    if want is not Refusal.EPOCH:
        assert judged(stored, seen) == want


@pytest.mark.rule("sharding:S2", "sharding:S3", "sharding:S6", "sharding:S10")
@given(writes())
@settings(max_examples=120)
def test_the_policy_says_what_admit_says(write: tuple[Content | None, WriteRequest]) -> None:
    stored, request = write
    assert judged(stored, request) == admit(stored, request, FENCE)


@pytest.mark.finding("N26")
def test_a_refusal_names_the_identity_that_the_server_saw() -> None:
    stored = assigned(work(), HOLDER_A)
    unbound = user_info(Writer(Role.EXECUTOR))
    bound = unbound | {"extra": {POD_UID: ["uid-b"]}}
    for info, seen in ((unbound, ", with a token that is bound to no Pod"), (bound, ", of the Pod with uid uid-b")):
        changed = {**stored, "status": {"progress": 1}}
        asked = {"operation": "UPDATE", "userInfo": info, "subResource": "status"}
        variables = {"object": changed, "oldObject": stored, "request": asked, "params": {"spec": {}}}
        (found,) = evaluate_policy(POLICIES[0], "b", variables)
        assert found.message == f"{Refusal.NOT_HOLDER}{IDENTITY}{info['username']}{seen}"


def test_other_paths() -> None:
    """Also such as are words of CEL, and such as do not lie in the status."""
    paths = FieldPaths("spec.in.assigned-to", "spec.done.at", "spec.done.well")
    fence = Fence(paths, "batch.example.com/keep")
    made = [each for each in policies(fence) if each["kind"] == "ValidatingAdmissionPolicy"]
    bare: Content = {"metadata": {"name": "r"}, "spec": {}}
    taken = WriteRequest(USER, paths.assign_to(bare, "a"))
    assert judged(bare, taken, made) == admit(bare, taken, fence) == Refusal.NOT_SUPERVISOR
    done: Content = {"metadata": {"name": "r"}, "spec": {"done": {"at": "2026-01-01T00:00:00Z", "well": True}}}
    undone = WriteRequest(SUPERVISOR, {**done, "spec": {}})
    assert judged(done, undone, made) == admit(done, undone, fence) == Refusal.FINAL


def test_without_a_lease_of_the_leader_nobody_is_judged_by_it() -> None:
    """API servers look for parameters before they ask whom a policy concerns: denying would lock users out."""
    first, _, second, binding = policies()
    assert "paramKind" not in first["spec"]
    assert binding["spec"]["paramRef"]["parameterNotFoundAction"] == "Allow"
    asked = {"operation": "UPDATE", "userInfo": user_info(USER)}
    edited = {"object": work(), "oldObject": work(), "request": asked, "params": None}
    assert evaluate_policy(second, "b", edited) == [], "the policy does not concern users"
    older = WriteRequest(SUPERVISOR, assigned(assigned(work(), HOLDER_A, 2), HOLDER_A, 1))
    assert judged(assigned(work(), HOLDER_A, 2), older, POLICIES[:1]) == Refusal.OLD_TERM, "the object's counts"


@pytest.mark.finding("N21")
@pytest.mark.rule("sharding:S10", "sharding:K10")
def test_an_output_with_a_lease_and_one_without_have_the_same_names() -> None:
    """Applied one after the other, the second replaces every policy of the first."""
    with_one = [*fencing_policies("reports-fencing", REPORTS, ACCOUNTS, FENCE, LEASE)]
    without = [*fencing_policies("reports-fencing", REPORTS, ACCOUNTS, FENCE)]
    assert without[:3] == with_one[:3]
    assert without[3]["metadata"] == with_one[3]["metadata"]
    assert without[3]["spec"]["paramRef"] == {
        "namespace": "kube-system",
        "name": "reports-fencing.no-leader",
        "parameterNotFoundAction": "Allow",
    }
    assert [str(error) for each in without for error in validate_create(each)] == []


@pytest.mark.parametrize(
    ("supervisors", "executors", "said"),
    [
        pytest.param(("shop:one",), ("shop:one",), "use an account for each role", id="one account for both"),
        pytest.param((), ("shop:b",), "supervisors: found '', allowed: a service account", id="none"),
        pytest.param(
            ("a",), ("shop:b",), "supervisors: found 'a', allowed: a service account", id="without a namespace"
        ),
        pytest.param(("a:b",), ("a:b'] || true || ['",), "allowed: a service account", id="CEL"),
    ],
)
def test_accounts_that_cannot_be_told_apart(
    supervisors: tuple[str, ...], executors: tuple[str, ...], said: str
) -> None:
    with pytest.raises(BadPolicy, match=said):
        ServiceAccounts(supervisors, executors)
