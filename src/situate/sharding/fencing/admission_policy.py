"""The rules of `situate.sharding.fencing.admit.admit` as ValidatingAdmissionPolicies, for the API server.

There are two policies, because the API server looks up a parameter before it checks the role of the client. If a
missing parameter denied requests, it would also lock users out. Only the second policy reads the leader's Lease.
Without a Lease there is no leader, and the terms on the objects alone refuse older supervisors. For a partitioned
resource the second policy exists, but has no effect.

A server cannot see the epoch that a client's JSON patch tests; it can see incarnations. The CEL needs nothing newer
than Kubernetes 1.30. Each validation has the text of its `Refusal`, and the validations have the order of `Refusal`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from situate.objects.kinds.meta import NO_LABELS
from situate.objects.resources import ResourceType
from situate.sharding.fencing.admit import NOTES, NUMBER, TIME, Fence, Refusal
from situate.sharding.model.names import DRAIN, EPOCH, EXECUTOR, EXECUTOR_UID, TERM

POD_UID: Final = "authentication.kubernetes.io/pod-uid"
"""Key in `userInfo.extra` if the client's token is bound to a Pod."""
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_TERM_SUFFIX: Final = "-term"
"""Suffix of the name of the policy that compares terms."""
_NO_LEADER_SUFFIX: Final = ".no-leader"
"""Suffix of the name of a Lease that never exists: a policy without its parameter refuses nothing."""


class BadPolicy(ValueError):
    """The policies cannot enforce these settings; the message names the value and the allowed values."""


@dataclass(frozen=True, slots=True)
class ServiceAccounts:
    """Service accounts of supervisors and executors, as `NAMESPACE:NAME`. No account may have both roles."""

    supervisors: tuple[str, ...]
    executors: tuple[str, ...]

    def __post_init__(self) -> None:
        """Validate the accounts. Raises `BadPolicy`."""
        for role, accounts in (("supervisors", self.supervisors), ("executors", self.executors)):
            for account in accounts or ("",):
                namespace, colon, name = account.partition(":")
                if not (namespace and colon and name) or not set(account) <= _ACCOUNT_CHARACTERS:
                    raise BadPolicy(f"{role}: found {account!r}, allowed: a service account as NAMESPACE:NAME")
        if both := sorted({*self.supervisors} & {*self.executors}):
            raise BadPolicy(
                f"{both[0]} is a service account of supervisors and of executors; use an account for each role, or the "
                "API server cannot distinguish an executor's write from a supervisor's"
            )


_PREFIX: Final = "system:serviceaccount:"
_ACCOUNT_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-.:")


@dataclass(frozen=True, slots=True)
class LeaderLease:
    """The Lease of the supervisors' election.

    Leave it out for a partitioned resource: it has several Leases, and no policy can find the Lease of an object.
    """

    namespace: str
    name: str


def fencing_policies(
    name: str,
    resource: ResourceType[Any],
    accounts: ServiceAccounts,
    fence: Fence,
    lease: LeaderLease | None = None,
    labels: Mapping[str, str] = NO_LABELS,
) -> Iterator[dict[str, Any]]:
    """Yield the two policies and their bindings. `lease` None: the policies do not check the leader's term.

    Both names are always in the output, so that a new output replaces every earlier policy. A leftover policy with the
    Lease of a removed supervisor would refuse each write of its successors. Without a Lease, the binding names a Lease
    that never exists. The kind of the parameter stays. Kubernetes 1.36.3 finds no parameters of a built-in kind again,
    once the last policy with that kind is gone.
    """
    scope = _Scope(resource, accounts, labels)
    variables = _variables(fence)
    yield from scope.policy(
        name, variables, {refusal: rule for refusal, rule in _RULES.items() if refusal is not Refusal.STALE_LEADER}
    )
    yield from scope.policy(
        f"{name}{_TERM_SUFFIX}",
        variables,
        {Refusal.STALE_LEADER: _RULES[Refusal.STALE_LEADER]},
        conditions=[{"name": "of-a-supervisor", "expression": scope.is_one_of(accounts.supervisors)}],
        parameter=lease or LeaderLease("kube-system", f"{name}{_NO_LEADER_SUFFIX}"),
    )


@dataclass(frozen=True, slots=True)
class _Scope:
    resource: ResourceType[Any]
    accounts: ServiceAccounts
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)

    def policy(
        self,
        name: str,
        variables: Mapping[str, str],
        rules: Mapping[Refusal, str],
        conditions: Sequence[Mapping[str, str]] = (),
        parameter: LeaderLease | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield one policy and its binding."""
        metadata = {"name": name, "labels": dict(self.labels)}
        rule = {
            "apiGroups": [self.resource.group],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": [self.resource.plural, f"{self.resource.plural}/status"],
            "scope": "*",
        }
        of_role = {
            "supervisor": self.is_one_of(self.accounts.supervisors),
            "executor": self.is_one_of(self.accounts.executors),
        }
        spec: dict[str, Any] = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "variables": [{"name": key, "expression": text} for key, text in {**of_role, **variables}.items()],
            "validations": [_validation(refusal, text) for refusal, text in rules.items()],
        }
        binding: dict[str, Any] = {"policyName": name, "validationActions": ["Deny"]}
        if conditions:
            spec["matchConditions"] = list(conditions)
        if parameter is not None:
            spec["paramKind"] = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            reference = {"name": parameter.name, "namespace": parameter.namespace}
            binding["paramRef"] = {**reference, "parameterNotFoundAction": "Allow"}
        kind = "ValidatingAdmissionPolicy"
        yield {"apiVersion": _ADMISSION, "kind": kind, "metadata": metadata, "spec": spec}
        yield {"apiVersion": _ADMISSION, "kind": f"{kind}Binding", "metadata": metadata, "spec": binding}

    def is_one_of(self, accounts: Sequence[str]) -> str:
        """Return CEL that is true if the client is one of these service accounts."""
        return f"request.userInfo.username in [{', '.join(_string_literal(_PREFIX + each) for each in accounts)}]"


def _variables(fence: Fence) -> dict[str, str]:
    """Return CEL for the fields of `FencedFields`, before (`old_`) and after (`new_`) the request; absent is empty."""
    found: dict[str, str] = {}
    for prefix, root in (("old", "oldObject"), ("new", "object")):
        found |= {
            f"{prefix}_annotations": _map_expression(root, "annotations"),
            f"{prefix}_labels": _map_expression(root, "labels"),
            f"{prefix}_executor": _value_expression(root, fence.paths.assigned_to_path, "''"),
            f"{prefix}_completed_at": _value_expression(root, fence.paths.completed_at_path, "''"),
            f"{prefix}_successful": _value_expression(root, fence.paths.successful_path, "''"),
            f"{prefix}_status": _value_expression(root, "status", "{}"),
            f"{prefix}_uid": _entry_expression(prefix, "annotations", EXECUTOR_UID),
            f"{prefix}_epoch_text": _entry_expression(prefix, "annotations", EPOCH),
            f"{prefix}_term_text": _entry_expression(prefix, "annotations", TERM),
            f"{prefix}_epoch": _number_expression(f"variables.{prefix}_epoch_text"),
            f"{prefix}_term": _number_expression(f"variables.{prefix}_term_text"),
            f"{prefix}_label": _entry_expression(prefix, "labels", EXECUTOR),
            f"{prefix}_drain": _entry_expression(prefix, "annotations", DRAIN),
            f"{prefix}_notes": "[" + ", ".join(_entry_expression(prefix, "annotations", name) for name in NOTES) + "]",
            f"{prefix}_finalizer": (
                f"{root} != null && has({root}.metadata.finalizers) && "
                f"{_string_literal(fence.finalizer)} in {root}.metadata.finalizers"
            ),
        }
    return found | {
        "pod_uid": (
            f"has(request.userInfo.extra) && {_string_literal(POD_UID)} in request.userInfo.extra && "
            f"request.userInfo.extra[{_string_literal(POD_UID)}].size() > 0 ? "
            f"request.userInfo.extra[{_string_literal(POD_UID)}][0] : ''"
        ),
        "completed": (
            f"type(variables.old_completed_at) == string && variables.old_completed_at.matches({_string_literal(TIME)})"
        ),
        "holds": "variables.pod_uid != '' && variables.old_uid == variables.pod_uid && !variables.completed",
        "same_core": _unchanged_expression("executor", "uid", "epoch_text"),
        "same": f"variables.same_core && {_unchanged_expression('label', 'notes', 'term_text')}",
        "assigns": "variables.supervisor && !variables.same_core",
    }


_FREE_CONDITIONS: Final = "(variables.supervisor && k == 'conditions')"
_RULES: Final[Mapping[Refusal, str]] = {
    Refusal.FINAL: (
        "!variables.completed || ("
        "variables.old_completed_at == variables.new_completed_at && "
        "variables.old_successful == variables.new_successful && "
        f"variables.old_status.all(k, {_FREE_CONDITIONS} || "
        "(k in variables.new_status && variables.old_status[k] == variables.new_status[k])) && "
        f"variables.new_status.all(k, {_FREE_CONDITIONS} || k in variables.old_status))"
    ),
    Refusal.NOT_HOLDER: (
        "!variables.executor || variables.holds || ((!has(request.subResource) || request.subResource != 'status') && "
        "variables.old_status == variables.new_status)"
    ),
    Refusal.NOT_RELEASED: (
        "!variables.executor || variables.same || (variables.holds && variables.new_executor == '' && "
        "variables.new_uid == '' && variables.new_label == '' && variables.new_drain == '' && "
        "variables.old_epoch_text == variables.new_epoch_text && variables.old_term_text == variables.new_term_text && "
        "variables.old_notes == variables.new_notes)"
    ),
    Refusal.NOT_SUPERVISOR: "variables.supervisor || variables.executor || variables.same",
    Refusal.STEP: (
        "!variables.assigns || (variables.old_epoch >= 0 && variables.new_epoch == variables.old_epoch + 1)"
    ),
    Refusal.HALF: "!variables.assigns || (variables.new_executor == '') == (variables.new_uid == '')",
    Refusal.AGAIN: "!variables.assigns || variables.new_executor == '' || !variables.completed",
    Refusal.OLD_TERM: "!variables.supervisor || variables.new_term >= variables.old_term",
    Refusal.STALE_LEADER: (
        "!variables.supervisor || (variables.same && (!variables.old_finalizer || variables.new_finalizer)) || "
        "!has(params.spec) || !has(params.spec.leaseTransitions) || "
        "variables.new_term >= params.spec.leaseTransitions"
    ),
}
"""CEL per refusal: true unless the refusal applies."""


_IDENTITY_REFUSALS: Final = (Refusal.NOT_HOLDER, Refusal.NOT_RELEASED, Refusal.NOT_SUPERVISOR)
"""Refusals that depend on the client: their message names its account, and the Pod of its token."""


def _validation(refusal: Refusal, expression: str) -> dict[str, str]:
    validation = {"expression": expression, "message": str(refusal), "reason": "Forbidden"}
    if refusal in _IDENTITY_REFUSALS:
        validation["messageExpression"] = (
            f'"{refusal}; the request came from " + request.userInfo.username + (variables.pod_uid == "" ? '
            "', with a token that is bound to no Pod' : ', of the Pod with uid ' + variables.pod_uid)"
        )
    return validation


def _unchanged_expression(*names: str) -> str:
    return " && ".join(f"variables.old_{name} == variables.new_{name}" for name in names)


def _map_expression(root: str, name: str) -> str:
    return f"{root} != null && has({root}.metadata.{name}) ? {root}.metadata.{name} : {{}}"


def _entry_expression(prefix: str, of: str, key: str) -> str:
    found = f"variables.{prefix}_{of}"
    return f"({_string_literal(key)} in {found} ? {found}[{_string_literal(key)}] : '')"


def _value_expression(root: str, path: str, otherwise: str) -> str:
    """Return CEL for the value at a path. Steps are looked up as keys, because a field name may be a CEL keyword."""
    tests, here = [f"{root} != null"], root
    for step in path.split("."):
        tests.append(f"{_string_literal(step)} in {here}")
        here = f"{here}[{_string_literal(step)}]"
        tests.append(f"{here} != null")
    return f"{' && '.join(tests)} ? {here} : {otherwise}"


def _number_expression(text: str) -> str:
    """Return CEL that parses a number as `admit` does: -1 if the text is not a number."""
    return f"{text} == '' ? 0 : ({text}.matches({_string_literal(f'^{NUMBER}$')}) ? int({text}) : -1)"


def _string_literal(value: str) -> str:
    """Return a CEL string literal. The callers pass no quotes and no backslashes."""
    return f"'{value}'"
