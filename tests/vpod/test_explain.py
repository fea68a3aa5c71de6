from __future__ import annotations

from typing import Any

import pytest

from situate.testing.vpod.builders import amounts, make_placements, pod, schedule, state, vpod
from situate.vpod.explain import autoscaler_intention, explain, plan
from situate.vpod.model.options import PolicyName, Shrink
from situate.vpod.model.pod_classes import PodClass
from situate.vpod.model.vpod import Key
from situate.vpod.scaling.autoscaler import AutoscalerMemory, decide_round


@pytest.mark.rule("vpod:B13")
def test_every_pod_has_its_class_cause_own_and_free() -> None:
    kept = state(5, 4, [vpod("a/b", 7, make_placements(4, 1)), vpod("a/full", 4, make_placements(0, 0, 4))])
    kept.observe_pod(pod(3, annotation="true"), 0.0)
    kept.remove_pod("set-4", 0.0)
    schedule(kept, vpod("a/b", 9, make_placements(4, 1)))
    told = explain(kept, Key("a", "b"), 1.0, decide_round(kept, AutoscalerMemory(), 1.0, False))
    assert [(line.name, line.pod_class, line.cause, line.own, line.free) for line in told.pods] == [
        ("set-0", PodClass.ACCEPT, "full", 4, 0),
        ("set-1", PodClass.ACCEPT, "full", 4, 0),
        ("set-2", PodClass.ACCEPT, "full", 0, 0),
        ("set-3", PodClass.REJECT, "unschedulable", 0, 4),
        ("set-4", PodClass.HOLD, "missing", 0, 4),
    ]
    assert told.counts == {"full": 3, "unschedulable": 1, "missing": 1}
    assert (told.wanted, told.placed) == (9, 8)
    assert told.decision is not None
    assert str(told.decision.shortage) == "0/5 pods can take 1 more: 3 full, 1 missing, 1 unschedulable"
    assert told.autoscaler == "5 pods are needed and 5 requested: stays"


def test_an_unknown_vpod_is_said_to_be_unknown() -> None:
    kept = state(1, 4)
    told = explain(kept, Key("a", "b"), 1.0, decide_round(kept, AutoscalerMemory(), 1.0, False))
    assert (told.known, told.decision, told.wanted) == (False, None, 0)


@pytest.mark.rule("vpod:B13")
@pytest.mark.parametrize(
    ("wanted", "changes", "want"),
    [
        pytest.param(20, {}, "5 pods are needed and 2 requested: scales up to 5", id="up"),
        pytest.param(
            4,
            {},
            "1 pod is needed and 2 requested: scales down when fewer have been needed for 300 s",
            id="waits",
        ),
        pytest.param(
            4,
            {"scale_down_stabilization": 0.0},
            "1 pod is needed and 2 requested: drains the pods from ordinal 1 on, then scales down to 1",
            id="drains",
        ),
        pytest.param(
            0, {"scale_down_stabilization": 0.0}, "0 pods are needed and 2 requested: scales down to 0", id="down"
        ),
    ],
)
def test_what_the_autoscaler_will_do(wanted: int, changes: dict[str, object], want: str) -> None:
    kept = state(2, 4, [vpod("a/b", wanted, make_placements(2, 2) if wanted == 4 else ())], **changes)  # type: ignore[arg-type]  # options of every type
    assert autoscaler_intention(kept, decide_round(kept, AutoscalerMemory(), 0.0, True)) == want


@pytest.mark.rule("vpod:B13")
def test_a_plan_changes_nothing() -> None:
    kept = state(2, 4, [vpod("a/b", 5), vpod("a/c", 2, make_placements(1, 1))])
    planned = plan(kept, 0.0)
    assert planned[Key("a", "b")].placements == make_placements(3, 2)
    assert not planned[Key("a", "c")].changed
    assert kept.reservations() == {Key("a", "c"): {0: 1, 1: 1}}


def test_predicates_are_named_where_they_refuse() -> None:
    kept = state(2, 4, [vpod("a/b", 4, make_placements(4))], policy=PolicyName.POLICY)
    told = explain(kept, Key("a", "b"), 0.0, decide_round(kept, AutoscalerMemory(), 0.0, False))
    assert [line.cause for line in told.pods] == ["pod at full capacity", "ok"]


@pytest.mark.finding("N10")
@pytest.mark.parametrize(
    ("settings", "rest", "said"),
    [
        pytest.param({}, [10, 2, 0, 0, 0], "uneven: shrink is ordinal (auto, because minReplicas is 0)", id="auto"),
        pytest.param({"shrink": Shrink.ORDINAL}, [10, 2, 0, 0, 0], "uneven: shrink is ordinal. ", id="ordinal"),
        pytest.param({"shrink": Shrink.SPREAD}, [3, 3, 2, 2, 2], "", id="spread"),
        pytest.param({"min_replicas": 2}, [3, 3, 2, 2, 2], "", id="auto with minReplicas"),
    ],
)
def test_what_leaves_a_spread_source_uneven_is_said(settings: dict[str, Any], rest: list[int], said: str) -> None:
    kept = state(5, 10, **settings)
    for wanted in (50, 12):
        entry = kept.vpods.get(Key("a", "b"))
        held = schedule(kept, vpod("a/b", wanted, entry.placements if entry is not None else ()))
    assert amounts(held.placements, 5) == rest
    told = explain(kept, Key("a", "b"), 1.0, decide_round(kept, AutoscalerMemory(), 1.0, False))
    assert told.unevenness.startswith(said)
    assert bool(told.unevenness) is bool(said)


@pytest.mark.finding("N10")
def test_pods_that_others_fill_are_no_reason_to_call_a_source_uneven() -> None:
    kept = state(2, 4, [vpod("a/b", 4, make_placements(4)), vpod("a/full", 4, make_placements(0, 4))])
    assert explain(kept, Key("a", "b"), 1.0, decide_round(kept, AutoscalerMemory(), 1.0, False)).unevenness == ""


@pytest.mark.finding("N10")
def test_new_pods_leave_a_source_where_it_is_and_that_is_said() -> None:
    kept = state(2, 10, [vpod("a/b", 4, make_placements(4))], shrink=Shrink.SPREAD)
    told = explain(kept, Key("a", "b"), 1.0, decide_round(kept, AutoscalerMemory(), 1.0, False))
    assert told.unevenness == (
        "uneven: placed vreplicas do not move. To spread placed vreplicas, set rebalance.enabled to true"
    )
