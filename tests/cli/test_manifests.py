"""What `situate manifests` and `situate crds` print can be applied, and grants what `situate check` asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.configured import load, vpod_entries
from situate.cli.main import app
from situate.vpod.permissions import permissions

EXAMPLE = Path(__file__).parents[2] / "examples" / "knative" / "situate.yaml"


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def installed(*arguments: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(printed("manifests", "-f", str(EXAMPLE), *arguments)))


def test_the_rules_are_exactly_what_is_needed() -> None:
    granted = {
        (each["metadata"].get("namespace"), group, resource, tuple(rule["verbs"]), tuple(rule.get("resourceNames", ())))
        for each in installed("-n", "placing")
        for rule in each.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    needed = {
        (each.namespace, each.group, each.resource, each.verbs, (each.name,) if each.name else ())
        for each in permissions(vpod_entries(load(EXAMPLE)), "placing")
    }
    assert granted == needed
    assert all("*" not in verbs for *_, verbs, _ in granted)


def test_two_installations_do_not_touch_each_other() -> None:
    names = [
        {(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in installed("-n", name)}
        for name in ("one", "two")
    ]
    assert not names[0] & names[1]


def test_the_deployment_runs_the_configuration_that_was_given() -> None:
    objects = {each["kind"]: each for each in installed("--replicas", "3", "--image", "registry.example.com/situate:1")}
    assert objects["ConfigMap"]["data"] == {"situate.yaml": EXAMPLE.read_text()}
    spec = objects["Deployment"]["spec"]
    assert spec["replicas"] == 3
    (container,) = spec["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/situate:1"
    assert container["args"] == ["run", "-f", "/etc/situate/situate.yaml"]
    assert spec["template"]["spec"]["serviceAccountName"] == objects["ServiceAccount"]["metadata"]["name"]


@pytest.mark.parametrize("command", [("crds",), ("manifests", "-f", str(EXAMPLE))], ids=["crds", "manifests"])
def test_json_says_the_same_as_yaml(command: tuple[str, ...]) -> None:
    listed = json.loads(printed(*command, "-o", "json"))
    assert listed["kind"] == "List"
    assert listed["items"] == list(yaml.safe_load_all(printed(*command)))
