from __future__ import annotations

from situate.sim.timeline import Timeline


def test_equal_times_run_in_the_order_they_were_added_and_a_late_one_runs_at_once() -> None:
    timeline, seen = Timeline(), []
    timeline.call_at(2, lambda: seen.append("first"))
    timeline.call_at(2, lambda: timeline.call_at(1, lambda: seen.append(f"late at {timeline.now}")))
    timeline.call_at(2, lambda: seen.append("third"))
    while timeline.advance(10):
        pass

    assert seen == ["first", "third", "late at 2"]
    assert timeline.now == 10


def test_what_is_cancelled_does_not_happen_and_does_not_hold_time_up() -> None:
    timeline, seen = Timeline(), []
    timeline.call_at(1, lambda: seen.append("cancelled")).cancel()
    timeline.call_at(3, lambda: seen.append("kept"))

    assert timeline.next_due() == 3
    assert timeline.advance(5)
    assert seen == ["kept"]
