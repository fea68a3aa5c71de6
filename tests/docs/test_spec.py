"""docs/spec has the text of every rule: each code once, and all that tests name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from tests.rules.page import defined

ROOT = Path(__file__).resolve().parents[2]
PRODUCTS = ("sharding", "spot", "vm", "vpod")


@pytest.mark.parametrize("product", PRODUCTS)
def test_each_rule_that_tests_may_name_is_defined_once(product: str) -> None:
    """`tests/rules/PRODUCT.yaml` lists the rules; `python -m tests.rules` refuses a mark with any other."""
    listed = yaml.safe_load((ROOT / "tests" / "rules" / f"{product}.yaml").read_text(encoding="utf-8"))
    times = Counter(defined((ROOT / "docs" / "spec" / f"{product}.md").read_text(encoding="utf-8")))
    assert {code: times[code] for code in listed if times[code] != 1} == {}
    assert [code for code, count in times.items() if count != 1] == []
