"""What tells templates apart (framework.md section 12): two pods of one template are filtered and scored alike."""

from __future__ import annotations

from typing import Any

import pytest

from situate.framework.pod.pods import PodTemplate
from situate.objects.kinds.meta import ObjectMeta, OwnerReference
from situate.objects.kinds.pods import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Toleration,
)
from situate.objects.values.quantity import parse_quantity
from tests.framework.pods import READER


def template(name: str, **spec: Any) -> PodTemplate:
    made = Pod(ObjectMeta(name=name, namespace="default", uid=name), PodSpec(containers=(Container(),), **spec))
    return READER.read(made).template


def test_pods_that_differ_in_their_names_share_a_template() -> None:
    assert template("a") is template("b")


@pytest.mark.parametrize(
    "spec",
    [
        {"host_network": True},
        {"host_users": False},
        {"tolerations": (Toleration(key="gpu"),)},
        {"node_selector": {"zone": "a"}},
        {"scheduler_name": "other"},
        {"preemption_policy": "Never"},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_what_a_plugin_reads_makes_another_template_of_another_kin(spec: dict[str, Any]) -> None:
    usual, other = template("a"), template("b", **spec)
    assert other is not usual
    assert other.equivalence_class != usual.equivalence_class


def asking(memory: str, key: str = "gpu") -> PodTemplate:
    requests = {"memory": parse_quantity(memory)}
    container = Container(resources=ResourceRequirements(requests=requests))
    wish = PreferredSchedulingTerm(1, NodeSelectorTerm((NodeSelectorRequirement("disk", "Exists"),)))
    spec = PodSpec(
        containers=(container,),
        tolerations=(Toleration(key=key),),
        node_selector={"zone": "a"},
        affinity=Affinity(NodeAffinity(preferred=(wish,))),
    )
    return READER.read(Pod(ObjectMeta(name="a", namespace="default", uid="a"), spec)).template


def test_pods_that_differ_in_what_they_request_are_of_one_kin() -> None:
    one, more = asking("1Gi"), asking("2Gi")
    assert one is not more
    assert one.equivalence_class == more.equivalence_class != asking("1Gi", key="tpu").equivalence_class


def test_the_notation_of_an_amount_makes_no_difference() -> None:
    assert asking("1Gi") is asking("1073741824")


def peers(*owners: OwnerReference, priority: int = 0) -> object:
    meta = ObjectMeta(name="a", namespace="default", uid="a", owner_references=owners)
    return READER.read(Pod(meta, PodSpec(containers=(Container(),), priority=priority))).peers


def test_pods_of_other_controllers_are_no_peers() -> None:
    """Pods are spread by the selector of their controller, if nothing else says how."""
    one, other = OwnerReference("ReplicaSet", "web", "1", "apps/v1", True), OwnerReference("Node", "n1", "2", "v1")
    assert peers() is peers() is peers(other)
    assert peers(one) is peers(one, other)
    different = [
        peers(),
        peers(one),
        peers(priority=1),
        peers(OwnerReference("ReplicaSet", "db", "3", "apps/v1", True)),
    ]
    assert len(set(map(id, different))) == len(different)
