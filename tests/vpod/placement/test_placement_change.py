"""The words for a change of a placement, and where they are told."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from situate.objects.kinds.events import ObjectReference
from situate.testing.vpod.builders import make_placements, schedule, state, vpod
from situate.vpod.controller.notify import Notifier, VPodMetrics
from situate.vpod.model.vpod import Placement, Placements
from situate.vpod.placement.decide import MoveCause
from situate.vpod.placement.placement_change import PlacementChange, placements_text

pytestmark = pytest.mark.finding("N6")


@pytest.mark.parametrize(
    ("before", "after", "wanted", "causes", "reason"),
    [
        pytest.param(make_placements(4, 4), make_placements(6, 6), 12, (), "12 wanted", id="more"),
        pytest.param(make_placements(4, 4), make_placements(2), 2, (), "2 wanted", id="less"),
        pytest.param((), make_placements(1, 1, 1), 1, (), "1 wanted, 2 spare for minReplicas", id="spare copies"),
        pytest.param(
            make_placements(1, 1, 1),
            make_placements(1),
            1,
            (),
            "spare copies free capacity for other sources",
            id="spare copies go",
        ),
        pytest.param(
            make_placements(4, 4),
            make_placements(8),
            8,
            [MoveCause.DRAIN],
            "vpod drains pods for a scale-down",
            id="a drain",
        ),
        pytest.param(
            make_placements(4, 4),
            make_placements(6),
            8,
            [MoveCause.LOSS],
            "a pod lost its vreplicas; 8 wanted",
            id="a loss, in part",
        ),
        pytest.param(
            (Placement("other-0", 2), *make_placements(2)),
            make_placements(2),
            2,
            (),
            "2 wanted",
            id="an entry of another set",
        ),
    ],
)
def test_the_reason_of_a_change(
    before: Placements, after: Placements, wanted: int, causes: tuple[MoveCause, ...], reason: str
) -> None:
    assert PlacementChange(before, after, wanted, 3, frozenset(causes)).reason == reason


def test_a_change_names_from_and_to() -> None:
    change = PlacementChange(make_placements(4, 4), make_placements(6, 6), 12, 0)
    assert str(change) == "8 vreplicas (set-0: 4, set-1: 4) became 12 (set-0: 6, set-1: 6): 12 wanted"


def test_of_many_pods_the_first_are_listed() -> None:
    assert placements_text(make_placements(*[2] * 11)).endswith("set-7: 2 and 3 more pods: 6")


def test_a_change_is_one_line_of_the_log_and_one_event() -> None:
    events: list[tuple[str, str]] = []
    kept = state(2, 10)
    decision = schedule(kept, vpod("a/b", 4))
    with capture_logs() as lines:
        reporter = Notifier(
            kept.options, VPodMetrics(CollectorRegistry()), lambda _, __, why, said: events.append((why, said))
        )
        reporter.notify_decision(ObjectReference(), decision, 0.0)
        reporter.notify_placements(ObjectReference(), (), decision, 0)
    assert events == [("PlacementChanged", "0 vreplicas became 4 (set-0: 2, set-1: 2): 4 wanted")]
    (line,) = lines
    told = {"event": "placement changed", "log_level": "info", "key": "a/b", "before": "none"}
    assert line.items() >= (told | {"after": "set-0: 2, set-1: 2", "reason": "4 wanted"}).items()
