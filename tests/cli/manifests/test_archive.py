"""What `situate manifests archive` prints fits the server that it starts."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.main import app

REPORTS = "batch.example.com/v1/reports"


def printed(*resources: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["manifests", "archive", *(f"--resource={each}" for each in resources)])
    assert result.exit_code == 0, result.stderr
    return {each["kind"]: each for each in yaml.safe_load_all(result.stdout)}


def test_it_may_show_what_is_live_and_ask_about_its_users_and_nothing_else() -> None:
    rules = printed(REPORTS, "batch.example.com/v1/plans")["ClusterRole"]["rules"]
    assert [(rule["apiGroups"], rule["resources"], rule["verbs"]) for rule in rules] == [
        (["batch.example.com"], ["reports"], ["get", "list"]),
        (["authentication.k8s.io"], ["tokenreviews"], ["create"]),
        (["authorization.k8s.io"], ["subjectaccessreviews"], ["create"]),
        (["batch.example.com"], ["plans"], ["get", "list"]),
    ]


def test_its_certificate_and_url_come_from_secrets_that_are_mounted_where_it_looks() -> None:
    objects = printed(REPORTS)
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {each["mountPath"] for each in container["volumeMounts"]}
    files = [each for each in container["args"] if each.startswith("/")]
    assert {file.rpartition("/")[0] for file in files} == mounts
    assert [each["secret"]["secretName"] for each in pod["volumes"]] == ["situate-archive-tls", "situate-archive-url"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "https", "scheme": "HTTPS"}
    assert objects["Service"]["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]


@pytest.mark.parametrize("resources", [[], ["reports"], ["v1/configmaps"], ["a.b/v1/c/d"]])
def test_what_is_no_resource_is_refused(resources: list[str]) -> None:
    arguments = ["manifests", "archive", *(f"--resource={each}" for each in resources)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "--resource" in result.stderr
