"""docs/guides/vm/kubevirt.md against the code: phases, names, settings, and its example."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import yaml

from situate.vm.api.well_known import AUTO_MIGRATION_LABEL, CLAIM, MIGRATION_PREFIX, MIGRATION_TIMES, TARGET_NODE
from situate.vm.backends.kubevirt_migrations import KubeVirtMigrations
from situate.vm.backends.kubevirt_names import (
    APP_LABEL,
    HOSTNAME_LABEL,
    INSTANCE_KIND,
    INSTANCE_MIGRATIONS,
    LAUNCHER,
    LIVE_MIGRATABLE,
    MIGRATION_NAME,
    MIGRATION_UID_LABEL,
)
from situate.vm.backends.systems import select_system
from situate.vm.config.settings import Deadlines, VmSettings
from situate.vm.model.policy import Rules
from tests.vm.backends.kubevirt_objects import migration

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "vm" / "kubevirt.md").read_text(encoding="utf-8")


def test_phases_are_what_the_page_says() -> None:
    backend = KubeVirtMigrations(Rules(), pin_target=True)
    table = PAGE.partition("| `status.phase` | here |")[2].partition("\n\n")[0]
    told: dict[str, str] = {}
    for row in table.splitlines()[2:]:
        phases, meaning = row.split("|")[1:3]
        told |= dict.fromkeys(re.findall(r"`(\w+)`", phases), meaning.strip())
    for phase, meaning in told.items():
        seen = backend.observe(migration({"phase": phase}), 0.0).value
        assert seen is not None, phase
        assert seen.phase.starting == meaning.startswith("it starts"), phase
        assert seen.phase.copying == (meaning == "it copies"), phase
    assert len(told) == 10


def test_names_are_those_of_the_code() -> None:
    for name in (
        f"{APP_LABEL}: {LAUNCHER}",
        INSTANCE_KIND,
        INSTANCE_MIGRATIONS.kind,
        HOSTNAME_LABEL,
        LIVE_MIGRATABLE,
        MIGRATION_NAME,
        MIGRATION_UID_LABEL,
        AUTO_MIGRATION_LABEL,
        CLAIM,
        TARGET_NODE,
        MIGRATION_TIMES,
        f"{MIGRATION_PREFIX}<pod>",
        f"{Deadlines().total_s_per_gib:g} s for each GiB",
    ):
        assert name in PAGE, name


def test_the_example_chooses_kubevirt() -> None:
    first = yaml.safe_load(PAGE.partition("```yaml\n")[2].partition("```")[0])
    settings = msgspec.convert(first["vm"], VmSettings)
    assert select_system(settings).machines.kind == INSTANCE_KIND
