"""What `situate manifests vm-agent` prints fits the process that it starts."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.input.agent_file import agent_settings
from situate.cli.main import app
from situate.runtime.serving.certificates.renewal_schedule import AUTHORITY


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


@pytest.mark.rule("vm:C17", "vm:B44")
@pytest.mark.parametrize(
    ("said", "found"),
    [
        pytest.param({}, {"namespace", "tls", "caFile", "serverName"}, id="nothing"),
        pytest.param({"namespace": "there"}, {"tls", "caFile", "serverName"}, id="where it is"),
        pytest.param({"tls": True, "caFile": "/x/ca.crt"}, {"namespace", "serverName"}, id="whom to trust"),
        pytest.param({"tls": False}, {"namespace"}, id="plain HTTP"),
        pytest.param({"url": "https://there/"}, set(), id="all"),
    ],
)
def test_what_it_is_not_told_of_the_scheduler_it_finds_in_its_own_namespace(
    tmp_path: Path, said: dict[str, Any], found: set[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps({"scheduler": said}))
    objects = printed("-f", str(file), "--installation-namespace", "ours")
    pod = objects["DaemonSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    given = [each for flag, each in pairwise(container["args"]) if flag == "--set"]
    assert {each.partition("=")[0].removeprefix("scheduler.") for each in given} == found
    settings = agent_settings(file, given).scheduler
    if "url" not in said:
        where = said.get("namespace", "ours")
        assert settings.namespace == objects["Role"]["metadata"]["namespace"] == where
    permits = [each["projected"]["sources"] for each in pod["volumes"] if each["name"] == "permits"]
    assert bool(permits) == ("caFile" in found)
    if "caFile" in found:
        (mount,) = (each for each in container["volumeMounts"] if each["name"] == "permits")
        assert settings.ca_file == mount["mountPath"]
        shown = {each["key"] for source in permits[0] for each in source["secret"]["items"]}
        assert shown == {prefix + AUTHORITY for prefix in ("", "next-", "previous-")}, "keys are the scheduler's alone"
        assert all(source["secret"]["optional"] for source in permits[0])
        assert settings.server_name == "situate-permits.ours.svc"


def test_without_a_file_it_finds_the_scheduler_that_is_printed_beside_it(tmp_path: Path) -> None:
    (container,) = printed()["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    settings = agent_settings(None, [each for flag, each in pairwise(container["args"]) if flag == "--set"]).scheduler
    file = tmp_path / "situate.yaml"
    file.write_text("apiVersion: situate.dev/v1alpha1\nkind: Situate\nvm: {}\n")
    listed = yaml.safe_load_all(CliRunner().invoke(app, ["manifests", "-f", str(file)]).stdout)
    objects = {(each["kind"], each["metadata"]["name"]): each for each in listed}
    service = objects["Service", "situate-permits"]
    assert service["metadata"]["namespace"] == settings.namespace
    assert service["spec"]["selector"]["name"] == settings.scheduler_name
    secrets = [name for kind, name in objects if kind == "Secret"]
    volumes = printed()["DaemonSet"]["spec"]["template"]["spec"]["volumes"]
    (mounted,) = (each["projected"]["sources"] for each in volumes if "projected" in each)
    assert secrets == [mounted[0]["secret"]["name"]]
    assert settings.server_name == f"situate-permits.{settings.namespace}.svc"
    assert settings.request_port in [each["port"] for each in service["spec"]["ports"]]


def test_a_file_that_no_agent_would_take_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("compute: 1\n")
    result = CliRunner().invoke(app, ["manifests", "vm-agent", "-f", str(file)])
    assert result.exit_code == 2
    assert "computeUnit" in result.output


@pytest.mark.parametrize("name", ["caFile", "tokenFile"])
def test_a_file_that_no_pod_would_have_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps({"scheduler": {"url": "https://localhost:10299/", name: "mine"}}))
    result = CliRunner().invoke(app, ["manifests", "vm-agent", "-f", str(file)])
    assert result.exit_code == 2
    assert f"scheduler.{name}: found mine" in result.stderr
