from __future__ import annotations

import msgspec
import pytest

from situate.vpod.model.vpod import (
    POD_ANNOTATION_KEY,
    Key,
    NotEnoughReplicas,
    Placement,
    Scale,
    ordinal_of,
    placement_for_pod,
    pod_count,
    pod_name,
    total_vreplicas,
)


@pytest.mark.rule("vpod:V26", "vpod:V27")
def test_go_words() -> None:
    assert POD_ANNOTATION_KEY == "eventing.knative.dev/unschedulable"
    assert total_vreplicas(None) == total_vreplicas([]) == 0
    assert total_vreplicas([Placement("a", 2), Placement("b", 3), Placement("a", 2)]) == 7
    assert placement_for_pod([Placement("a", 2), Placement("a", 3)], "a") == Placement("a", 2)
    assert placement_for_pod(None, "a") is None
    assert pod_count([Placement("a", 2), Placement("a", 1), Placement("b", 0)]) == 1
    assert str(Key("ns", "name")) == "ns/name"
    assert Key.parse("ns/name") == Key("ns", "name")


def test_a_placement_leaves_zero_out_of_its_json_and_is_a_32_bit_number() -> None:
    assert Placement("a", 2).to_json() == {"podName": "a", "vreplicas": 2}
    assert Placement("a").to_json() == {"podName": "a"}
    assert msgspec.json.encode(Placement("a")) == b'{"podName":"a"}'
    with pytest.raises(ValueError, match="placement on pod 'a': vreplicas is 2147483648"):
        Placement("a", 2**31)


@pytest.mark.rule("vpod:D10", "vpod:D12")
@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("set-0", 0, id="zero"),
        pytest.param("set-12", 12, id="two digits"),
        pytest.param("set-2147483648", 2147483648, id="huge, but an ordinal"),
        pytest.param("set-", None, id="no digits"),
        pytest.param("set", None, id="no dash"),
        pytest.param("set-01", None, id="leading zero"),
        pytest.param("set--1", None, id="sign"),
        pytest.param("set-+1", None, id="plus"),
        pytest.param("set-1_0", None, id="Python's underscore"),
        pytest.param("set-٣", None, id="a digit that is not ASCII"),
        pytest.param("other-set-3", None, id="another set whose name ends like ours"),
        pytest.param("set-3-4", None, id="another set whose name begins like ours"),
        pytest.param("set-" + "9" * 5000, None, id="more digits than int() takes"),
    ],
)
def test_only_the_sets_own_ordinals_count(name: str, want: int | None) -> None:
    assert ordinal_of(name, "set") == want
    if want is not None:
        assert pod_name("set", want) == name


def test_not_enough_replicas_says_what_knative_says() -> None:
    shortage = NotEnoughReplicas("ns/set", [Placement("set-0", 2)], 3)
    assert str(shortage) == (
        "insufficient running pods replicas for StatefulSet ns/set to schedule resource replicas (left: 3): retry"
    )
    assert (shortage.placements, shortage.left, shortage.retry_after) == ([Placement("set-0", 2)], 3, 5.0)


def test_values_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Placement("a", 1).vreplicas = 2  # type: ignore[misc]  # that it is refused is the point
    with pytest.raises(AttributeError):
        Scale("ns", "set", 1).spec_replicas = 2  # type: ignore[misc]  # that it is refused is the point
