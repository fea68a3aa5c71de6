from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from situate.runtime.startup import collector_paused, run_process


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


def test_a_process_runs_on_the_loop_of_the_extra_where_it_is_installed() -> None:
    async def loop_module() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run_process(loop_module()) == "uvloop"  # a development dependency
