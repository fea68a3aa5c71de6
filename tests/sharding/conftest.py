from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.testing.sharding.world.executor_world import ExecutorWorld
from situate.testing.sharding.world.supervisor_world import SupervisorWorld
from situate.testing.virtual_time.isolation import suppress_logs


@pytest.fixture
def place() -> Iterator[ExecutorWorld]:
    """Checked at the end."""
    made = ExecutorWorld()
    yield made
    made.close()


@pytest.fixture
def town_of() -> Iterator[Callable[..., SupervisorWorld]]:
    """Makes a town of the configuration that it is given; checked at the end."""
    made: list[SupervisorWorld] = []

    def make(*, archive: bool = False, **config: Any) -> SupervisorWorld:
        made.append(SupervisorWorld(SupervisorConfig(**config), archive=archive))
        return made[-1]

    with suppress_logs():
        yield make
        for each in made:
            each.close()


@pytest.fixture
def town(town_of: Callable[..., SupervisorWorld]) -> SupervisorWorld:
    """With the defaults."""
    return town_of()
