"""The section `spot:` on the command line: what is printed for it, what is refused, what runs without a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.input.configuration import configuration_without_file, load_configuration, spot_settings
from situate.cli.main import app
from situate.runtime.configuration.file import BadConfiguration
from situate.spot.config.settings import SpotSettings
from situate.spot.model.object_names import LEADER_LABEL, NAME
from situate.spot.permissions import permissions

HEADER = {"apiVersion": "situate.dev/v1alpha1", "kind": "Situate"}


def written(folder: Path, **sections: Any) -> Path:
    file = folder / "situate.yaml"
    file.write_text(yaml.safe_dump({**HEADER, **sections}))
    return file


def printed(*arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, ["manifests", *arguments])
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def of_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


@pytest.mark.rule("spot:B35", "spot:S33")
def test_it_is_installed_by_one_deployment_and_what_belongs_to_it() -> None:
    objects = printed("spot")
    assert [each["kind"] for each in objects] == [
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "Secret",
        "ConfigMap",
        "Lease",
        "Service",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "Deployment",
    ]
    # by it docs/getting-started/tutorials/spot.md takes everything away, and leaves the namespace to whatever else is
    # installed there
    chosen = [each["kind"] for each in objects if each["metadata"]["labels"]["app.kubernetes.io/name"] == NAME]
    assert chosen == [each["kind"] for each in objects][1:]
    deployment = of_kind(objects, "Deployment")
    assert deployment["spec"]["replicas"] == 2
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    command = [each for each in container["args"] if each != "--set"]
    assert command[0] == "run"
    assert spot_settings(configuration_without_file(command[1:])) is not None


@pytest.mark.rule("spot:P1", "spot:P4")
def test_its_pods_are_the_last_to_go() -> None:
    objects = printed("spot")
    deployment = of_kind(objects, "Deployment")["spec"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 1}
    pod = deployment["template"]["spec"]
    assert pod["priorityClassName"] == "system-cluster-critical"
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    expression = {"key": "node.kubernetes.io/capacity", "operator": "In", "values": ["on-demand"]}
    assert required["nodeSelectorTerms"] == [{"matchExpressions": [expression]}]
    assert pod["affinity"]["podAntiAffinity"]
    selector = of_kind(objects, "Service")["spec"]["selector"]
    assert selector == {**deployment["selector"]["matchLabels"], LEADER_LABEL: "true"}


@pytest.mark.rule("spot:P2", "spot:P3")
def test_its_webhook_never_stops_anybody() -> None:
    (webhook,) = of_kind(printed("spot", "--installation-namespace", "placing"), "MutatingWebhookConfiguration")[
        "webhooks"
    ]
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 2)
    assert (webhook["sideEffects"], webhook["reinvocationPolicy"]) == ("NoneOnDryRun", "IfNeeded")
    (rule,) = webhook["rules"]
    assert (rule["operations"], rule["resources"]) == (["CREATE"], ["pods"])
    (left_out,) = webhook["namespaceSelector"]["matchExpressions"]
    assert (left_out["operator"], left_out["values"]) == ("NotIn", ["kube-system", "placing"])
    assert "caBundle" not in webhook["clientConfig"], "that is the leader's"


@pytest.mark.rule("spot:B36")
def test_the_rules_are_exactly_what_is_needed() -> None:
    granted = {
        (each["metadata"].get("namespace"), group, resource, tuple(rule["verbs"]), tuple(rule.get("resourceNames", ())))
        for each in printed("spot", "--installation-namespace", "placing")
        for rule in each.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == {
        (each.namespace, each.group, each.resource, each.verbs, (each.name,) if each.name else ())
        for each in permissions("placing", "placing")
    }


@pytest.mark.rule("spot:S11", "spot:S12", "spot:S16", "spot:S17", "spot:S19", "spot:S32", "spot:I6", "spot:I7")
def test_nothing_that_is_installed_touches_a_scheduler_a_workload_or_a_pool_of_nodes() -> None:
    """Parts of one process: what answers, what watches and what moves; no scheduler, no copy of a workload."""
    objects = printed("spot")
    (container,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["args"][0] == "run"
    assert {each["name"] for each in container["ports"]} == {"http", "webhook"}
    assert "scheduler" not in yaml.safe_dump_all(objects).lower()
    reading = {"get", "list", "watch"}
    ours = {"", "apps", "coordination.k8s.io", "admissionregistration.k8s.io"}
    for rule in (rule for each in objects for rule in each.get("rules", ())):
        assert "pods/binding" not in rule["resources"]
        if set(rule["apiGroups"]) & {"apps"} or not set(rule["apiGroups"]) <= ours:
            assert set(rule["verbs"]) <= reading, rule
        if "pods" in rule["resources"]:
            assert "create" not in rule["verbs"], rule


@pytest.mark.rule("spot:D10", "spot:P6")
def test_no_certificate_stands_in_a_manifest_and_none_lives_for_years() -> None:
    objects = printed("spot")
    assert not {"data", "stringData"} & of_kind(objects, "Secret").keys(), "the leader makes its own"
    assert "CERTIFICATE" not in yaml.safe_dump_all(objects)
    assert "caBundle" not in yaml.safe_dump_all(objects)
    assert SpotSettings().webhook.certificate_life_s <= 90 * 24 * 3600


def test_settings_of_a_file_become_arguments(tmp_path: Path) -> None:
    spot = {"webhook": {"address": ":7443", "timeout": "3s"}, "policies": [{"policy": "30%"}]}
    file = written(tmp_path, spot=spot, log={"level": "debug"}, scheduler={})
    objects = printed("spot", "-f", str(file))
    (container,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    given = [each for each in container["args"][1:] if each != "--set"]
    read, whole = configuration_without_file(given), load_configuration(file)
    assert read.runtime == whole.runtime
    assert spot_settings(read) == spot_settings(whole)
    assert set(read.sections) == {"spot"}, "the other products of the file are not installed by this"
    assert {"name": "webhook", "containerPort": 7443} in container["ports"]
    (webhook,) = of_kind(objects, "MutatingWebhookConfiguration")["webhooks"]
    assert webhook["timeoutSeconds"] == 3


def test_beside_other_products_it_shares_their_deployment(tmp_path: Path) -> None:
    objects = printed("-f", str(written(tmp_path, spot={}, scheduler={})))
    (container,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["run", "-f", "/etc/situate/situate.yaml"]
    assert {each["name"] for each in container["volumeMounts"]} == {"configuration", "tmp"}
    assert of_kind(objects, "MutatingWebhookConfiguration")
    assert len([each for each in objects if each["kind"] == "Service"]) == 2


def test_without_a_file_and_a_product_nothing_is_printed() -> None:
    result = CliRunner().invoke(app, ["manifests"])
    assert result.exit_code == 2
    assert "give -f FILE, or one of spot" in result.stderr


def test_a_policy_that_would_gate_nothing_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"spot\.gateBy: found policy, allowed: webhook, or policy with strict"):
        load_configuration(written(tmp_path, spot={"gateBy": "policy"}))


@pytest.mark.rule("spot:B36", "spot:P34", "spot:B42", "spot:I6")
def test_rights_for_further_kinds_and_for_labels_of_nodes_are_asked_for_only_where_they_are_used(
    tmp_path: Path,
) -> None:
    def verbs(setting: dict[str, Any]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for each in printed("spot", "-f", str(written(tmp_path, spot=setting))):
            for rule in each.get("rules", ()):
                for resource in rule["resources"]:
                    found.setdefault(resource, set()).update(rule["verbs"])
        return found

    reading = {"get", "list", "watch"}
    usual = verbs({})
    assert usual["nodes"] == usual["deployments"] == usual["statefulsets"] == usual["replicasets"] == reading
    assert not {"rollouts", "clonesets"} & usual.keys()
    assert verbs({"labelNodes": True})["nodes"] == {*reading, "patch"}
    further = verbs({"ownerKinds": ["Deployment", "Rollout", "CloneSet"]})
    assert further["rollouts"] == further["clonesets"] == reading


@pytest.mark.rule("spot:B47", "spot:B36")
def test_a_configmap_with_prices_may_be_read_and_a_file_comes_along(tmp_path: Path) -> None:
    file = written(tmp_path, spot={"prices": {"configMap": "shop/prices"}})
    (rule,) = [
        rule
        for each in printed("spot", "-f", str(file))
        for rule in each.get("rules", ())
        if "configmaps" in rule["resources"] and rule.get("resourceNames") == ["prices"]
    ]
    assert rule["verbs"] == ["get"]
    (tmp_path / "prices.yaml").write_text("date: 2026-11-01\nprices: []\n")
    file = written(tmp_path, spot={"prices": {"file": "prices.yaml"}})
    (files,) = [each for each in printed("-f", str(file)) if each["kind"] == "ConfigMap" and "data" in each]
    assert files["data"]["prices.yaml"].startswith("date")
    alone = CliRunner().invoke(app, ["manifests", "spot", "-f", str(file)])
    assert alone.exit_code == 2
    assert "set spot.prices.configMap" in alone.stderr
    (tmp_path / "prices.yaml").unlink()
    missing = CliRunner().invoke(app, ["manifests", "-f", str(file)])
    assert missing.exit_code == 2
    assert "prices.yaml: cannot be read" in missing.stderr


@pytest.mark.rule("spot:B47")
def test_check_names_prices_that_are_missing_or_absurd(tmp_path: Path) -> None:
    file = written(tmp_path, spot={"prices": {"file": "prices.yaml"}})
    for text, code, said in (
        (None, 1, "No such file"),
        ("date: 2026-11-01\nprices: [{instanceType: m5, onDemand: 0}]\n", 1, "prices.yaml.prices[0].onDemand: found 0"),
        ("date: 2026-11-01\nprices: [{instanceType: m5, onDemand: 0.1}]\n", 0, "prices prices.yaml"),
    ):
        if text is not None:
            (tmp_path / "prices.yaml").write_text(text)
        found = CliRunner().invoke(app, ["check", "-f", str(file), "--offline"])
        assert found.exit_code == code, found.output
        assert said in found.stdout


def test_running_without_anything_to_run_is_a_sentence() -> None:
    result = CliRunner().invoke(app, ["run"])
    assert result.exit_code == 2
    assert "add one of vpod, scheduler, spot, sharding, vm" in result.stderr


def test_a_mistake_on_the_command_line_is_traced_to_its_flag() -> None:
    with pytest.raises(
        BadConfiguration, match=r'spot\.mode: found "on".*the value comes from flag --set spot'
    ) as wrong:
        configuration_without_file(["spot={mode: 'on'}"])
    assert wrong.value.source == "the command line"


@pytest.mark.rule("spot:P7", "spot:P9", "spot:B35")
def test_strict_mode_may_be_gated_by_a_policy_and_needs_two_replicas(tmp_path: Path) -> None:
    kinds = [each["kind"] for each in printed("spot", "-f", str(written(tmp_path, spot={"strict": {}})))]
    assert "MutatingAdmissionPolicy" not in kinds, "clusters before 1.36 know none"
    file = written(tmp_path, spot={"strict": {"matchLabels": {"team": "shop"}}, "gateBy": "policy"})
    policy = of_kind(printed("spot", "-f", str(file)), "MutatingAdmissionPolicy")
    assert policy["spec"]["matchConstraints"]["namespaceSelector"]["matchLabels"] == {"team": "shop"}
    alone = CliRunner().invoke(app, ["manifests", "spot", "-f", str(file), "--replicas", "1"])
    assert alone.exit_code == 2
    assert "run at least 2 replicas" in alone.stderr
