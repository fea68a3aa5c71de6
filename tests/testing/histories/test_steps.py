"""Histories as files: the tags of shared steps stay, and what no history wrote is refused."""

from __future__ import annotations

import msgspec
import pytest

from situate.testing.histories.play import AnyHistory, Product
from situate.testing.histories.steps import KillLeaderAt, PauseLeaderAt, RestoreNodes, Storm
from situate.testing.scheduler.run import PRODUCT as SCHEDULER
from situate.testing.spot.run import PRODUCT as SPOT
from situate.testing.vm.run import PRODUCT as VM
from situate.testing.vpod.run import PRODUCT as VPOD

_STORED = """{"seed": 1, "steps": [
    {"step": "KillLeaderAt", "wait": 0.5, "message": "MESSAGE", "answered": true},
    {"step": "PauseLeaderAt", "wait": 0.5, "message": "status", "answered": false, "seconds": 40.0},
    {"step": "Storm", "wait": 1.0, "kind": "blind"},
    {"step": "RestoreNodes", "wait": 2.0}
]}"""


def test_a_stored_history_is_read_by_the_names_of_its_steps() -> None:
    read = SCHEDULER.read(_STORED.replace("MESSAGE", "delete").encode())
    assert read.steps == (
        KillLeaderAt(0.5, "delete", answered=True),
        PauseLeaderAt(0.5, "status", answered=False, seconds=40.0),
        Storm(1.0, "blind"),
        RestoreNodes(2.0),
    )


def test_a_message_of_another_product_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="'review'"):
        SCHEDULER.read(_STORED.replace("MESSAGE", "review").encode())
    with pytest.raises(msgspec.ValidationError, match="'delete'"):
        VM.read(VM.generate(0).to_json().replace(b'"migration"', b'"delete"'))


@pytest.mark.parametrize("product", [VPOD, VM, SPOT, SCHEDULER], ids=lambda product: product.module)
def test_what_is_drawn_is_the_same_after_it_was_stored(product: Product[AnyHistory]) -> None:
    for seed in range(20):
        history = product.generate(seed)
        assert product.read(history.to_json()) == history
