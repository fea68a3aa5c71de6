"""The section `spot:`: what may stand there, and what it means to admission."""

from __future__ import annotations

from typing import Any

import pytest

from situate.objects.settings.section import parse_section
from situate.spot.config.settings import SpotSettings
from situate.spot.model.pods_nodes_workloads import Owner
from situate.spot.workloads.on_demand_policy import Count
from situate.spot.workloads.on_demand_target import Namespace, resolve_target


def parsed(**data: Any) -> SpotSettings:
    settings, mistakes = parse_section(data, SpotSettings, "spot")
    assert settings is not None, mistakes
    return settings


@pytest.mark.rule("spot:P35")
def test_the_defaults_are_those_of_the_reference() -> None:
    settings = parsed()
    webhook, evictions, back = settings.webhook, settings.evictions, settings.returns
    assert (settings.mode, settings.strict, settings.read_only) == ("enabled", None, False)
    assert (settings.eviction_toleration_s, settings.safe_deployments, settings.import_keys) == (20.0, False, False)
    assert (webhook.timeout_s, webhook.live_read_s, webhook.reservation_s, webhook.release_s) == (2.0, 0.3, 30.0, 15.0)
    assert (evictions.cool_down_s, evictions.per_owner, evictions.per_cluster, evictions.per_hour) == (60.0, 1, 5, 60)
    assert (settings.pend_limit_s, settings.degrade_after_s, evictions.failures, evictions.stop_s) == (60, 120, 3, 3600)
    assert (back.node_age_s, back.calm_s, back.every_s) == (600.0, 1800.0, 600.0)
    assert settings.admission_settings().placement_terms.eviction_s == 20


@pytest.mark.rule("spot:P35")
@pytest.mark.parametrize(
    ("data", "path", "allowed"),
    [
        pytest.param({"mod": "enabled"}, "spot.mod", "only the keys", id="an unknown key"),
        pytest.param({"mode": "on"}, "spot.mode", "enabled", id="an unknown mode"),
        pytest.param(
            {"webhook": {"certificateLife": "59s"}},
            "spot.webhook.certificateLife",
            "at least 60",
            id="too short a life",
        ),
        pytest.param({"webhook": {"address": ":70000"}}, "spot.webhook.address", "at most 65535", id="no such port"),
        pytest.param({"webhook": {"timeout": "2.5s"}}, "spot.webhook.timeout", "whole seconds", id="half a second"),
        pytest.param(
            {"webhook": {"liveRead": "500ms"}},
            "spot.webhook.liveRead",
            "less than half of timeout (2s)",
            id="too slow a read",
        ),
        pytest.param(
            {"policies": [{"policy": "101%"}]}, "spot.policies[0].policy", "a valid policy", id="a bad policy"
        ),
        pytest.param({"ownerKinds": []}, "spot.ownerKinds", "at least one", id="nothing to look after"),
        pytest.param({"signals": [{"source": "label", "key": "k"}]}, "spot.signals[0].state", "a state", id="no sense"),
    ],
)
def test_a_mistake_is_named_with_what_is_allowed(data: dict[str, Any], path: str, allowed: str) -> None:
    settings, mistakes = parse_section(data, SpotSettings, "spot")
    assert settings is None
    assert [each.path for each in mistakes] == [path]
    assert allowed in mistakes[0].allowed


@pytest.mark.rule("spot:B46")
def test_policies_for_many_are_chosen_by_labels() -> None:
    settings = parsed(policies=[{"policy": "2", "namespaceSelector": {"matchLabels": {"team": "shop"}}}])
    owner = Owner("Deployment", "n", "web", "u", replicas=5)
    found = resolve_target(owner, Namespace("n", {"team": "shop"}), settings.rules())
    assert (found.on_demand, found.policy) == (2, Count(2))
    assert resolve_target(owner, Namespace("n"), settings.rules()).on_demand == 0


@pytest.mark.rule("spot:P12", "spot:P23")
def test_a_line_of_the_file_changes_what_on_demand_means() -> None:
    line = {"source": "label", "key": "pool", "value": "cheap", "capacity": "spot", "absent": "on-demand"}
    placing = parsed(signals=[line]).admission_settings().placement_terms
    assert (placing.on_demand.key, placing.on_demand.operator, placing.on_demand.values) == (
        "pool",
        "NotIn",
        ("cheap",),
    )
