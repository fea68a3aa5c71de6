"""docs/reference/permit-api.md against the code: its examples are understood, its numbers and words are those that
hold.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from situate.runtime.serving.access import TTL_S
from situate.runtime.serving.listener import Limits
from situate.vm.config.settings import PORT
from situate.vm.explain.what_if import Changes, read_changes
from situate.vm.model.policy import Rules
from situate.vm.protocol.permit import PermitReason
from situate.vm.protocol.permit_request import PermitRequest, read_request

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "permit-api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)


def test_its_examples_are_understood() -> None:
    request, answer, changes = EXAMPLES
    assert isinstance(read_request("POST", request.encode()), PermitRequest)
    assert json.loads(answer)["reason"] == "granted"
    assert isinstance(read_changes(changes.encode(), Rules()), Changes)


def test_its_numbers_and_words_hold() -> None:
    limits = Limits()
    assert (limits.connections, limits.requests, limits.silence_s, TTL_S) == (8192, 4096, 10.0, 10.0)
    for told in (f"Port {PORT}", "8,192 connections", "4,096 requests", "ten seconds"):
        assert told in PAGE
    (row,) = re.findall(r"\| `reason` \| (.*) \|", PAGE)
    assert set(re.findall(r"\w+", re.sub(r"\(.*?\)", "", row))) == {each.value for each in PermitReason}
