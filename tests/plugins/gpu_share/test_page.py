"""docs/guides/scheduler/share-gpus.md: its profile works, its table is the published one, and it names what there
is.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from bench.openb.experiment import PLUGINS
from bench.openb.report import WITHIN, published

from situate.framework.plugin_api.configuration import KubeSchedulerConfiguration
from situate.framework.profile.profiles import profiles_of
from situate.objects.settings.section import parse_section
from situate.plugins.gpu_share import requests
from situate.plugins.registry import registry

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "scheduler" / "share-gpus.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\w+) \|((?: [\d.]+ \|){4})", re.MULTILINE)


def test_the_profile_of_the_page_is_valid() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    wire = {key: value for key, value in yaml.safe_load(text).items() if key not in ("apiVersion", "kind")}
    configuration, mistakes = parse_section(wire, KubeSchedulerConfiguration)
    assert configuration is not None, mistakes
    profiles, wrong = profiles_of(configuration, registry(())[0])
    assert not wrong
    assert [plugin.name for plugin in profiles[0].allot] == ["FGDScore"]


def test_the_table_of_the_page_is_within_what_it_says_of_the_published_one() -> None:
    known = published("default")
    rows = {name: [float(cell) for cell in cells.split("|")[:-1]] for name, cells in ROW.findall(PAGE)}
    assert list(rows) == list(PLUGINS)
    for policy, (ours, theirs, ours_later, theirs_later) in rows.items():
        assert (theirs, theirs_later) == known[policy].allocated
        assert max(abs(ours - theirs), abs(ours_later - theirs_later)) <= WITHIN


def test_the_page_names_every_plugin_and_annotation() -> None:
    for plugin in ("GpuShare", *PLUGINS.values()):
        assert f"`{plugin}`" in PAGE
    for key in (requests.COUNT, requests.MILLI, requests.MODEL, requests.INDEX):
        assert key in PAGE
