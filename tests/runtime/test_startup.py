from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from situate.runtime.startup import collector_paused


@pytest.fixture(autouse=True)
def _thaw() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.mark.parametrize("enabled", [True, False])
def test_pauses_and_freezes_and_leaves_the_setting_as_it_was(enabled: bool) -> None:
    try:
        if not enabled:
            gc.disable()
        with collector_paused():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
        assert gc.get_freeze_count() > 1000
    finally:
        gc.enable()
