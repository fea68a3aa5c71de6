"""The functions of the tutorial and of the guide to Kopf do what the pages say of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from situate.sharding import Outcome, Work
from tests.sharding.executor.controller.test_kopf_handlers import Memory, work_on

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (DOCS / "getting-started" / "tutorials" / "operator.md", DOCS / "guides" / "sharding" / "kopf.md")
BLOCKS = [
    block for page in PAGES for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
]


def names_in(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(block, names)
    return names


def work(memory: Memory) -> Work:
    made = work_on(memory)
    made.update_content({**made.object, "spec": {"steps": 3}})
    return made


async def test_the_reconciler_goes_on_from_its_checkpoint() -> None:
    memory = Memory()
    held = work(memory)
    assert await names_in(BLOCKS[0])["reconcile"](held.object, held) == Outcome.succeeded("Done")
    assert [each["status"]["checkpoint"] for each in memory.writes] == [{"done": 1}, {"done": 2}, {"done": 3}]
    assert await names_in(BLOCKS[0])["reconcile"](held.object, held) == Outcome.succeeded("Done")
    assert len(memory.writes) == 3


@pytest.mark.rule("sharding:K14")
async def test_the_handler_for_kopf_is_tried_again_and_then_done() -> None:
    memory = Memory()
    held = work(memory)
    handler = names_in(BLOCKS[1])["handler"]
    assert await handler(held.object, held) == Outcome.again(10)
    assert await handler(held.object, held) == Outcome.succeeded()
    assert memory.writes[-1]["status"] == {"built": 3}


def test_the_filter_of_the_page_is_one_that_kopf_takes() -> None:
    import kopf

    class Anybody:
        def owns(self, **_: Any) -> bool:
            return True

    registry = kopf.OperatorRegistry()
    before = kopf.get_default_registry()
    kopf.set_default_registry(registry)
    try:
        exec(BLOCKS[2], {"kopf": kopf, "executor": Anybody()})
    finally:
        kopf.set_default_registry(before)
