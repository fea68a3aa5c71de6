from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sharding.controller.place import Place


@pytest.fixture
def place() -> Iterator[Place]:
    """Checked at the end."""
    made = Place()
    yield made
    made.close()
