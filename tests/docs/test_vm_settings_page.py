"""docs/reference/vm-settings.md against the code: every setting of vm once, in its section, with its default."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from situate.objects.values.durations import parse_duration
from situate.vm.config.settings import (
    CostWeights,
    Deadlines,
    EvictionSettings,
    KubeVirtSettings,
    MigrationLimits,
    PermitSettings,
    Scoring,
    VmSettings,
)

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "vm-settings.md").read_text(encoding="utf-8")
SECTIONS = {
    "": VmSettings,
    "costs.": CostWeights,
    "calm.": MigrationLimits,
    "deadlines.": Deadlines,
    "scoring.": Scoring,
    "permits.": PermitSettings,
    "evictions.": EvictionSettings,
    "kubevirt.": KubeVirtSettings,
}


def shown(section: str) -> dict[str, str]:
    """Names and defaults of all tables of a section, as they are written there."""
    rows: list[tuple[str, str]] = []
    for table in PAGE.split(f"| `vm.{section}` | default | meaning |\n")[1:]:
        rows += re.findall(r"^\| `(\w+)` \| `?([^|`]*)`? \|", table.partition("\n\n")[0], re.MULTILINE)
    assert len(dict(rows)) == len(rows), "each once"
    return dict(rows)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_setting_is_there_with_its_default(section: str) -> None:
    fields = msgspec.json.decode(msgspec.json.encode(SECTIONS[section]()))
    written = shown(section)
    assert set(written) == set(fields)
    for name, text in written.items():
        if text == "see below":
            assert f"{name}." in SECTIONS
        else:
            assert _value(text, fields[name]) == fields[name], name


def _value(text: str, default: Any) -> Any:
    """A default of `…s` that is a number in the code is a duration."""
    value = yaml.safe_load(text)
    return parse_duration(value) if isinstance(value, str) and isinstance(default, float) else value
