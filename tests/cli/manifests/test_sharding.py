"""What `situate manifests sharding` prints: one set of rights, a fence and a Deployment for each role."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.main import app
from situate.sharding.model.names import PARTITION, POOL

pytestmark = pytest.mark.rule("sharding:K15")

RESOURCE = "batch.example.com/v1/reports"


def printed(*arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, ["manifests", "sharding", "--installation-namespace", "team", *arguments])
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def of_file(folder: Path, *entries: dict[str, Any], **shared: Any) -> list[dict[str, Any]]:
    file = folder / "situate.yaml"
    document = {"apiVersion": "situate.dev/v1alpha1", "kind": "Situate", "sharding": entries, **shared}
    file.write_text(json.dumps(document))
    return printed("-f", str(file))


def names(objects: list[dict[str, Any]], kind: str) -> list[str]:
    return [each["metadata"]["name"] for each in objects if each["kind"] == kind]


def only(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def rules(objects: list[dict[str, Any]], name: str) -> set[tuple[str, str, str]]:
    """Kind of role, resource with its group, and name if the right is to one alone; verbs."""
    found = [
        (each["kind"], rule)
        for each in objects
        if each["kind"] in ("Role", "ClusterRole") and each["metadata"]["name"] == name
        for rule in each["rules"]
    ]
    assert all(len(rule["resources"]) == len(rule["apiGroups"]) == 1 for _, rule in found)
    assert {key for _, rule in found for key in rule} <= {"resources", "apiGroups", "resourceNames", "verbs"}
    return {
        (
            kind,
            "/".join([f"{rule['resources'][0]}.{rule['apiGroups'][0]}".rstrip("."), *rule.get("resourceNames", ())]),
            " ".join(rule["verbs"]),
        )
        for kind, rule in found
    }


EXECUTOR = {
    ("ClusterRole", "reports.batch.example.com", "get list watch"),
    ("ClusterRole", "reports.batch.example.com", "patch"),
    ("ClusterRole", "reports/status.batch.example.com", "patch"),
    ("Role", "leases.coordination.k8s.io", "get create patch"),
}
LEASE = "leases.coordination.k8s.io/reports.batch.example.com.default.supervisor"
SUPERVISOR = {
    ("ClusterRole", "reports.batch.example.com", "get list watch"),
    ("ClusterRole", "reports.batch.example.com", "patch"),
    ("ClusterRole", "reports/status.batch.example.com", "patch"),
    ("ClusterRole", "events", "create patch"),
    ("ClusterRole", "nodes", "get list watch"),
    ("Role", "pods", "get list watch"),
    ("Role", "leases.coordination.k8s.io", "get list watch"),
    ("Role", "leases.coordination.k8s.io", "delete"),
    ("Role", "leases.coordination.k8s.io", "create"),
    ("Role", LEASE, "get list watch patch"),
}
ARCHIVES = ("ClusterRole", "reports.batch.example.com", "delete")


@pytest.mark.parametrize(
    ("entry", "further"),
    [
        pytest.param({}, set(), id="objects of all namespaces; without an archive none is deleted"),
        pytest.param({"archive": {"url": "file:///archive"}}, {ARCHIVES}, id="an archive"),
        pytest.param({"archive": {"deleteWithoutArchive": True}}, {ARCHIVES}, id="deleted without an archive"),
        pytest.param(
            {"partition": "0", "partitionTable": "slots"},
            {("Role", "configmaps/slots", "get list watch"), ("Role", "events", "create patch")},
            id="a table of partitions",
        ),
    ],
)
def test_the_rules_are_exactly_what_is_needed(
    tmp_path: Path, entry: dict[str, Any], further: set[tuple[str, str, str]]
) -> None:
    objects = of_file(tmp_path, {"resource": RESOURCE, **entry})
    part = ".0.supervisor" if "partition" in entry else ".supervisor"
    expected = {(kind, name.replace(".supervisor", part), verbs) for kind, name, verbs in SUPERVISOR}
    assert rules(objects, "situate-shard:team") == expected | further
    (executors,) = names(objects, "ServiceAccount")[1:]
    assert rules(objects, f"{executors}:team") == EXECUTOR


def test_objects_of_one_namespace_need_no_rights_in_others(tmp_path: Path) -> None:
    objects = of_file(tmp_path, {"resource": RESOURCE, "namespace": "team", "archive": {"url": "file:///archive"}})
    expected = {("ClusterRole" if name == "nodes" else "Role", name, verbs) for _, name, verbs in SUPERVISOR}
    assert rules(objects, "situate-shard:team") == expected | {("Role", *ARCHIVES[1:])}
    assert rules(objects, "reports-executor:team") == {("Role", *rest) for _, *rest in EXECUTOR}


def test_executors_know_who_they_are_and_are_drained_before_they_end() -> None:
    deployment = only(
        printed("--resource", RESOURCE, "--executor-image", "reports:7"), "Deployment", "reports-executor"
    )
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    environment = {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}
    assert environment["POD_UID"] == {"fieldRef": {"fieldPath": "metadata.uid"}}
    assert environment["SITUATE_EXECUTOR_NAMESPACE"] == "team"
    assert container["image"] == "reports:7"
    assert container["lifecycle"]["preStop"]["exec"]["command"][:4] == ["situate", "sharding", "drain", "--self"]
    assert pod["spec"]["terminationGracePeriodSeconds"] >= 45, "the drain, and the Lease"
    assert pod["metadata"]["labels"][POOL] == "default"
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_the_fence_knows_both_roles_and_the_leaders_lease() -> None:
    objects = printed("--resource", RESOURCE)
    name = "situate-fencing.reports.batch.example.com"
    assert names(objects, "ValidatingAdmissionPolicyBinding") == [name, f"{name}-term"]
    policy = json.dumps(only(objects, "ValidatingAdmissionPolicy", name))
    assert "system:serviceaccount:team:situate-shard" in policy
    assert "system:serviceaccount:team:reports-executor" in policy
    lease = only(objects, "Lease", "reports.batch.example.com.default.supervisor")
    binding = only(objects, "ValidatingAdmissionPolicyBinding", f"{name}-term")
    assert binding["spec"]["paramRef"]["name"] == lease["metadata"]["name"]
    order = [each["kind"] for each in objects]
    assert order.index("Lease") < order.index("ValidatingAdmissionPolicyBinding"), "terms are judged from the first"


def test_executors_are_told_where_objects_and_their_fields_are(tmp_path: Path) -> None:
    objects = of_file(tmp_path, {"resource": RESOURCE, "namespace": "jobs", "assignedToPath": "spec.worker"})
    (container,) = only(objects, "Deployment", "reports-executor")["spec"]["template"]["spec"]["containers"]
    told = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    assert (told["SITUATE_NAMESPACE"], told["SITUATE_ASSIGNED_TO_PATH"]) == ("jobs", "spec.worker")
    assert "SITUATE_SUCCESSFUL_PATH" not in told, "as usual"


@pytest.mark.rule("sharding:K10")
def test_each_partition_has_its_executors_and_all_share_a_fence(tmp_path: Path) -> None:
    objects = of_file(tmp_path, *({"resource": RESOURCE, "partition": f"{index}/2"} for index in range(2)))
    assert names(objects, "Deployment") == ["situate-shard", "reports-executor-0-of-2", "reports-executor-1-of-2"]
    assert names(objects, "Lease") == [
        "reports.batch.example.com.default.0-of-2.supervisor",
        "reports.batch.example.com.default.1-of-2.supervisor",
    ]
    # of several leaders no policy can tell which one an object belongs to, so the second one looks at no Lease
    name = "situate-fencing.reports.batch.example.com"
    assert names(objects, "ValidatingAdmissionPolicy") == [name, f"{name}-term"]
    binding = only(objects, "ValidatingAdmissionPolicyBinding", f"{name}-term")
    assert binding["spec"]["paramRef"]["name"] == f"{name}.no-leader"
    pod = only(objects, "Deployment", "reports-executor-1-of-2")["spec"]["template"]
    assert pod["metadata"]["labels"][PARTITION] == "1-of-2"


def test_the_archives_url_comes_from_a_secret(tmp_path: Path) -> None:
    objects = of_file(tmp_path, {"resource": RESOURCE, "archive": {"urlFile": "/etc/situate/archive/url"}})
    pod = only(objects, "Deployment", "situate-shard")["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "archive-url", "secret": {"secretName": "situate-archive-url"}}]


@pytest.mark.finding("N21")
@pytest.mark.rule("sharding:K10")
def test_an_output_replaces_every_policy_of_one_with_other_partitions(tmp_path: Path) -> None:
    """In both directions: `kubectl apply` deletes nothing, so a name that is printed once is printed always."""
    single = printed("--resource", RESOURCE)
    parts = of_file(
        tmp_path, *({"resource": RESOURCE, "partition": str(each), "partitionTable": "slots"} for each in range(2))
    )
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        assert names(single, kind) == names(parts, kind)


@pytest.mark.finding("N21")
def test_a_note_says_how_to_find_executors_of_an_earlier_output(tmp_path: Path) -> None:
    of_file(tmp_path, {"resource": RESOURCE, "partition": "0/1"})
    result = CliRunner().invoke(app, ["manifests", "sharding", "-f", str(tmp_path / "situate.yaml")])
    assert "situate check -f names each Deployment to delete" in result.stderr
    assert CliRunner().invoke(app, ["manifests", "sharding", "--resource", RESOURCE]).stderr == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param([], "--resource", id="of what?"),
        pytest.param(
            ["--resource", "reports"], 'situate: --resource: found "reports", allowed: GROUP', id="no resource"
        ),
    ],
)
def test_mistakes_are_sentences(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["manifests", "sharding", *arguments])
    assert result.exit_code == 2
    assert told in result.output


def test_its_former_name_still_works() -> None:
    arguments = ("--resource", RESOURCE)
    former, present = (CliRunner().invoke(app, ["manifests", name, *arguments]) for name in ("shard", "sharding"))
    assert (former.exit_code, former.stdout) == (0, present.stdout)
    assert "|shard|" not in CliRunner().invoke(app, ["manifests", "--help"]).stdout
