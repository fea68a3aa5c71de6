"""Which pods API servers ask about: matchConditions as CEL has them (P3, P7, B42)."""

from __future__ import annotations

from typing import Any

import cel
import pytest

from situate.objects.kinds.selectors import LabelSelector, LabelSelectorRequirement
from situate.spot.admission.webhook_objects import controller_expression, gating_policy, webhook_configuration
from situate.spot.model.pods_nodes_workloads import GATE
from situate.spot.workloads.owners import KINDS


def asked(kinds: tuple[str, ...], *references: dict[str, Any]) -> bool:
    metadata: dict[str, Any] = {"name": "p"}
    if references:
        metadata["ownerReferences"] = list(references)
    expression = controller_expression(tuple(KINDS[kind] for kind in kinds))
    return bool(cel.evaluate(expression, {"object": {"metadata": metadata}}))


def by(kind: str, group: str = "apps/v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": group, "kind": kind, "name": "n", "uid": "u", "controller": True, **more}


BOTH = ("Deployment", "StatefulSet")
ALL = tuple(KINDS)


@pytest.mark.rule("spot:P3", "spot:S3", "spot:B42")
@pytest.mark.parametrize(
    ("kinds", "references", "want"),
    [
        pytest.param(BOTH, (by("ReplicaSet"),), True, id="a Deployment's"),
        pytest.param(BOTH, (by("StatefulSet"),), True, id="a StatefulSet's"),
        pytest.param(BOTH, (), False, id="nobody's"),
        pytest.param(BOTH, (by("ReplicaSet", controller=False),), False, id="owned and not controlled"),
        pytest.param(BOTH, (by("Job", "batch/v1"),), False, id="a Job's"),
        pytest.param(BOTH, (by("DaemonSet"),), False, id="a DaemonSet's"),
        pytest.param(BOTH, (by("CloneSet", "apps.kruise.io/v1alpha1"),), False, id="a CloneSet's, not configured"),
        pytest.param(ALL, (by("CloneSet", "apps.kruise.io/v1alpha1"),), True, id="a CloneSet's"),
        pytest.param(ALL, (by("ReplicaSet"),), True, id="a Rollout's or a Deployment's"),
        pytest.param(ALL, (by("StatefulSet", "apps.kruise.io/v1beta1"),), False, id="of the same name elsewhere"),
        pytest.param(("StatefulSet",), (by("ReplicaSet"),), False, id="StatefulSets alone"),
    ],
)
def test_who_is_asked_about(kinds: tuple[str, ...], references: tuple[dict[str, Any], ...], want: bool) -> None:
    assert asked(kinds, *references) is want


@pytest.mark.rule("spot:P2", "spot:P3", "spot:D9")
def test_the_webhook_never_stops_anybody() -> None:
    (webhook,) = webhook_configuration("ours", 3, kinds=[KINDS["StatefulSet"]])["webhooks"]
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"], webhook["rules"][0]["operations"]) == (
        "Ignore",
        3,
        ["CREATE"],
    )
    assert webhook["matchConditions"][0]["expression"] == controller_expression([KINDS["StatefulSet"]])


@pytest.mark.rule("spot:P7")
def test_a_policy_gates_where_strict_says_and_nowhere_else() -> None:
    team = LabelSelectorRequirement("team", "In", ("shop",))
    strict = LabelSelector(match_labels={"strict": "yes"}, match_expressions=(team,))
    policy, binding = gating_policy("ours", strict, {"app": "x"}, [KINDS["Deployment"]])
    constraints = policy["spec"]["matchConstraints"]
    assert constraints["namespaceSelector"] == {
        "matchLabels": {"strict": "yes"},
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "ours"]},
            {"key": "team", "operator": "In", "values": ["shop"]},
        ],
    }
    assert policy["spec"]["failurePolicy"] == "Ignore"
    assert GATE in policy["spec"]["mutations"][0]["applyConfiguration"]["expression"]
    assert binding["spec"]["policyName"] == policy["metadata"]["name"] == "situate-spot-ours"
