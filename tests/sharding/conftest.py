from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.testing.sharding.world.executor_world import Place
from situate.testing.sharding.world.supervisor_world import Town
from situate.testing.virtual_time.isolation import logs_off


@pytest.fixture
def place() -> Iterator[Place]:
    """Checked at the end."""
    made = Place()
    yield made
    made.close()


@pytest.fixture
def town_of() -> Iterator[Callable[..., Town]]:
    """Makes a town of the configuration that it is given; checked at the end."""
    made: list[Town] = []

    def make(*, archive: bool = False, **config: Any) -> Town:
        made.append(Town(SupervisorConfig(**config), archive=archive))
        return made[-1]

    with logs_off():
        yield make
        for each in made:
            each.close()


@pytest.fixture
def town(town_of: Callable[..., Town]) -> Town:
    """With the defaults."""
    return town_of()
