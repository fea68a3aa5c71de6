"""Pages of vm against the code: metrics, words of refusals, the profile, and what the process asks for by name."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from situate.vm.api.well_known import LEASE
from situate.vm.config.settings import VmSettings
from situate.vm.controller.metrics import METRIC_PREFIX, VmMetrics
from situate.vm.ledger.ledger import Ledger
from situate.vm.model.policy import Rules
from situate.vm.placement.plugin import HELD_REASON, NAME
from situate.vm.placement.profile import configuration

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "concepts" / "vm.md").read_text(encoding="utf-8")
REFERENCE = (DOCS / "reference" / "vm-settings.md").read_text(encoding="utf-8")


def test_every_metric_is_listed_and_each_that_is_listed_is_there() -> None:
    registry = CollectorRegistry()
    metrics = VmMetrics(registry, compat=False)
    metrics.set_ledger(Ledger(Rules(), lambda: 0.0, lambda: False), lambda: True, lambda: 0)
    counted = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in registry.collect()
        if family.name.startswith(METRIC_PREFIX)
    }
    (section,) = re.findall(r"^## Metrics of the scheduler\n(.*?)^## ", REFERENCE, re.MULTILINE | re.DOTALL)
    assert set(re.findall(rf"`({METRIC_PREFIX}\w+)`", section)) == counted


def test_the_words_of_the_page_are_those_of_the_code() -> None:
    assert HELD_REASON.removeprefix("node(s) ") in PAGE
    assert f"`{NAME}`" in PAGE
    assert f"one Lease, `{LEASE}`" in PAGE
    (profile,) = configuration("x").profiles
    assert all(plugin.name in " ".join(PAGE.split()) for plugin in profile.plugins.score.disabled)


def test_the_settings_that_it_names_are_there() -> None:
    settings = {field.encode_name for field in msgspec.structs.fields(VmSettings)}
    for name in ("demandAfter", "ignoredNamespaces", "nodeMetricLabels", "callTimeout", "schedulerName", "compat"):
        assert name in settings
        assert name in (REFERENCE if name == "nodeMetricLabels" else PAGE)
