"""The section `vm:` on the command line: what it is refused for, and what is installed for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.input.configuration import load_configuration
from situate.cli.main import app
from situate.runtime.configuration.file import BadConfiguration


def written(folder: Path, **sections: Any) -> Path:
    file = folder / "situate.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "situate.dev/v1alpha1", "kind": "Situate", **sections}))
    return file


@pytest.mark.rule("vm:N14")
@pytest.mark.parametrize(
    ("vm", "scheduler", "path", "found"),
    [
        pytest.param({"schedulerName": "situate"}, {}, "vm.schedulerName", "situate", id="one name for two schedulers"),
        pytest.param({"leaseName": "scheduler"}, {}, "vm.leaseName", "scheduler", id="one lease for two schedulers"),
    ],
)
def test_vm_and_scheduler_are_two_schedulers(
    tmp_path: Path, vm: dict[str, Any], scheduler: dict[str, Any], path: str, found: str
) -> None:
    load_configuration(written(tmp_path, vm={}, scheduler=scheduler))
    with pytest.raises(BadConfiguration) as refused:
        load_configuration(written(tmp_path, vm=vm, scheduler=scheduler))
    (mistake,) = refused.value.mistakes
    assert (mistake.path, mistake.found) == (path, found)


def rights(file: Path) -> dict[tuple[str, str], set[str]]:
    """Verbs by group and resource, of all roles that are printed."""
    result = CliRunner().invoke(app, ["manifests", "-f", str(file)])
    assert result.exit_code == 0, result.output
    found: dict[tuple[str, str], set[str]] = {}
    for each in yaml.safe_load_all(result.stdout):
        for rule in each.get("rules", ()):
            key = rule["apiGroups"][0], rule["resources"][0]
            found.setdefault(key, set()).update(rule["verbs"])
    return found


@pytest.mark.rule("vm:B44")
def test_it_is_allowed_what_it_does_and_no_more(tmp_path: Path) -> None:
    plain = rights(written(tmp_path, vm={}))
    group = "vm.neon.tech"
    assert plain[group, "virtualmachines"] == {"get", "list", "watch", "patch"}
    assert plain[group, "virtualmachinemigrations"] == {"get", "list", "watch", "create", "patch", "delete"}
    assert plain["", "pods/resize"] == {"patch"}
    assert plain["", "pods/binding"] == {"create"}
    assert ("", "pods/eviction") not in plain
    certificates = plain["", "secrets"], plain["policy", "poddisruptionbudgets"]
    assert certificates == ({"get", "list", "watch", "patch", "create"}, {"get", "list", "watch", "create", "delete"})
    stock = rights(written(tmp_path, vm={"evictions": None}))
    assert stock["", "secrets"] == plain["", "secrets"], "the permit port's certificate is its own all the same"
    own = {"certificate": "/etc/permits/tls.crt", "key": "/etc/permits/tls.key"}
    assert ("", "secrets") not in rights(written(tmp_path, vm={"evictions": None, "permits": own}))
    assert stock["policy", "poddisruptionbudgets"] == {"get", "list", "watch"}
    assert rights(written(tmp_path, vm={"evict": True}))["", "pods/eviction"] == {"create"}
    compat = rights(written(tmp_path, vm={"compat": True}))
    assert ("", "pods/resize") not in compat
    assert plain.keys() > rights(written(tmp_path, scheduler={})).keys(), "it is a scheduler as well"


@pytest.mark.rule("vm:B44", "vm:C17")
def test_its_pods_know_their_names_and_have_a_port_for_agents(tmp_path: Path) -> None:
    permits = {"certificate": "/etc/permits/tls.crt", "key": "/etc/permits/tls.key"}
    result = CliRunner().invoke(app, ["manifests", "-f", str(written(tmp_path, vm={"permits": permits}, spot={}))])
    assert result.exit_code == 0, result.output
    objects = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(result.stdout)}
    spec = objects["Deployment", "situate"]["spec"]
    service = objects["Service", "situate-permits"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert service["selector"] == {**labels, "name": "situate-vm"}, "only the one that decides bears the name"
    assert service["ports"] == [
        {"name": "permits", "port": 10299, "targetPort": "permits"},
        {"name": "evictions", "port": 443, "targetPort": "evictions"},
    ]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 1}
    (container,) = spec["template"]["spec"]["containers"]
    assert [each["name"] for each in container["env"]].count("SITUATE_POD") == 1
    assert {"name": "permits", "containerPort": 10299} in container["ports"]
    assert {"name": "evictions", "containerPort": 10298} in container["ports"]
    assert [each["name"] for each in container["volumeMounts"]].count("tmp") == 1
    assert {"name": "permits", "mountPath": "/etc/permits", "readOnly": True} in container["volumeMounts"]
    assert {"name": "permits", "secret": {"secretName": "situate-permits"}} in spec["template"]["spec"]["volumes"]


def test_a_certificate_that_no_pod_would_have_is_refused(tmp_path: Path) -> None:
    permits = {"certificate": "tls.crt", "key": "/etc/permits/tls.key"}
    result = CliRunner().invoke(app, ["manifests", "-f", str(written(tmp_path, vm={"permits": permits}))])
    assert result.exit_code == 2
    assert "vm.permits.certificate: found tls.crt" in result.stderr
    assert "Secret situate-permits" in result.stderr


@pytest.mark.rule("vm:B48")
def test_api_servers_ask_about_evictions_and_about_nothing_else(tmp_path: Path) -> None:
    def printed(**vm: Any) -> dict[tuple[str, str], Any]:
        result = CliRunner().invoke(
            app, ["manifests", "-f", str(written(tmp_path, vm=vm)), "--installation-namespace", "ours"]
        )
        assert result.exit_code == 0, result.output
        return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(result.stdout)}

    objects = printed(evictions={"timeout": "5s"})
    (webhook,) = objects["ValidatingWebhookConfiguration", "situate-vm-ours"]["webhooks"]
    assert webhook["clientConfig"] == {
        "service": {"namespace": "ours", "name": "situate-permits", "path": "/evictions", "port": 443}
    }
    assert [each["resources"] for each in webhook["rules"]] == [["pods/eviction"]]
    assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Ignore", "NoneOnDryRun"), "it holds up nobody"
    assert webhook["timeoutSeconds"] == 5
    assert objects["Secret", "situate-vm-certificates"].get("data") is None
    for vm in ({"evictions": None}, {"compat": True}, {"system": "kubevirt"}):
        assert "ValidatingWebhookConfiguration" not in {kind for kind, _ in printed(**vm)}
