"""What `situate manifests vm-agent` prints fits the process that it starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from situate.cli.main import app


def printed(*arguments: str) -> dict[str, Any]:
    """By kind."""
    result = CliRunner().invoke(app, ["manifests", "vm-agent", *arguments])
    assert result.exit_code == 0, result.output
    return {each["kind"]: each for each in yaml.safe_load_all(result.stdout)}


def test_one_agent_runs_on_each_node_also_on_those_kept_for_machines() -> None:
    objects = printed()
    daemon_set = objects["DaemonSet"]
    assert "replicas" not in daemon_set["spec"]
    pod = daemon_set["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    node = {"name": "SITUATE_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    assert node in container["env"]
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert "ConfigMap" not in objects
    help_ = CliRunner().invoke(app, [*container["args"], "--help"])
    assert help_.exit_code == 0


def test_its_configuration_comes_along_and_decides_about_its_rights(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps({"scheduler": {"url": "http://scheduler:10299/"}}))
    objects = printed("-f", str(file))
    assert objects["ConfigMap"]["data"] == {"agent.yaml": file.read_text()}
    (container,) = objects["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    assert "/etc/situate/agent.yaml" in container["args"]
    assert "Role" not in objects  # it looks for no pods
    assert "Role" in printed()


def test_a_file_that_no_agent_would_take_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("compute: 1\n")
    result = CliRunner().invoke(app, ["manifests", "vm-agent", "-f", str(file)])
    assert result.exit_code == 2
    assert "computeUnit" in result.output
