"""What `situate manifests vm-machines` prints fits the process that it starts."""

from __future__ import annotations

from typing import Any

import yaml
from typer.testing import CliRunner

from situate.cli.main import app


def printed(*arguments: str) -> dict[str, Any]:
    """By kind."""
    result = CliRunner().invoke(app, ["manifests", "vm-machines", *arguments])
    assert result.exit_code == 0, result.output
    return {each["kind"]: each for each in yaml.safe_load_all(result.stdout)}


def test_it_runs_beside_a_standby_with_its_lease_and_its_health_where_it_is_installed() -> None:
    objects = printed("--installation-namespace", "ours")
    deployment = objects["Deployment"]
    assert deployment["spec"]["replicas"] == 2
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    arguments = container["args"]
    assert arguments[arguments.index("--health-address") + 1] == f":{port['containerPort']}"
    assert (
        arguments[arguments.index("--installation-namespace") + 1] == objects["Role"]["metadata"]["namespace"] == "ours"
    )
    help_ = CliRunner().invoke(app, [*arguments, "--help"])
    assert help_.exit_code == 0


def test_it_says_what_machines_are_and_never_what_they_are_to_be() -> None:
    rules = printed()["ClusterRole"]["rules"]
    verbs = {resource: set(each["verbs"]) for each in rules for resource in each["resources"]}
    assert verbs["virtualmachines"] == {"get", "list", "watch"}
    assert verbs["virtualmachines/status"] == {"patch"}
