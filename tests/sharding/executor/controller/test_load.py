from __future__ import annotations

from situate.sharding.executor.controller.load import ProcessLoad


def test_cores_are_counted_between_two_calls_and_memory_at_each() -> None:
    cpu, now = iter([10.0, 11.5, 11.5, 12.0]), iter([100.0, 104.0, 104.0, 105.0])
    load = ProcessLoad(lambda: next(cpu), lambda: next(now))
    assert set(load()) == {"memory"}
    assert load()["cpu"] == 0.375
    assert "cpu" not in load(), "no time has passed"
    assert load()["cpu"] == 0.5


def test_a_process_has_some_memory() -> None:
    assert 2**20 < ProcessLoad()()["memory"] < 2**40
