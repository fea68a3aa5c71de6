"""What `situate manifests` and `situate crds` print can be applied, and grants what `situate check` asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.input.configuration import load_configuration, vpod_entries
from situate.cli.main import app
from situate.vpod.permissions import permissions

EXAMPLE = Path(__file__).parents[3] / "examples" / "knative" / "situate.yaml"


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def installed(*arguments: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(printed("manifests", "-f", str(EXAMPLE), *arguments)))


def test_the_rules_are_exactly_what_is_needed() -> None:
    granted = {
        (each["metadata"].get("namespace"), group, resource, tuple(rule["verbs"]), tuple(rule.get("resourceNames", ())))
        for each in installed("--installation-namespace", "placing")
        for rule in each.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    needed = {
        (each.namespace, each.group, each.resource, each.verbs, (each.name,) if each.name else ())
        for each in permissions(vpod_entries(load_configuration(EXAMPLE)), "placing")
    }
    assert granted == needed
    assert all("*" not in verbs for *_, verbs, _ in granted)


def test_two_installations_do_not_touch_each_other() -> None:
    names = [
        {
            (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
            for each in installed("--installation-namespace", name)
        }
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


@pytest.mark.parametrize(
    ("products", "groups"),
    [
        pytest.param((), {"internal.kafka.eventing.knative.dev", "sources.knative.dev", "vm.neon.tech"}, id="all"),
        pytest.param(("vm",), {"vm.neon.tech"}, id="vm"),
        pytest.param(("vpod",), {"internal.kafka.eventing.knative.dev", "sources.knative.dev"}, id="vpod"),
        pytest.param(("vm", "vm"), {"vm.neon.tech"}, id="one named twice"),
    ],
)
def test_definitions_are_printed_by_product(products: tuple[str, ...], groups: set[str]) -> None:
    found = list(yaml.safe_load_all(printed("crds", *products)))
    assert {each["spec"]["group"] for each in found} == groups
    names = [each["metadata"]["name"] for each in found]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("command", [("crds",), ("manifests", "-f", str(EXAMPLE))], ids=["crds", "manifests"])
def test_json_says_the_same_as_yaml(command: tuple[str, ...]) -> None:
    listed = json.loads(printed(*command, "-o", "json"))
    assert listed["kind"] == "List"
    assert listed["items"] == list(yaml.safe_load_all(printed(*command)))


def test_a_scheduler_gets_no_more_than_it_needs_and_the_file_that_it_names(tmp_path: Path) -> None:
    header = {"apiVersion": "situate.dev/v1alpha1", "kind": "Situate"}
    (tmp_path / "situate.yaml").write_text(yaml.safe_dump({**header, "scheduler": {"configuration": "kube.yaml"}}))
    kube = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    (tmp_path / "kube.yaml").write_text(yaml.safe_dump(kube))
    printed = CliRunner().invoke(app, ["manifests", "-f", str(tmp_path / "situate.yaml")])
    assert printed.exit_code == 0, printed.output
    objects = list(yaml.safe_load_all(printed.stdout))
    (configmap,) = [each for each in objects if each["kind"] == "ConfigMap"]
    assert sorted(configmap["data"]) == ["kube.yaml", "situate.yaml"]
    roles = {(each["kind"], each["metadata"].get("namespace")): each["rules"] for each in objects if "rules" in each}
    assert roles.keys() == {("ClusterRole", None), ("Role", "kube-system")}, "its Lease is kube-scheduler's"
    writes = {
        (resource, verb)
        for rule in roles["ClusterRole", None]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in ("get", "list", "watch")
    }
    assert writes == {
        ("pods/binding", "create"),
        ("pods/status", "patch"),
        ("pods", "delete"),
        ("persistentvolumes", "patch"),
        ("persistentvolumeclaims", "patch"),
        ("events", "create"),
        ("events", "patch"),
    }


@pytest.mark.parametrize("product", ["archive", "vm-machines"])
def test_a_file_that_would_change_nothing_is_refused(product: str) -> None:
    result = CliRunner().invoke(app, ["manifests", product, "-f", str(EXAMPLE)])
    assert result.exit_code == 2
    assert f"leave -f {EXAMPLE} out" in " ".join(result.stderr.split())


@pytest.mark.finding("N9")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--installation-namespace", ""), '--installation-namespace: found "", allowed: a DNS label'),
        (("--installation-namespace", "Two Words"), 'found "Two Words", allowed: a DNS label'),
        (("--image", ""), '--image: found "", allowed: an image reference, such as situate:'),
        (("--image", "a b"), '--image: found "a b", allowed: an image reference'),
    ],
)
def test_names_that_no_cluster_takes_are_refused(arguments: tuple[str, ...], told: str) -> None:
    result = CliRunner().invoke(app, ["manifests", "-f", str(EXAMPLE), *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr
