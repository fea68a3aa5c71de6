"""Pages of the agent against the code: its settings with their defaults, its metrics, its example and the tutorial."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from situate.cli.input.configuration import load_configuration, vm_settings
from situate.cli.main import app
from situate.objects.settings.section import parse_section
from situate.vm.agent.controller.metrics import AgentMetrics
from situate.vm.agent.model.settings import (
    AgentSettings,
    CacheMetricsAccess,
    MetricsAccess,
    MonitorAccess,
    SchedulerAccess,
    SystemMetricsAccess,
    VmAccess,
)
from tests.controlplane.ports import ReservedPort
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "vm" / "agent.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs" / "reference" / "vm-settings.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "getting-started" / "tutorials" / "vm.md").read_text(encoding="utf-8")
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
    assert not [name for name in names if f"`{name}`" not in SETTINGS]


def test_defaults_are_those_of_the_code() -> None:
    for section, name in (
        (SchedulerAccess, "scheduler"),
        (MonitorAccess, "monitor"),
        (VmAccess, "neonvm"),
        (SystemMetricsAccess, "metrics.system"),
        (CacheMetricsAccess, "metrics.lfc"),
    ):
        (row,) = re.findall(rf"^\| `{re.escape(name)}` \|.*$", SETTINGS, re.MULTILINE)
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
    assert set(re.findall(r"^\| `(situate_vm_agent_\w+)`", SETTINGS, re.MULTILINE)) == names


def test_the_example_is_valid() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    settings, mistakes = parse_section(yaml.safe_load(example), AgentSettings)
    assert mistakes == ()
    assert yaml.safe_load(example) == yaml.safe_load((EXAMPLES / "agent.yaml").read_text(encoding="utf-8"))
    assert settings is not None
    ours = load_configuration(EXAMPLES / "situate.yaml")
    vm = vm_settings(ours)
    assert vm is not None
    assert settings.scheduler.url == f"https://localhost:{vm.permits.address.rpartition(':')[2]}/"
    assert settings.scheduler.ca_file == vm.permits.certificate
    machines = list(yaml.safe_load_all((EXAMPLES / "machines.yaml").read_text(encoding="utf-8")))
    assert {each["spec"]["schedulerName"] for each in machines} == {vm.scheduler_name}


def _console() -> list[tuple[str, str]]:
    """Commands of the tutorial, in their order, each with the output that is shown below it."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"```console\n(.*?)```", TUTORIAL, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            last = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
            found.append(("\n".join(lines[: last + 1]), "\n".join(lines[last + 1 :])))
    return found


STATUS = "situate vm status --installation-namespace default"


def _shown(status: str) -> str:
    """Without what differs from one run to the next: the leader's name, and how far a move is."""
    told = re.sub(r" +\d+%", " 37%", re.sub(r"vm_[0-9a-f]{8}", "vm_6cbbf792", status))
    return "\n".join(" ".join(line.split()) for line in told.strip().splitlines())


@pytest.mark.slow
@pytest.mark.waits
@pytest.mark.finding("N32")
def test_the_example_shows_what_the_page_shows(tmp_path: Path) -> None:
    """By the tutorial's own commands; only the ports are others."""
    console = _console()
    first_look, second_look, _ = (number for number, (command, _) in enumerate(console) if command == STATUS)
    before, moving, after = (output for command, output in console if command == STATUS)
    shutil.copytree(EXAMPLES, tmp_path / "vm")
    permits, health = ReservedPort(), ReservedPort()
    for name in ("situate.yaml", "agent.yaml"):
        file = tmp_path / "vm" / name
        file.write_text(file.read_text().replace("10299", str(permits.number)))
    first = "\n".join(command for command, _ in console[:first_look]).replace("cd examples/vm", "cd vm")
    first = first.replace("$PWD/../../.venv/bin", str(Path(sys.executable).parent)).replace("--port 8001", "--port 0")
    first = first.replace("run -f situate.yaml", f"run -f situate.yaml --set health.address=127.0.0.1:{health.number}")
    first = first.replace("-f agent.yaml", '-f agent.yaml --health-address ""')
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "SITUATE"))}
    shell = subprocess.Popen(
        ["bash"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment | {"HOME": str(tmp_path)},
        cwd=tmp_path,
        start_new_session=True,
    )
    assert shell.stdin is not None
    asked = ["vm", "status", "--installation-namespace", "default", "--kubeconfig", str(tmp_path / "vm" / "kubeconfig")]

    def status() -> str:
        return _shown(CliRunner().invoke(app, asked).stdout)

    def shows(page: str) -> None:
        eventually("the status is the page's", status, lambda found: found == _shown(page))

    try:
        shell.stdin.write(first + "\n")
        shell.stdin.flush()
        shows(before)
        shell.stdin.write("\n".join(command for command, _ in console[first_look + 1 : second_look]) + "\n")
        shell.stdin.flush()
        shows(moving)
        shows(after)
    finally:
        os.killpg(shell.pid, signal.SIGTERM)
        shell.communicate(timeout=60)
        for port in (permits, health):
            port.release()
