from __future__ import annotations

from typing import Any

import pytest

from situate.objects.settings.section import parse_section
from situate.sim.spot.cluster.delays import LogNormalTime, NormalTime
from situate.sim.spot.policies import POLICIES
from situate.sim.spot.settings import RUNS, SpotEventSettings, SpotScenarioSettings, WaveSettings, WorkloadSettings


def document(**changed: Any) -> dict[str, Any]:
    return {"duration": "1h", "spot": {}, "workloads": [{"name": "web"}]} | changed


def test_what_is_left_out_has_its_default() -> None:
    scenario, mistakes = parse_section(document(), SpotScenarioSettings)
    assert scenario is not None, mistakes
    assert (scenario.runs, scenario.seed, scenario.name) == (RUNS, 0, "spot")
    assert scenario.spot.chosen_policies() == list(POLICIES)
    assert scenario.workloads == (WorkloadSettings(name="web", replicas=10, floor=None),)
    cluster, delays = scenario.cluster, scenario.cluster.delays()
    assert (cluster.on_demand_room, cluster.autoscaling, cluster.pods_per_node, cluster.grace) == (True, True, 4, 30.0)
    assert delays.start == LogNormalTime(25.0, 60.0)
    assert (delays.stop_s, delays.end_s) == (2.0, 5.0)


def test_every_key_reaches_the_scenario() -> None:
    cluster = {
        "podsPerNode": 8,
        "spotPlaces": 2,
        "onDemandRoom": False,
        "autoscaling": False,
        "podsPerNewNode": 3,
        "startMedian": "10s",
        "startP95": "20s",
        "nodeStart": "1m",
        "nodeStartDeviation": "5s",
        "detection": "50s",
        "silent": "40s",
        "podStop": "0.5s",
        "grace": "10s",
    }
    events = [
        {"at": "1m", "wave": {"share": 0.5, "notice": None, "silent": True, "backAfter": "5m"}},
        {"at": "2m", "scale": 1.5},
        {"at": "3m", "rollOut": True},
    ]
    scenario, mistakes = parse_section(
        document(
            title="mine",
            seed=3,
            runs=7,
            cluster=cluster,
            spot={"policies": ["floor-return", "all-spot"], "discount": 0.6, "start": "40s"},
            workloads=[{"name": "db", "kind": "StatefulSet", "replicas": 5, "floor": "40%"}],
            events=events,
        ),
        SpotScenarioSettings,
    )
    assert scenario is not None, mistakes
    built, delays = scenario.cluster, scenario.cluster.delays()
    assert (scenario.name, scenario.seed, scenario.runs) == ("mine", 3, 7)
    assert [each.name for each in scenario.spot.chosen_policies()] == ["floor-return", "all-spot"]
    assert scenario.workloads == (WorkloadSettings(name="db", kind="StatefulSet", replicas=5, floor="40%"),)
    assert scenario.events == (
        SpotEventSettings(at=60.0, wave=WaveSettings(share=0.5, notice=None, silent=True, back_after=300.0)),
        SpotEventSettings(at=120.0, scale=1.5),
        SpotEventSettings(at=180.0, roll_out=True),
    )
    assert (built.pods_per_node, built.spot_places, built.pods_per_new_node) == (8, 2.0, 3)
    assert (built.on_demand_room, built.autoscaling, built.grace) == (False, False, 10.0)
    assert (scenario.spot.discount, scenario.spot.start) == (0.6, 40.0)
    assert (delays.start, delays.node_start) == (LogNormalTime(10.0, 20.0), NormalTime(60.0, 5.0))
    assert (delays.detection_s, delays.silent_s, delays.stop_s, delays.end_s) == (50.0, 40.0, 0.5, 0.5)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param({"workloads": []}, "workloads", id="no workload"),
        pytest.param({"workloads": [{"name": "a"}, {"name": "a"}]}, 'workloads: found "a"', id="a name twice"),
        pytest.param({"workloads": [{"name": "a", "replicas": 501}]}, "workloads[0].replicas", id="too many pods"),
        pytest.param({"workloads": [{"name": "a", "kind": "Job"}]}, "workloads[0].kind", id="another kind"),
        pytest.param({"cluster": {"startP95": "5s"}}, "cluster.startP95", id="p95 below the median"),
        pytest.param({"cluster": {"spotPlaces": 0.5}}, "cluster.spotPlaces", id="too little spot"),
        pytest.param({"spot": {"discount": 1.5}}, "spot.discount", id="a discount above 1"),
        pytest.param({"events": [{"at": "1m"}]}, "events[0].at", id="an event without a thing"),
        pytest.param({"events": [{"at": "1m", "wave": {"share": 0}}]}, "events[0].wave.share", id="a share of 0"),
        pytest.param({"runs": 0}, "runs", id="no runs"),
        pytest.param({"vpod": {}}, "vpod", id="both products"),
    ],
)
def test_mistakes_name_their_place(changed: dict[str, Any], expected: str) -> None:
    scenario, mistakes = parse_section(document(**changed), SpotScenarioSettings)
    assert scenario is None
    assert expected in "\n".join(map(str, mistakes))
