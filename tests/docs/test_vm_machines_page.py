"""docs/guides/vm/hypervisors.md against the code: members of the annotation, reasons, options, and the example."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from situate.vm.emulator import Settings
from situate.vm.emulator.hypervisor import Behaviour, read_behaviour
from tests.vm.emulator.world import MACHINES, World

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "vm" / "hypervisors.md").read_text(encoding="utf-8")
CODE = ROOT / "src" / "situate" / "vm" / "emulator"


def cells(title: str) -> list[str]:
    """Names in the first column of the table with this head."""
    table = PAGE.partition(f"| {title} |")[2].partition("\n\n")[0]
    return re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines()[2:]))


def test_the_members_are_those_that_are_read() -> None:
    read = re.findall(r'part\["(\w+)"\]', (CODE / "hypervisor.py").read_text(encoding="utf-8"))
    assert set(cells("member")) == set(read)


def test_the_annotations_of_the_page_can_be_read() -> None:
    texts = re.findall(r"hypervisor=(\{.*?\})", PAGE)
    assert texts
    assert all(isinstance(read_behaviour(text, "page"), Behaviour) for text in texts)
    assert [json.loads(text) for text in texts]


def test_the_reasons_are_those_that_are_told() -> None:
    told = re.findall(r'_fail\(\s*sight,\s*now,\s*"(\w+)"', (CODE / "migration.py").read_text(encoding="utf-8"))
    assert set(cells("reason")) == set(told)


def test_the_default_of_the_hand_over() -> None:
    (shown,) = re.findall(r"`--handover-seconds` \((\d+)\)", PAGE)
    assert float(shown) == Settings().handover_s


def test_the_example_runs() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    world = World()
    world.post(MACHINES, yaml.safe_load(example))
    world.run(5.0)
    assert world.vm()["status"]["phase"] == "Running"
