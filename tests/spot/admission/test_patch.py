"""The patch of admission: what it writes, and that it never widens where a pod may run (3.6)."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.framework.pod.node_selection import Term
from situate.objects.kinds.pods import NodeSelectorTerm, Toleration
from situate.plugins.taint_toleration import untolerated_taint
from situate.spot.admission.patch import DecisionMarks, PlacementTerms, class_patch
from situate.spot.admission.patch_check import DoesNotApply, apply_operations, patch_faults
from situate.spot.model.pods_nodes_workloads import Capacity, NodeFacts
from situate.spot.nodes.known_signals import SIGNALS, on_demand_requirement, pool_tolerations, spot_requirement
from situate.spot.workloads.constraints import capacity_constraint, required_terms
from tests.spot.builders import OD, SPOT, node

Json = Any
CAPACITY = "node.kubernetes.io/capacity"
PLACING = PlacementTerms(on_demand_requirement(SIGNALS), spot_requirement(SIGNALS), pool_tolerations(SIGNALS))
MARKS = DecisionMarks('{"token":"t"}', 200)
NODES = {
    name: node(labels=labels, taints=taints)
    for name, labels, taints in (
        ("od-a", {CAPACITY: "on-demand", "zone": "a"}, []),
        ("od-b", {CAPACITY: "on-demand", "zone": "b", "disk": "ssd"}, []),
        ("sp-a", {CAPACITY: "spot", "zone": "a", "disk": "ssd"}, []),
        ("sp-b", {CAPACITY: "spot", "zone": "b"}, []),
        ("sp-t", {CAPACITY: "spot", "zone": "a", "kubernetes.azure.com/scalesetpriority": "spot"},
         [{"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}]),
        ("bare", {"zone": "a"}, []),
        ("mine", {CAPACITY: "on-demand", "zone": "a"}, [{"key": "team", "value": "x", "effect": "NoExecute"}]),
    )
}  # fmt: skip


def required(*terms: Json) -> Json:
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": list(terms)}}}}  # fmt: skip


def said(key: str, operator: str = "In", *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def feasible(spec: Json) -> set[str]:
    tolerations = tuple(msgspec.convert(each, Toleration) for each in spec.get("tolerations") or ())
    terms = required_terms(spec)
    found = set()
    for name, each in NODES.items():
        labels = each.metadata.labels
        chosen = all(labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items())
        wanted = terms is None or any(
            Term.from_selector_term(msgspec.convert(t, NodeSelectorTerm)).matches(labels, name) for t in terms
        )
        if chosen and wanted and untolerated_taint(each.spec.taints, tolerations) is None:
            found.add(name)
    return found


def patched(spec: Json, capacity: Capacity, **more: Any) -> Json:
    pod = {"metadata": {"name": "p"}, "spec": spec}
    operations = class_patch(pod, capacity, PLACING, MARKS, **more)
    assert all(operation["op"] == "add" for operation in operations)
    after = apply_operations(pod, operations)
    assert not list(patch_faults(pod, after))
    assert apply_operations(after, class_patch(after, capacity, PLACING, MARKS, **more)) == after, "twice is once"
    return after


@pytest.mark.rule("spot:P23", "spot:P26", "spot:P27", "spot:D8")
def test_the_example_of_the_reference() -> None:
    zone = [{"matchExpressions": [said("zone", "In", each)]} for each in ("a", "b")]
    pod = {"metadata": {"labels": {"app": "web"}}, "spec": required(*zone)}
    base = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"
    expression = said(CAPACITY, "In", "on-demand")
    assert class_patch(pod, OD, PLACING, MARKS) == [
        {"op": "add", "path": f"{base}/0/matchExpressions/-", "value": expression},
        {"op": "add", "path": f"{base}/1/matchExpressions/-", "value": expression},
        {"op": "add", "path": "/metadata/labels/spot.situate.dev~1class", "value": "on-demand"},
        {"op": "add", "path": "/metadata/annotations", "value": {
            "spot.situate.dev/decision": '{"token":"t"}',
            "controller.kubernetes.io/pod-deletion-cost": "200"}},
    ]  # fmt: skip


@pytest.mark.rule("spot:P23", "spot:S13")
@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, {"od-a", "od-b"}, id="nothing asked"),
        pytest.param(required({}), set(), id="an empty term matches nothing and stays so"),
        pytest.param(required({"matchFields": [said("metadata.name", "In", "od-a")]}), {"od-a"}, id="fields only"),
        pytest.param(required({"matchExpressions": []}, {"matchExpressions": [said("disk", "Exists")]}), {"od-b"},
                     id="beside an empty one"),
        pytest.param({"affinity": {"podAffinity": {}}}, {"od-a", "od-b"}, id="another kind of affinity"),
        pytest.param({"affinity": None}, {"od-a", "od-b"}, id="null"),
        pytest.param({"nodeSelector": {"zone": "b"}}, {"od-b"}, id="the user's selector stays"),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, {"od-a", "od-b", "mine"}, id="tolerates all"),
    ],
)  # fmt: skip
def test_on_demand_is_anded_into_whatever_is_there(spec: Json, want: set[str]) -> None:
    assert feasible(patched(spec, OD)["spec"]) == want


@pytest.mark.rule("spot:P24", "spot:B22", "spot:B47")
def test_spot_is_a_wish_beside_the_users_own() -> None:
    own = {"weight": 3, "preference": {"matchExpressions": [said("zone", "In", "a")]}}
    spec = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [own]}}}
    placing = PlacementTerms(
        PLACING.on_demand,
        PLACING.spot,
        avoided_hosts=("n2", "n1"),
        crowded_pools=(("node.kubernetes.io/instance-type", ("m5",)),),
    )
    pod = {"metadata": {}, "spec": spec}
    after = apply_operations(pod, class_patch(pod, SPOT, placing, MARKS))
    wishes = after["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert wishes == [
        own,
        {"weight": 100, "preference": {"matchExpressions": [said(CAPACITY, "In", "spot")]}},
        {"weight": 100, "preference": {"matchExpressions": [said("kubernetes.io/hostname", "NotIn", "n1", "n2")]}},
        {"weight": 50, "preference": {"matchExpressions": [said("node.kubernetes.io/instance-type", "NotIn", "m5")]}},
    ]
    later = PlacementTerms(PLACING.on_demand, PLACING.spot, avoided_hosts=("n3",))
    assert apply_operations(after, class_patch(after, SPOT, later, MARKS)) == after, (
        "other nodes end: said once is enough"
    )


@pytest.mark.rule("spot:P24", "spot:P26", "spot:I9", "spot:S14")
def test_only_spot_pods_tolerate_spot_pools() -> None:
    assert "tolerations" not in patched({}, OD)["spec"]
    assert "sp-t" in feasible(patched({}, SPOT)["spec"])
    for there in ({"operator": "Exists"}, {"key": "kubernetes.azure.com/scalesetpriority", "operator": "Exists"}):
        after = patched({"tolerations": [there]}, SPOT)["spec"]["tolerations"]
        assert [each.get("key") for each in after].count("kubernetes.azure.com/scalesetpriority") <= 1
        assert after[0] == there


def default_tolerations() -> list[Json]:
    return [
        {"key": f"node.kubernetes.io/{each}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for each in ("not-ready", "unreachable")
    ]


@pytest.mark.rule("spot:B25", "spot:D16", "spot:P26")
def test_the_defaults_of_a_lost_node_are_shortened_for_spot_pods_only() -> None:
    def seconds(capacity: Capacity, given: list[Json], template: frozenset[str] = frozenset()) -> list[int]:
        after = patched({"tolerations": given}, capacity, template_tolerates=template)
        return [each["tolerationSeconds"] for each in after["spec"]["tolerations"] if "tolerationSeconds" in each]

    assert seconds(SPOT, default_tolerations()) == [20, 20]
    assert seconds(OD, default_tolerations()) == [300, 300]
    assert seconds(SPOT, [{**default_tolerations()[0], "tolerationSeconds": 60}]) == [60], "the user's"
    assert seconds(SPOT, default_tolerations(), frozenset({"node.kubernetes.io/not-ready"})) == [300, 20]
    assert seconds(SPOT, default_tolerations(), frozenset({""})) == [300, 300]
    pod: Json = {"metadata": {}, "spec": {}}
    assert "unreachable" not in str(class_patch(pod, SPOT, PLACING, MARKS)), "never added"


@pytest.mark.rule("spot:P27", "spot:P31")
def test_a_deletion_cost_of_the_users_stays() -> None:
    annotations = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
    pod = {"metadata": {"annotations": annotations}, "spec": {}}
    after = apply_operations(pod, class_patch(pod, OD, PLACING, MARKS))
    assert after["metadata"]["annotations"] == {**annotations, "spot.situate.dev/decision": '{"token":"t"}'}


expression = st.sampled_from(
    [said("zone", "In", "a"), said("zone", "NotIn", "a"), said("disk", "Exists"), said("disk", "DoesNotExist"),
     said(CAPACITY, "In", "spot"), said(CAPACITY, "NotIn", "spot"), said(CAPACITY, "In", "spot", "on-demand"),
     said(CAPACITY, "Exists"), said("zone", "Gt", "3"), said("kubernetes.azure.com/scalesetpriority", "DoesNotExist")]
)  # fmt: skip
term = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(expression, max_size=3),
        "matchFields": st.just([said("metadata.name", "In", "sp-a")]),
    },
)
toleration = st.sampled_from(
    [
        {"operator": "Exists"},
        {"key": "team", "operator": "Exists"},
        {"key": "team", "value": "x"},
        *default_tolerations(),
    ]
)
specs = st.builds(
    lambda terms, selector, tolerations: {
        **(required(*terms) if terms is not None else {}),
        **({"nodeSelector": selector} if selector else {}),
        **({"tolerations": tolerations} if tolerations else {}),
    },
    st.none() | st.lists(term, max_size=3),
    st.sampled_from([{}, {"zone": "a"}, {CAPACITY: "spot"}, {CAPACITY: "on-demand"}, {"zone": "a", "disk": "ssd"}]),
    st.lists(toleration, max_size=3, unique_by=str),
)


@pytest.mark.rule("spot:B7", "spot:I7", "spot:I9", "spot:P23", "spot:P24", "spot:P26", "spot:S15", "spot:S24")
@settings(max_examples=max(600, settings().max_examples))
@given(specs, st.sampled_from([OD, SPOT]))
def test_feasible_nodes_narrow_to_the_class_and_widen_by_tolerated_pools_alone(spec: Json, capacity: Capacity) -> None:
    before, given = feasible(spec), copy.deepcopy(spec)
    after = feasible(patched(spec, capacity)["spec"])
    assert spec == given, "what is given stays as it is"
    if capacity is OD:
        assert after == {name for name in before if NODES[name].metadata.labels.get(CAPACITY) == "on-demand"}
    else:
        tolerant = {
            **spec,
            "tolerations": [*spec.get("tolerations", []), *map(msgspec.to_builtins, PLACING.tolerations)],
        }
        assert before <= after == feasible(tolerant)


@pytest.mark.rule("spot:P25", "spot:B8")
@given(specs)
def test_pinned_is_what_the_nodes_say(spec: Json) -> None:
    own = capacity_constraint(spec, SIGNALS)
    kinds = {
        NODES[name].metadata.labels.get(CAPACITY)
        for name in feasible({**spec, "tolerations": [{"operator": "Exists"}]})
    }
    if own.capacity is not None:
        other = "spot" if own.capacity is OD else "on-demand"
        assert other not in kinds, f"pinned to {own.capacity}, yet {kinds}"
    if not own.placeable:
        assert not kinds & {"spot", "on-demand"}
    assert bool(own.field) == (own.capacity is not None or not own.placeable)


@pytest.mark.rule("spot:P25", "spot:B8")
@pytest.mark.parametrize(
    ("spec", "capacity", "placeable", "field"),
    [
        ({"nodeSelector": {CAPACITY: "spot"}}, SPOT, True, "spec.nodeSelector"),
        ({"nodeSelector": {"karpenter.sh/capacity-type": "spot"}}, SPOT, True, "spec.nodeSelector"),
        ({"nodeSelector": {CAPACITY: "cheap"}}, None, False, "spec.nodeSelector"),
        (required({"matchExpressions": [said(CAPACITY, "NotIn", "spot")]}), OD, True,
         "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"),
        (required({"matchExpressions": [said("karpenter.sh/capacity-type", "NotIn", "on-demand")]}), None, True, ""),
        (required({"matchExpressions": [said(CAPACITY, "In", "spot")]},
                  {"matchExpressions": [said(CAPACITY, "In", "on-demand")]}), None, True, ""),
        ({"nodeSelector": {"zone": "z"}}, None, True, ""),
        ({"nodeSelector": {"node.kubernetes.io/lifecycle": "normal"}}, None, True, ""),
        ({"nodeSelector": {"node.kubernetes.io/lifecycle": "normal", CAPACITY: "spot"}}, SPOT, True,
         "spec.nodeSelector"),
        ({"affinity": "nonsense", "nodeSelector": 3}, None, True, ""),
    ],
)  # fmt: skip
def test_what_users_pin(spec: Json, capacity: Capacity | None, placeable: bool, field: str) -> None:
    own = capacity_constraint(spec, SIGNALS)
    assert (own.capacity, own.placeable, own.field) == (capacity, placeable, field)


@pytest.mark.rule("spot:P25", "spot:I10")
@pytest.mark.parametrize(
    ("named", "capacity", "placeable"),
    [
        (("cheap",), SPOT, True),
        (("dear",), OD, True),
        (("dear", "cheap"), None, True),
        (("cheap", "not there yet"), None, True),
        (("bare",), SPOT, True),
        ((), None, False),
    ],
)
def test_nodes_that_are_named_are_what_they_are(
    named: tuple[str, ...], capacity: Capacity | None, placeable: bool
) -> None:
    """On demand as well such a pod would never start: no node of that name is, or will be."""
    nodes = {name: NodeFacts(name, of) for name, of in (("cheap", SPOT), ("dear", OD), ("bare", Capacity.UNKNOWN))}
    by_field = required({"matchFields": [said("metadata.name", "In", *named)]})
    by_label = required({"matchExpressions": [said("kubernetes.io/hostname", "In", *named)]})
    for spec in (by_field, by_label):
        own = capacity_constraint(spec, SIGNALS, nodes)
        assert (own.capacity, own.placeable) == (capacity, placeable)
    both = {**by_field, "nodeSelector": {"kubernetes.io/hostname": "cheap"}}
    assert capacity_constraint(both, SIGNALS, nodes).capacity in (None, SPOT)


@pytest.mark.rule("spot:P2")
def test_a_patch_that_has_no_place_is_noticed_before_it_is_sent() -> None:
    with pytest.raises(DoesNotApply, match="/spec/a/0"):
        apply_operations({"spec": {}}, [{"op": "add", "path": "/spec/a/0", "value": 1}])
    with pytest.raises(DoesNotApply, match="entry '7' not found"):
        apply_operations({"spec": {"a": [1]}}, [{"op": "add", "path": "/spec/a/7", "value": 1}])
    before = {"metadata": {}, "spec": {"priority": 1}}
    assert list(patch_faults(before, {"metadata": {}, "spec": {"priority": 2}})) == [
        "spec.priority: changed, allowed: affinity and tolerations"
    ]
    large = {"metadata": {"annotations": {"x": "y" * 300_000}}, "spec": {"priority": 1}}
    assert any("262144" in fault for fault in patch_faults(before, large))
    labelled = {"metadata": {"labels": {"a b": "c"}}, "spec": {"priority": 1}}
    assert any("metadata.labels[a b]" in fault for fault in patch_faults(before, labelled))
