from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from situate.objects.kinds.unstructured import unstructured_from
from situate.testing.vpod.builders import make_placements, state, vpod
from situate.vpod.config.settings import KIND_LABEL, KNOWN_SOURCES, SourceSettings
from situate.vpod.model.vpod import Key, Placement
from situate.vpod.placement.decide import commit, decide
from situate.vpod.sources.adapters import NoSchedulerFoundError, read_vpod, statefulset_for, vpod_of, vreplicas_wanted
from situate.vpod.sources.evictor import eviction_patch, may_evict

GROUP = KNOWN_SOURCES["ConsumerGroup"]
SOURCE = KNOWN_SOURCES["KafkaSource"]
CUSTOM = SourceSettings(
    kind="Report", vreplicas_path="spec.scale.workers", placements_path="status.where", default_vreplicas=2
)


@pytest.mark.parametrize(
    ("settings", "content", "want"),
    [
        pytest.param(GROUP, {}, 1, id="a group that does not say"),
        pytest.param(GROUP, {"spec": {"replicas": 0}}, 0, id="zero is kept"),
        pytest.param(SOURCE, {"spec": {"consumers": 9}, "status": {"maxAllowedVReplicas": 5}}, 5, id="capped"),
        pytest.param(SOURCE, {"spec": {"consumers": 9}}, 9, id="no cap"),
        pytest.param(CUSTOM, {"spec": {"scale": {"workers": 4}}}, 4, id="a path"),
        pytest.param(CUSTOM, {"spec": {"scale": 4}}, 2, id="a path that leads nowhere"),
        pytest.param(CUSTOM, {"spec": {"scale": {"workers": 4.0}}}, 4, id="a whole number with a point"),
    ],
)
@pytest.mark.rule("vpod:V2")
def test_what_a_resource_wants(settings: SourceSettings, content: dict[str, Any], want: int) -> None:
    read = vpod_of(settings, {"metadata": {"namespace": "ns", "name": "x"}, **content})
    assert read is not None
    assert (read.key, read.vreplicas, read.faults) == (Key("ns", "x"), want, ())


def test_unset_and_capped() -> None:
    assert [vreplicas_wanted(None), vreplicas_wanted(0), vreplicas_wanted(9, 5), vreplicas_wanted(None, 0)] == [
        1,
        0,
        5,
        0,
    ]


@pytest.mark.rule("vpod:B12")
def test_what_cannot_be_read_changes_nothing_and_is_named() -> None:
    content = {
        "metadata": {
            "namespace": "ns",
            "name": "x",
            "annotations": {"vpod.situate.dev/weight": "heavy", "vpod.situate.dev/priority": "-3"},
        },
        "spec": {"replicas": "many"},
        "status": {"placements": [{"podName": "set-0", "vreplicas": 3}, 7, {"podName": 5}, {"podName": "set-1"}]},
    }
    read = vpod_of(GROUP, content)
    assert read is not None
    assert (read.vreplicas, read.weight, read.priority) == (3, 1, -3)
    assert read.placements == (Placement("set-0", 3), Placement("set-1"))
    assert list(read.faults) == [
        "2 entries of status.placements cannot be read, such as status.placements[1], which is 7, "
        "allowed: a podName and 32-bit vreplicas",
        "spec.replicas is 'many', allowed: integers from 0 to 2147483647",
        "annotation vpod.situate.dev/weight is 'heavy', allowed: integers from 1 to 2147483647",
    ]
    decision = decide(state(2, 10), read, 0.0)
    (notice,) = decision.notices
    assert (notice.reason, notice.message) == ("InvalidObject", "; ".join(read.faults))


@pytest.mark.rule("vpod:B10")
def test_weight_and_priority_are_annotations() -> None:
    annotations = {"vpod.situate.dev/weight": "7", "vpod.situate.dev/priority": "2"}
    read = vpod_of(GROUP, {"metadata": {"annotations": annotations}})
    assert read is not None
    assert (read.weight, read.priority) == (7, 2)


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        ("KafkaSource", "kafka-source-dispatcher"),
        ("trigger", "kafka-broker-dispatcher"),
        ("KAFKACHANNEL", "kafka-channel-dispatcher"),
    ],
)
def test_the_kind_label_chooses_the_statefulset(kind: str, want: str) -> None:
    assert statefulset_for({KIND_LABEL: kind}) == want


@pytest.mark.parametrize("labels", [None, {}, {KIND_LABEL: "broker"}, {KIND_LABEL: 7}])
def test_another_kind_has_no_scheduler(labels: object) -> None:
    with pytest.raises(NoSchedulerFoundError, match="no scheduler found"):
        statefulset_for(labels)


def test_groups_of_another_statefulset_are_none_of_ours() -> None:
    settings = GROUP.with_defaults("kafka-source-dispatcher")
    ours = {"metadata": {"name": "x", "namespace": "ns", "labels": {KIND_LABEL: "KafkaSource"}}}
    other = {"metadata": {"name": "x", "namespace": "ns", "labels": {KIND_LABEL: "Trigger"}}}
    assert read_vpod(settings, unstructured_from(ours)) is not None
    assert read_vpod(settings, unstructured_from(other)) is None


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
ENTRY = st.fixed_dictionaries({}, optional={"podName": ANYTHING | st.just("set-1"), "vreplicas": ANYTHING})
HOSTILE = st.fixed_dictionaries(
    {},
    optional={
        "metadata": ANYTHING
        | st.fixed_dictionaries(
            {},
            optional={
                "name": ANYTHING,
                "namespace": ANYTHING,
                "labels": ANYTHING,
                "annotations": st.dictionaries(
                    st.sampled_from(["vpod.situate.dev/weight", "vpod.situate.dev/priority"]), ANYTHING
                ),
                "deletionTimestamp": ANYTHING,
                "resourceVersion": ANYTHING,
            },
        ),
        "spec": ANYTHING | st.dictionaries(st.sampled_from(["replicas", "consumers"]), ANYTHING),
        "status": ANYTHING
        | st.fixed_dictionaries({"placements": ANYTHING | st.lists(ENTRY | ANYTHING, max_size=5), "x": ANYTHING}),
    },
)


@pytest.mark.rule("vpod:B12", "vpod:D10", "vpod:D12")
@given(HOSTILE, st.sampled_from([GROUP, SOURCE]))
def test_no_object_makes_a_schedule_fail_or_touches_other_tenants(
    content: dict[str, Any], kind: SourceSettings
) -> None:
    read = vpod_of(kind, content)
    assert read is not None
    assert 0 <= read.vreplicas < 2**31
    assert all(len(fault) < 400 for fault in read.faults)
    tenant = vpod("good/tenant", 4, make_placements(2, 2))
    kept = state(2, 10, [tenant, read])
    decision = decide(kept, read, 0.0)
    commit(kept, decision)
    assert not decide(kept, tenant, 0.0).changed
    assert kept.slots.keys() >= {0, 1}
    eviction_patch(content, "set-1")
    may_evict(content)


@given(st.binary(max_size=60))
@example(b'"\x80"')
@pytest.mark.rule("vpod:B12")
def test_no_bytes_either(raw: bytes) -> None:
    try:
        content = msgspec.json.decode(raw)
    except ValueError:  # no JSON, or no UTF-8
        return
    if isinstance(content, dict):
        vpod_of(GROUP, {"metadata": content, "spec": content, "status": content})


def test_numbers_of_thousands_of_digits_are_faults_like_any_other() -> None:
    content = {
        "metadata": {"annotations": {"vpod.situate.dev/weight": "9" * 5000}},
        "spec": {"replicas": 10**5000},
    }
    read = vpod_of(GROUP, content)
    assert read is not None
    assert (read.vreplicas, read.weight, len(read.faults)) == (0, 1, 2)
