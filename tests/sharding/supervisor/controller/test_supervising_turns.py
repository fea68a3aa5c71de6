"""In which order a supervisor looks at objects."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from situate.testing.sharding.world.supervisor_world import SupervisorWorld


@pytest.mark.rule("sharding:L1")
def test_what_nobody_holds_comes_before_all_that_is_held_when_a_leader_begins(
    town_of: Callable[..., SupervisorWorld],
) -> None:
    town = town_of(scheduler_jitter=0.0)
    for name in ("a", "b"):
        town.create_executor(name)
    first = town.start_supervisor("s1")
    for number in range(6):
        town.create(f"r-{number}")
    assert town.run(10, lambda: len(town.first_assigned_at) == 6)
    first.stop()
    assert town.run(5, lambda: town.current_leader is None)
    town.cordon("a")  # so that there is something to be written about what is held
    town.create("z")  # the last of every listing
    written: list[str] = []
    town.on_write = lambda request, _: written.append(request.path.rpartition("/reports/")[2])
    town.start_supervisor("s2", write_concurrency=1)
    assert town.run(10, lambda: all(view.executor == "b" for view in town.views()))
    assert next(each for each in written if "/" not in each) == "z"
