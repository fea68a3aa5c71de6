from __future__ import annotations

from typing import Any

import pytest

from situate.sim.vpod.scenario import parse_scenario
from situate.vpod.model.options import PolicyName
from tests.sim.vpod.scenarios import data, scenario


@pytest.mark.parametrize(
    ("changed", "paths"),
    [
        pytest.param({"duraton": "1h"}, ["duraton"], id="a key that nothing reads"),
        pytest.param({"vpod": {"podCapacity": 0}}, ["vpod.podCapacity"], id="of the shared settings"),
        pytest.param(
            {"variants": {"x": {"policy": "sprad"}, "y": {}, "z": {"drain": {"settle": "soon"}}}},
            ["variants.x.policy", "variants.z.drain.settle"],
            id="of variants, each with its name",
        ),
        pytest.param({"vpod": {}, "variants": {"x": {}}}, ["vpod.podCapacity"], id="missing everywhere"),
        pytest.param({"variants": {"x": 3}}, ["variants.x"], id="no settings"),
        pytest.param({"cluster": {"zones": {}}}, ["cluster.zones"], id="no zone"),
        pytest.param(
            {"cluster": {"zones": {"a": 1}, "podsLeaveAfter": "1s"}}, ["cluster.podsLeaveAfter"], id="before it is seen"
        ),
        pytest.param({"sources": []}, ["sources"], id="no source"),
        pytest.param({"sources": [{"name": "a", "demand": {}}]}, ["sources[0].demand.steady"], id="no shape"),
        pytest.param(
            {"sources": [{"name": "a", "demand": {"sine": {"low": 5, "high": 2}}}]},
            ["sources[0].demand.sine.high"],
            id="upside down",
        ),
        pytest.param(
            {"sources": [{"name": "a", "demand": {"walk": {"start": 9, "high": 3}}}]},
            ["sources[0].demand.walk.start"],
            id="a walk that begins outside",
        ),
        pytest.param(
            {"sources": [{"name": "a-1", "demand": 1}, {"name": "a", "demand": 1, "count": 2}]},
            ["sources[1].name"],
            id="one name twice",
        ),
        pytest.param(
            {"sources": [{"name": "a", "demand": {"walk": {"start": 1, "high": 3, "every": "1ms"}}}]},
            ["sources"],
            id="more changes than anyone meant",
        ),
        pytest.param({"sampleEvery": "1ms"}, ["sampleEvery"], id="more samples than anyone meant"),
        pytest.param(
            {"sources": [{"name": "a", "demand": 1, "count": 100_000}] * 21}, ["sources"], id="more sources than that"
        ),
        pytest.param(
            {"sources": [{"name": "a", "demand": 1, "arrives": "1h", "leaves": "1h"}]}, ["sources[0].leaves"], id="gone"
        ),
        pytest.param({"events": [{"at": "1m"}]}, ["events[0].at"], id="nothing happens"),
        pytest.param(
            {"events": [{"at": "1m", "losePod": 0, "failOver": True}]}, ["events[0].failOver"], id="two things at once"
        ),
        pytest.param({"events": [{"at": "1m", "losePod": 0, "for": "1m"}]}, ["events[0].for"], id="over at once"),
        pytest.param(
            {"events": [{"at": "1m", "loseNode": "a-2"}, {"at": 0, "loseZone": "d"}]},
            ["events[0].loseNode", "events[1].loseZone"],
            id="nodes and zones that there are not",
        ),
        pytest.param(
            {"variants": {"x": {"policy": "policy", "schedulerConfig": "mine"}}},
            ["variants.x.schedulerConfig"],
            id="a ConfigMap that is not there",
        ),
        pytest.param(
            {"vpod": {"podCapacity": 6, "schedulerConfig": "mine"}, "configMaps": {"mine": {"predicates": "[]"}}},
            ["configMaps.mine.data.priorities"],
            id="half a ConfigMap",
        ),
    ],
)
def test_every_mistake_is_named_with_its_path(changed: dict[str, Any], paths: list[str]) -> None:
    parsed, mistakes = parse_scenario(data(**changed))
    assert parsed is None
    assert [mistake.path for mistake in mistakes] == paths


@pytest.mark.parametrize("document", [None, [], "text", 3, {"vpod": []}, {"vpod": {"podCapacity": 1}, "variants": []}])
def test_what_is_no_scenario_is_refused_without_an_exception(document: object) -> None:
    parsed, mistakes = parse_scenario(document)
    assert parsed is None
    assert mistakes


def test_variants_lay_their_keys_over_the_shared_ones() -> None:
    found = scenario(
        vpod={"podCapacity": 6, "drain": {"settle": "1s", "surge": 2}},
        variants={"packed": {"policy": "pack"}, "quick": {"drain": {"settle": 0}}, "same": None},
    )
    packed, quick, same = found.variants
    assert packed.options.policy is PolicyName.PACK
    assert (quick.options.drain.settle, quick.options.drain.surge) == (0.0, 2)
    assert same.options.drain.settle == 1.0


def test_predicates_come_from_the_scenarios_own_config_maps() -> None:
    placing = {
        "predicates": '[{"Name": "PodFitsResources"}]',
        "priorities": '[{"Name": "LowestOrdinalPriority", "Weight": 1}]',
    }
    found = scenario(variants={"policy": {"policy": "policy", "schedulerConfig": "mine"}}, configMaps={"mine": placing})
    assert [each.name for each in found.variants[0].options.placing.priorities] == ["LowestOrdinalPriority"]


def test_the_last_sample_is_the_end() -> None:
    assert list(scenario(duration="100s", sampleEvery="40s").sample_times()) == [40.0, 80.0, 100.0]
