from __future__ import annotations

import json
from typing import Any

import pytest

from situate.objects.settings.section import parse_section
from situate.runtime.configuration.file import Section, environment_overrides, parse_configuration
from situate.vpod.config.settings import ENVIRONMENT, StatefulSetSettings
from situate.vpod.model.options import Options

ENTRY: dict[str, Any] = {
    "statefulSetNamespace": "knative-eventing",
    "statefulSetName": "kafka-source-dispatcher",
    "podCapacity": 20,
}


def parsed(**fields: object) -> StatefulSetSettings:
    value, mistakes = parse_section(ENTRY | fields, StatefulSetSettings, "vpod[0]")
    assert not mistakes
    assert value is not None
    return value


def mistakes(**fields: object) -> list[str]:
    return [str(each) for each in parse_section(ENTRY | fields, StatefulSetSettings, "vpod[0]")[1]]


def test_the_defaults_are_those_of_the_reference() -> None:
    entry = parsed()

    assert (entry.policy, entry.profile, entry.shrink, entry.topology) == ("spread", "safe", "auto", "none")
    assert (entry.refresh_period, entry.retry_period, entry.scale_cache_config.refresh_period) == (100.0, 0.0, 300.0)
    assert (entry.pod_grace, entry.scale_down_stabilization) == (60.0, 300.0)
    assert (entry.drain.enabled, entry.drain.settle, entry.drain.timeout, entry.drain.surge) == (True, 10, 600, 0)
    assert (entry.rebalance.enabled, entry.rebalance.interval, entry.rebalance.max_moves_per_vpod) == (False, 300, 1)


def test_untouched_settings_are_the_options_default() -> None:
    entry = parsed()

    assert entry.options() == Options("knative-eventing", "kafka-source-dispatcher", 20)


def test_null_lifts_the_bounds_of_the_autoscaler() -> None:
    options = parsed(maxReplicas=None, maxScaleUpStep=None).options()

    assert (options.max_replicas, options.max_scale_up_step) == (None, None)


def test_moves_are_a_number_or_a_share() -> None:
    assert parsed(rebalance={"maxMoves": 7}).options().rebalance.allowed_moves(100) == 7
    assert parsed(rebalance={"maxMoves": "20%"}).options().rebalance.allowed_moves(100) == 20


@pytest.mark.parametrize("period", ["100ms", "1s", 0.1])
def test_periods_may_be_as_short_as_a_tenth_of_a_second(period: str | float) -> None:
    entry = parsed(refreshPeriod=period, retryPeriod=period, rebalance={"interval": period})
    assert min(entry.refresh_period, entry.retry_period, entry.rebalance.interval) >= 0.1


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        pytest.param(
            {"podCapacity": 0}, "vpod[0].podCapacity: found 0, allowed: an integer of at least 1", id="D17: capacity 0"
        ),
        pytest.param({"podCapacty": 3}, "did you mean podCapacity?", id="a typing error"),
        pytest.param(
            {"refreshPeriod": 100_000_000_000}, "a Go duration in nanoseconds; write 100s", id="Go's nanoseconds"
        ),
        pytest.param({"policy": "binpack"}, "one of pack, policy, spread", id="an unknown policy"),
        pytest.param({"minReplicas": 5, "maxReplicas": 3}, "at least minReplicas, which is 5", id="crossed limits"),
        pytest.param({"topologyRequired": True}, "set topology to zone or node", id="required without a topology"),
        pytest.param({"rebalance": {"maxMoves": "101%"}}, "a percentage", id="a percentage above 100"),
        pytest.param(
            {"refreshPeriod": "1ns"}, 'refreshPeriod: found "1ns", allowed: a duration', id="no pause to speak of"
        ),
        pytest.param(
            {"rebalance": {"interval": "99ms"}}, "number of seconds of at least 0.1", id="evened out all the time"
        ),
        pytest.param(
            {"retryPeriod": "1ms"},
            "vpod[0].retryPeriod: found 0.001s, allowed: 0, which means 1s, or at least 0.1s",
            id="retried without a pause",
        ),
        pytest.param(
            {"policy": "pack", "rebalance": {"enabled": True}},
            "vpod[0].rebalance.enabled: found true, allowed: false if policy is pack",
            id="packed and evened out",
        ),
        pytest.param({"statefulSetName": "mine"}, "vpod[0].sources[0].sourceKind: missing", id="no kind implied"),
        pytest.param(
            {"sources": [{"kind": "Report"}]}, "only Knative's kinds have a default", id="an unknown kind alone"
        ),
    ],
)
@pytest.mark.rule("vpod:D17", "vpod:B12")
def test_a_mistake_is_named_with_what_is_allowed(fields: dict[str, object], sentence: str) -> None:
    assert any(sentence in mistake for mistake in mistakes(**fields)), mistakes(**fields)


def test_the_kind_alone_completes_a_source_of_knative() -> None:
    (source,) = parsed().completed_sources()

    assert (source.group, source.version, source.resource) == (
        "internal.kafka.eventing.knative.dev",
        "v1alpha1",
        "consumergroups",
    )
    assert (source.vreplicas_path, source.placements_path) == ("spec.replicas", "status.placements")
    assert source.source_kind == "kafkasource"


def test_any_custom_resource_is_described_by_its_paths() -> None:
    report = {
        "kind": "Report",
        "group": "batch.example.com",
        "version": "v1",
        "resource": "reports",
        "vreplicasPath": "spec.parallelism",
        "placementsPath": "status.placements",
    }
    (source,) = parsed(statefulSetName="reporters", sources=[report]).completed_sources()

    assert source.vreplicas_path == "spec.parallelism"
    assert source.source_kind is None


def test_the_environment_of_knative_overrides_every_entry() -> None:
    section = Section("vpod", list[StatefulSetSettings], ENVIRONMENT)
    overrides, mistakes = environment_overrides({"POD_CAPACITY": "7", "AUTOSCALER_REFRESH_PERIOD": "5"}, [section])
    assert mistakes == ()

    text = json.dumps({"apiVersion": "situate.dev/v1alpha1", "kind": "Situate", "vpod": [ENTRY, ENTRY]})
    configuration, mistakes = parse_configuration(text, [section], overrides)

    assert mistakes == ()
    assert configuration is not None
    entries = configuration.section("vpod", list)
    assert [(entry.pod_capacity, entry.refresh_period) for entry in entries or ()] == [(7, 5.0)] * 2
