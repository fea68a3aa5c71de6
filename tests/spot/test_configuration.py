"""The section `spot:`: what may stand there, and what it means to admission."""

from __future__ import annotations

from typing import Any

import pytest

from situate.objects.settings import parse_section
from situate.spot.configuration import SpotSettings
from situate.spot.model import Owner
from situate.spot.policies import Count
from situate.spot.targets import Namespace, resolved


def parsed(**data: Any) -> SpotSettings:
    settings, mistakes = parse_section(data, SpotSettings, "spot")
    assert settings is not None, mistakes
    return settings


@pytest.mark.rule("spot:P35")
def test_the_defaults_are_those_of_the_reference() -> None:
    settings = parsed()
    assert (settings.mode, settings.reservation, settings.live_read) == ("enabled", 30.0, 0.3)
    assert (settings.eviction_toleration, settings.safe_deployments, settings.import_keys) == (20.0, False, False)
    assert settings.admission("situate").placing.eviction_s == 20


@pytest.mark.rule("spot:P35")
@pytest.mark.parametrize(
    ("data", "path", "allowed"),
    [
        pytest.param({"mod": "enabled"}, "spot.mod", "no such key", id="an unknown key"),
        pytest.param({"strict": True}, "spot.strict", "no such key", id="what does not exist yet"),
        pytest.param({"mode": "on"}, "spot.mode", "enabled", id="an unknown mode"),
        pytest.param({"certificateLife": "59s"}, "spot.certificateLife", "at least 60", id="too short a life"),
        pytest.param({"address": ":70000"}, "spot.address", "at most 65535", id="a port that there is not"),
        pytest.param({"liveRead": "2s"}, "spot.liveRead", "less than 2s", id="longer than anybody waits"),
        pytest.param({"evictionToleration": "1.5s"}, "spot.evictionToleration", "whole seconds", id="half a second"),
        pytest.param({"policies": [{"policy": "101%"}]}, "spot.policies[0].policy", "0% to 100%", id="a bad policy"),
        pytest.param(
            {"policies": [{"policy": "1", "workloadSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}]},
            "spot.policies[0].workloadSelector",
            "a label selector",
            id="a bad selector",
        ),
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
    found = resolved(owner, Namespace("n", {"team": "shop"}), settings.rules())
    assert (found.on_demand, found.policy) == (2, Count(2))
    assert resolved(owner, Namespace("n"), settings.rules()).on_demand == 0


@pytest.mark.rule("spot:P12", "spot:P23")
def test_a_line_of_the_file_changes_what_on_demand_means() -> None:
    line = {"source": "label", "key": "pool", "value": "cheap", "capacity": "spot", "absent": "on-demand"}
    placing = parsed(signals=[line]).admission("situate").placing
    assert (placing.on_demand.key, placing.on_demand.operator, placing.on_demand.values) == (
        "pool",
        "NotIn",
        ("cheap",),
    )
