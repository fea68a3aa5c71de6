from __future__ import annotations

from situate.framework.pod.interning import SharedParts
from situate.objects.kinds.meta import Condition, ObjectMeta
from situate.objects.kinds.nodes import Node, NodeSpec, NodeStatus, Taint
from situate.objects.values.quantity import parse_quantity


def a_node(name: str, cpu: str = "4", *, ready: str = "True") -> Node:
    """With objects of its own for everything."""
    amounts = {"cpu": parse_quantity(cpu), "memory": parse_quantity("8Gi")}
    return Node(
        ObjectMeta(name=name, labels={"zone": f"a {cpu}"[:1], "kubernetes.io/hostname": f"{name} "[:-1]}),
        NodeSpec(taints=(Taint("team", "a", "NoSchedule"),)),
        NodeStatus(capacity=dict(amounts), allocatable=amounts, conditions=(Condition("Ready", ready),)),
    )


def test_a_node_is_equal_to_what_it_was() -> None:
    shared = SharedParts()
    for node in (a_node("one"), a_node("other"), a_node("one", "8"), a_node("one", ready="Unknown"), Node()):
        assert shared.share_parts(node) == node


def test_nodes_hold_what_they_have_in_common_once() -> None:
    shared = SharedParts()
    one, other, larger = (
        shared.share_parts(a_node("one")),
        shared.share_parts(a_node("other")),
        shared.share_parts(a_node("larger", "8")),
    )
    assert one.spec is other.spec is larger.spec
    assert one.status.conditions is other.status.conditions
    assert one.status.capacity is one.status.allocatable is other.status.capacity
    assert one.metadata.labels["zone"] is other.metadata.labels["zone"]
    assert one.metadata.labels["kubernetes.io/hostname"] is one.metadata.name
    assert larger.status.capacity is not one.status.capacity
