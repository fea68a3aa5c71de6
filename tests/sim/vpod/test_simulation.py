from __future__ import annotations

from random import Random

import pytest

from tests.sim.vpod.scenarios import only_report, reports


def test_a_source_is_placed_once_its_pods_run() -> None:
    report = only_report()
    assert (report.peak_pods, report.scale_ups, report.all_moves) == (2, 1, 0)
    assert report.short_seconds == pytest.approx(12 * 10.0)
    assert report.unplaced_seconds == 0.0
    assert report.longest is not None
    assert (str(report.longest.key), report.longest.since, report.longest.seconds) == ("default/orders", 0.0, 10.0)


def test_pods_are_paid_from_being_bound() -> None:
    report = only_report(
        cluster={"zones": {"a": 2}, "podPricePerHour": 3.0, "nodePricePerHour": 10.0, "podStartDelay": "10s"}
    )
    assert report.pod_hours == pytest.approx(2.0)
    assert report.node_hours == pytest.approx(2.0)
    assert report.cost == pytest.approx(26.0)
    assert report.utilisation == pytest.approx(1.0)


def test_less_demand_shrinks_the_set_without_a_shortage() -> None:
    report = only_report(sources=[{"name": "orders", "demand": {"steps": {"0s": 12, "10m": 6}}}])
    assert report.scale_downs == 1
    assert report.all_moves == 0  # what has to go is what lies on the pod that goes
    assert report.short_seconds == pytest.approx(120.0)
    assert report.series.pods[-1] == 1


@pytest.mark.rule("vpod:B3")
def test_a_lost_pod_that_comes_back_in_time_moves_nothing() -> None:
    report = only_report(events=[{"at": "10m", "losePod": 1}])
    assert report.all_moves == 0
    assert report.short_seconds == pytest.approx(120.0 + 6 * 10.0)


@pytest.mark.rule("vpod:B3")
def test_a_lost_node_moves_what_was_on_it_after_the_grace() -> None:
    report = only_report(events=[{"at": "10m", "loseNode": "b-0", "for": "20m"}])
    assert report.moves == {"loss": 6, "drain": 6}  # the way back is the drain of the pod that made up for it
    # silent for 40 s, held for 60 s of grace, then a new pod starts within 10 s
    assert report.short_seconds == pytest.approx(120.0 + 6 * (40 + 60 + 10))


def test_the_same_loss_is_found_out_later_by_the_reference() -> None:
    lost = {"at": "10m", "loseNode": "b-0", "for": "20m"}
    found = reports(variants={"ours": {}, "knative": {"profile": "reference"}}, events=[lost])
    assert found["knative"].moves == {}
    assert found["knative"].short_seconds == pytest.approx(120.0 + 6 * (300 + 10))
    assert found["ours"].short_seconds < found["knative"].short_seconds


@pytest.mark.rule("vpod:B8")
def test_a_lost_zone_costs_a_third_of_a_source_that_is_spread_over_three() -> None:
    found = reports(
        variants={"zones": {"topology": "zone"}, "pack": {"policy": "pack"}},
        vpod={"podCapacity": 12},
        cluster={"zones": {"a": 1, "b": 1, "c": 1}, "podStartDelay": 0},
        sources=[{"name": name, "demand": 12} for name in ("one", "two", "three")],
        events=[{"at": "30m", "loseZone": "a", "for": "30s"}],
    )
    assert found["zones"].zone_share == pytest.approx(1 / 3, abs=0.01)
    assert found["pack"].zone_share > 0.9
    assert max(found["zones"].series.worst) == 12


@pytest.mark.rule("vpod:B2")
def test_a_fail_over_moves_nothing() -> None:
    report = only_report(
        sources=[{"name": "s", "count": 8, "demand": {"walk": {"start": 4, "high": 8, "every": "2m"}}}],
        events=[{"at": f"{minute}m", "failOver": True} for minute in range(5, 60, 5)],
        vpod={"podCapacity": 6, "scaleDownStabilization": "2h"},
    )
    assert report.all_moves == 0


@pytest.mark.rule("vpod:D5", "vpod:V22")
def test_a_full_cluster_is_not_asked_for_more_and_more() -> None:
    report = only_report(
        sources=[{"name": "orders", "demand": {"steps": {"0s": 6, "10m": 18}}}],
        events=[{"at": "5m", "clusterFull": True, "for": "30m"}],
    )
    assert report.scale_ups == 2
    assert max(report.series.pending) == 2
    assert report.unplaced_seconds == pytest.approx(12 * 25 * 60.0)


@pytest.mark.rule("vpod:B15")
def test_a_smaller_capacity_moves_only_what_is_too_much() -> None:
    report = only_report(vpod={"podCapacity": 12}, events=[{"at": "10m", "podCapacity": 8, "for": "20m"}])
    assert report.moves == {"overcommit": 4, "drain": 4}


def test_an_unschedulable_pod_is_made_up_for() -> None:
    report = only_report(events=[{"at": "10m", "markUnschedulable": 0, "for": "10m"}])
    assert report.moves["loss"] == 6
    assert report.peak_pods == 3


def test_a_cordoned_node_keeps_what_it_has() -> None:
    report = only_report(events=[{"at": "10m", "cordon": "a-0", "for": "10m"}])
    assert report.all_moves == 0
    assert report.available_share == pytest.approx(1 - 10 / 3600)


def test_replicas_that_somebody_lowers_are_asked_for_again() -> None:
    report = only_report(events=[{"at": "10m", "resetReplicas": 1}])
    assert report.all_moves == 0
    assert report.series.pods[-1] == 2


def test_rebalance_evens_out_what_a_loss_left() -> None:
    found = reports(
        variants={"calm": {}, "even": {"rebalance": {"enabled": True, "interval": "1m", "maxMoves": 10}}},
        vpod={"podCapacity": 12, "minReplicas": 2, "podGrace": "1s"},
        cluster={"zones": {"a": 1, "b": 1}, "podStartDelay": 0},
        events=[{"at": "10m", "loseNode": "b-0", "for": "10m"}],
    )
    assert found["calm"].skew > found["even"].skew
    assert found["even"].moves["rebalance"] > 0


def test_packing_uses_no_more_pods_and_is_less_even() -> None:
    found = reports(
        variants={"spread": {}, "pack": {"policy": "pack"}},
        sources=[{"name": "s", "count": 6, "demand": {"sine": {"low": 1, "high": 6, "period": "1h", "peakAt": "30m"}}}],
        vpod={"podCapacity": 6, "scaleDownStabilization": "1m"},
    )
    assert found["pack"].pod_hours <= found["spread"].pod_hours
    assert found["pack"].skew > found["spread"].skew


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.verify) for seed in range(4, 12))])
@pytest.mark.rule("vpod:L1", "vpod:L2")
def test_once_all_is_calm_everything_runs_whatever_happened_before(seed: int) -> None:
    rng = Random(f"events {seed}")
    events = [random_event(rng, minute) for minute in range(2, 60, 3)]
    demand = {"walk": {"start": 5, "high": 9, "step": 3, "every": "3m"}}
    found = reports(
        duration="3h",
        seed=seed,
        variants={
            "spread": {"minReplicas": 2, "rebalance": {"enabled": True}},
            "zone": {"topology": "zone", "drain": {"surge": 2}},
            "pack": {"policy": "pack"},
            "policy": {"policy": "policy"},
            "reference": {"profile": "reference"},
            "era": {"profile": "reference", "policy": "policy"},
        },
        sources=[
            {"name": "early", "count": 5, "leaves": "90m", "demand": demand},
            {"name": "late", "count": 6, "arrives": "10m", "stagger": "5m", "demand": 7},
        ],
        events=events,
    )
    for name in ("spread", "zone", "pack", "policy"):
        series = found[name].series
        assert (series.wanted[-1], series.running[-1], series.pending[-1]) == (42, 42, 0), (name, events)
        assert series.pods[-1] == 7


def random_event(rng: Random, minute: int) -> dict[str, object]:
    """Something bad, over before long."""
    kinds: dict[str, object] = {
        "losePod": rng.randrange(6),
        "loseNode": rng.choice(["a-0", "b-1", "c-0"]),
        "loseZone": rng.choice("abc"),
        "cordon": rng.choice(["a-0", "b-1", "c-0"]),
        "markUnschedulable": rng.randrange(6),
        "podCapacity": rng.randint(4, 9),
        "clusterFull": True,
        "resetReplicas": rng.randrange(12),
        "failOver": True,
    }
    kind = rng.choice(sorted(kinds))
    lasts = {} if kind in ("losePod", "resetReplicas", "failOver") else {"for": f"{rng.randint(1, 12)}m"}
    return {"at": f"{minute}m", kind: kinds[kind], **lasts}


@pytest.mark.rule("vpod:S9")
def test_equal_scenarios_give_equal_reports() -> None:
    source = {"name": "s", "count": 5, "demand": {"walk": {"start": 5, "high": 9, "every": "1m"}}}
    events = [{"at": "20m", "loseZone": "a", "for": "8m"}]
    one = only_report(sources=[source], events=events).as_data()
    assert one == only_report(sources=[source], events=events).as_data()
    assert one != only_report(sources=[source], events=events, seed=2).as_data()


@pytest.mark.rule("vpod:D8")
def test_cutting_first_leaves_a_gap_that_a_drain_does_not() -> None:
    found = reports(
        variants={"ours": {}, "knative": {"profile": "reference"}},
        sources=[{"name": "orders", "demand": {"steps": {"0s": 12, "10m": 6}}}],
    )
    assert found["ours"].short_seconds == pytest.approx(120.0)
    assert found["knative"].short_seconds >= found["ours"].short_seconds
