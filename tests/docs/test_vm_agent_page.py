"""docs/vm-agent.md against the code: settings with their defaults, sources, metrics, and the example."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import yaml
from prometheus_client import CollectorRegistry

from situate.cli.configured import load, vm_settings
from situate.objects.settings import parse_section
from situate.vm.agent.controller.metrics import AgentMetrics
from situate.vm.agent.settings import (
    AgentSettings,
    CacheMetricsAccess,
    MetricsAccess,
    MonitorAccess,
    SchedulerAccess,
    SystemMetricsAccess,
    VmAccess,
)

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "vm-agent.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "examples" / "vm"
SECTIONS = (
    AgentSettings,
    SchedulerAccess,
    MonitorAccess,
    VmAccess,
    MetricsAccess,
    SystemMetricsAccess,
    CacheMetricsAccess,
)


def test_every_setting_is_on_the_page() -> None:
    names = {field.encode_name for section in SECTIONS for field in msgspec.structs.fields(section)}
    assert not [name for name in names if f"`{name}`" not in PAGE]


def test_defaults_are_those_of_the_code() -> None:
    for section, name in ((SchedulerAccess, "scheduler"), (MonitorAccess, "monitor"), (VmAccess, "neonvm")):
        (row,) = re.findall(rf"^\| `{name}` \|.*$", PAGE, re.MULTILINE)
        shown = dict(re.findall(r"`(\w+)` ([\d.]+)", row))
        defaults = {field.encode_name: field.default for field in msgspec.structs.fields(section)}
        assert {key: float(value) for key, value in shown.items()} == {
            key: value
            for key, value in defaults.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }


def test_the_metrics_are_those_that_are_shown() -> None:
    registry = CollectorRegistry()
    AgentMetrics(registry)
    names = {family.name + ("_total" if family.type == "counter" else "") for family in registry.collect()}
    assert set(re.findall(r"^\| `(situate_vm_agent_\w+)`", PAGE, re.MULTILINE)) == names


def test_the_example_is_valid() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    settings, mistakes = parse_section(yaml.safe_load(example), AgentSettings)
    assert mistakes == ()
    assert yaml.safe_load(example) == yaml.safe_load((EXAMPLES / "agent.yaml").read_text(encoding="utf-8"))
    assert settings is not None
    ours = load(EXAMPLES / "situate.yaml")
    vm = vm_settings(ours)
    assert vm is not None
    assert settings.scheduler.url == f"https://localhost:{vm.permits.address.rpartition(':')[2]}/"
    assert settings.scheduler.ca_file == vm.permits.certificate
    machines = list(yaml.safe_load_all((EXAMPLES / "machines.yaml").read_text(encoding="utf-8")))
    assert {each["spec"]["schedulerName"] for each in machines} == {vm.scheduler_name}
