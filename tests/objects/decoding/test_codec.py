from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.objects.decoding.codec import Malformed, decode, decode_event, decode_metadata, decode_page
from situate.objects.resources import (
    CONFIGMAPS,
    EVENTS,
    LEASES,
    NODES,
    PODDISRUPTIONBUDGETS,
    PODS,
    STATEFULSETS,
    unstructured,
)
from situate.objects.values.quantity import parse_quantity
from tests.objects.wire import wire_list, wire_pod

WIDGETS = unstructured("example.com", "v1", "Widget", "widgets")


def encode(content: Any) -> bytes:
    return msgspec.json.encode(content)


def test_pod_with_all_that_a_scheduler_reads() -> None:
    pod = decode(PODS, encode(wire_pod(61)))
    at = datetime(2024, 1, 1, 0, 1, 1, tzinfo=UTC)
    assert pod.metadata.name == "web-1-7d4b9c6f5d-00061"
    assert pod.metadata.creation_timestamp == at
    assert pod.metadata.controller is not None
    assert pod.metadata.controller.name == "web-1-7d4b9c6f5d"
    assert pod.spec.node_name == "node-61"
    assert pod.spec.containers[0].resources.requests["memory"] == parse_quantity("512Mi")
    assert pod.spec.tolerations[0].toleration_seconds == 300
    assert pod.ready
    assert not pod.finished
    assert pod.status.start_time == at
    assert pod.status.container_statuses[0].state.running is not None
    assert pod.status.pod_ip == "10.1.0.61"


def test_nested_scheduling_fields() -> None:
    spec = {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
                }
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
                ]
            },
        },
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
            {"name": "scratch", "emptyDir": {}},
        ],
        "schedulingGates": [{"name": "example.com/wait"}],
    }
    pod = decode(PODS, encode({"metadata": {"name": "web-0"}, "spec": spec}))
    node_affinity, anti = pod.spec.affinity.node_affinity, pod.spec.affinity.pod_anti_affinity
    assert node_affinity is not None
    assert node_affinity.required is not None
    assert node_affinity.required.node_selector_terms[0].match_expressions[0].values == ("a",)
    assert anti is not None
    assert anti.required[0].label_selector is not None
    assert pod.spec.topology_spread_constraints[0].label_selector is None
    assert [volume.name for volume in pod.spec.volumes] == ["data"]
    assert pod.spec.scheduling_gates[0].name == "example.com/wait"


def test_other_kinds() -> None:
    node = decode(NODES, encode({
        "metadata": {"name": "n1"},
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}], "providerID": "aws:///x"},
        "status": {"allocatable": {"cpu": "4", "pods": 110}, "conditions": [{"type": "Ready", "status": "Unknown"}]},
    }))  # fmt: skip
    assert (node.ready, node.spec.provider_id, node.status.allocatable["pods"].value) == (False, "aws:///x", 110)
    lease = decode(LEASES, encode({
        "metadata": {"name": "l"}, "spec": {"holderIdentity": "a", "renewTime": "2024-01-01T00:00:00.123456Z"},
    }))  # fmt: skip
    assert lease.spec.renew_time == datetime(2024, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
    budget = decode(PODDISRUPTIONBUDGETS, encode({"metadata": {}, "spec": {"minAvailable": "50%", "selector": {}}}))
    assert budget.spec.min_available == "50%"
    statefulset = decode(STATEFULSETS, encode({"metadata": {}, "spec": {"ordinals": {"start": 3}}}))
    assert (statefulset.spec.replicas, statefulset.spec.ordinals.start) == (1, 3)
    event = decode(EVENTS, encode({"metadata": {}, "eventTime": None, "regarding": {"name": "x"}}))
    assert event.event_time is None


def test_equal_templates_are_one_value_whatever_their_tokens_are_called() -> None:
    first, second = decode_page(PODS, wire_list([wire_pod(0), wire_pod(1)])).items
    assert first.spec.containers is second.spec.containers
    assert first.spec.tolerations is second.spec.tolerations
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.metadata.name != second.metadata.name


def test_different_templates_stay_different() -> None:
    other = wire_pod(1)
    other["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "600m"
    first, second = decode_page(PODS, wire_list([wire_pod(0), other])).items
    assert [str(pod.spec.containers[0].resources.requests["cpu"]) for pod in (first, second)] == ["500m", "600m"]


def test_null_is_absent_as_in_go() -> None:
    bookmark = b'{"kind":"Pod","metadata":{"resourceVersion":"315","labels":null,"creationTimestamp":null},'
    bookmark += b'"spec":{"containers":null},"status":{}}'
    pod = decode(PODS, bookmark)
    assert (pod.metadata.resource_version, pod.metadata.labels, pod.spec.containers) == ("315", {}, ())
    assert decode_page(PODS, b'{"metadata":null,"items":null}').items == []
    assert decode(CONFIGMAPS, b'{"metadata":{"name":"c"},"data":null}').data == {}


def test_page_metadata() -> None:
    page = decode_page(PODS, wire_list([], **{"continue": "abc", "remainingItemCount": 12}))
    assert (page.metadata.resource_version, page.metadata.continue_, page.metadata.remaining_item_count) == (
        "7",
        "abc",
        12,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata": {"name": 5}}, "pods 5 cannot be read: metadata.name: Expected `str`, got `int`"),
        (
            {"metadata": {"namespace": "d", "name": "w"}, "spec": {"priority": "high"}},
            "pods d/w cannot be read: spec.priority: Expected `int | null`, got `str`",
        ),
        (
            {"metadata": {"name": "w"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "5x"}}}]}},
            "pods w cannot be read: spec.containers[0].resources.requests[...]: '5x' is not a quantity",
        ),
        (
            {"metadata": {"name": "w", "creationTimestamp": "yesterday"}},
            "pods w cannot be read: metadata.creationTimestamp: Invalid RFC3339",
        ),
        ({"metadata": {"name": "w"}, "status": []}, "pods w cannot be read: status: Expected `object`, got `array`"),
    ],
)
def test_malformed_names_object_and_path(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Malformed) as caught:
        decode(PODS, encode(change))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"3",
        b"\xff\xfe",
        b'{"metadata":{"name":"\xff"}}',
        b'{"a":' * 100_000,
        b"[" * 100_000,
        b'{"metadata":{"name":"\\ud800"}}',
        b'{"metadata":{"generation":1e999}}',
        b'{"metadata":{"generation":' + b"9" * 5000 + b"}}",
        b'{"metadata":{"creationTimestamp":"9999-12-31T23:59:60Z"}}',
    ],
    ids=range(13),
)
@pytest.mark.parametrize("resource", [PODS, NODES, WIDGETS], ids=lambda resource: resource.kind)
def test_hostile_bytes_are_malformed_or_read(resource: Any, body: bytes) -> None:
    for read in (decode, decode_page):
        with suppress(Malformed):
            read(resource, body)
    with suppress(Malformed):
        decode_event(body)
    with suppress(Malformed):
        decode_metadata(body, "x")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
paths = st.sampled_from(
    [
        "metadata",
        "metadata.labels",
        "metadata.ownerReferences",
        "metadata.creationTimestamp",
        "spec",
        "spec.containers",
        "spec.tolerations",
        "spec.affinity",
        "spec.volumes",
        "spec.overhead",
        "status",
        "status.conditions",
        "status.containerStatuses",
        "status.startTime",
    ]
).map(lambda path: path.split("."))


@given(paths, json_values)
def test_any_value_in_any_field_is_read_or_malformed(path: list[str], value: Any) -> None:
    content: dict[str, Any] = wire_pod(3)
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with suppress(Malformed):
        decode(PODS, encode(content))


@given(st.integers(0, 400), st.binary(max_size=4))
def test_any_damage_to_the_bytes_is_read_or_malformed(position: int, damage: bytes) -> None:
    body = encode(wire_pod(3))
    at = position * len(body) // 400
    with suppress(Malformed):
        decode(PODS, body[:at] + damage + body[at + len(damage) :])


def test_one_bad_object_does_not_stop_the_others() -> None:
    bad = wire_pod(1)
    bad["spec"]["priority"] = "high"
    page = decode_page(PODS, wire_list([wire_pod(0), bad, wire_pod(2)]))
    assert [pod.metadata.name[-5:] for pod in page.items] == ["00000", "00002"]
    assert [error.object for error in page.malformed] == ["pods team-1/web-0-7d4b9c6f5d-00001"]
    assert page.metadata.resource_version == "7"


def test_a_page_that_is_no_list() -> None:
    with pytest.raises(Malformed, match=r"the list of pods cannot be read: items: Expected `array`, got `int`"):
        decode_page(PODS, b'{"items":3}')


def test_unknown_fields_survive_in_unstructured_objects() -> None:
    body = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","odd":1},"spec":{"x":[1,2.50]}}'
    widget = decode(WIDGETS, body)
    assert widget.raw == body
    assert widget.content["spec"] == {"x": [1, 2.5]}
    assert (widget.metadata.name, widget.kind, widget.api_version) == ("w", "Widget", "example.com/v1")


def test_items_of_a_list_get_the_kind_that_they_lack() -> None:
    items = decode_page(
        WIDGETS, b'{"metadata":{},"items":[ {"metadata":{"name":"a"}}, { }, {"kind":"Other","x":1}]}'
    ).items
    assert [(item.kind, item.api_version) for item in items] == [
        ("Widget", "example.com/v1"),
        ("Widget", "example.com/v1"),
        ("Other", ""),
    ]
    assert items[0].content["metadata"] == {"name": "a"}


def test_watch_events() -> None:
    event = decode_event(b'{"type":"ADDED","object":{"metadata":{"name":"w"}}}')
    assert (event.type, decode(WIDGETS, event.object).metadata.name) == ("ADDED", "w")
    with pytest.raises(Malformed, match="a watch event cannot be read"):
        decode_event(b'{"type":"ADDED"}')
