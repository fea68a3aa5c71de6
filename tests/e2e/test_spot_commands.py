"""`situate spot status|explain|plan` on a real API server: with the rights that are printed, and without any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.kubeconfig import write_kubeconfig
from tests.e2e.spot_installed import Installed, deployment, stateful_set
from tests.waiting import eventually


def kubeconfig_of(installed: Installed, account: str, folder: Path) -> Path:
    """Of a ServiceAccount in the namespace of the installation."""
    plane = installed.cluster.plane
    path = folder / f"{account}.kubeconfig"
    token = plane.service_account_token(installed.space, account)
    write_kubeconfig(
        path, url=plane.url, authority=plane.authority, user=account, token=token, namespace=installed.space
    )
    return path


@pytest.mark.rule("spot:B31", "spot:B32", "spot:B36")
def test_the_rights_of_the_installation_are_enough_to_look_and_what_is_missing_is_named(
    installed: Installed, tmp_path: Path
) -> None:
    cluster = installed.cluster
    installed.deploy(deployment("web", 6, "6"), stateful_set("base", 3))
    installed.wait_pods("web", 6)
    installed.wait_pods("base", 3)

    def asked(verb: str, kubeconfig: Path, *arguments: str) -> tuple[int, Any, str]:
        told = cluster.situate(
            *("spot", verb, *arguments, "-o", "json", "--installation-namespace", installed.space),
            kubeconfig=kubeconfig,
        )
        return told.returncode, json.loads(told.stdout) if told.stdout else None, told.stderr

    account = installed.of_kind("ServiceAccount")["metadata"]["name"]
    own = kubeconfig_of(installed, account, tmp_path)
    code, status, told = asked("status", own, "-n", installed.shop)
    assert (code, told) == (0, ""), "nothing is missing, and nothing has to be remarked"
    shown = {each["name"]: each for each in status["workloads"]}
    assert (shown["web"]["target"], shown["base"]["target"]) == (6, 2)
    on_demand = shown["web"]["onDemand"]
    web = f"Deployment {installed.shop}/web"
    eventually(
        "exactly the difference would be moved, once all pods are ready",
        lambda: asked("plan", own, "-n", installed.shop)[1],
        lambda plan: plan["restarts"].get(web, 0) == 6 - on_demand and web not in plan["blocked"],
    )
    code, story, _ = asked("explain", own, f"{installed.shop}/web")
    assert (code, len(story["pods"])) == (int(on_demand < 6), 6)

    cluster.kubectl("create", "serviceaccount", "nobody", "-n", installed.space)
    nobody = kubeconfig_of(installed, "nobody", tmp_path)
    code, data, told = asked("plan", nobody)
    assert (code, data) == (3, None)
    assert told.count("so nothing can be counted") == 5
    assert 'cannot list resource "pods"' in told
    assert "Traceback" not in told
