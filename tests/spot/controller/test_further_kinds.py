"""Workloads of kinds that not every cluster serves, on the embedded server: an Argo Rollout, an OpenKruise CloneSet."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from situate.cli.main import app
from situate.embedded.kubeconfig import kubeconfig, write_kubeconfig
from situate.spot.admission.webhook_objects import webhook_configuration
from situate.spot.model.object_names import WEBHOOK_PATH
from situate.spot.model.pods_nodes_workloads import CLASS, ON_DEMAND
from situate.spot.workloads.owners import KINDS
from tests.spot.controller.playground import GROUP, OURS, Playground

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ALL = list(KINDS)


def definition(kind: str) -> dict[str, Any]:
    known = KINDS[kind]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": known.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": known.plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{known.plural}.{known.group}"},
        "spec": {"group": known.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def workload(kind: str, name: str, replicas: int, on_demand: str) -> dict[str, Any]:
    known = KINDS[kind]
    labels = {"app": name}
    return {
        "apiVersion": f"{known.group}/{known.version}",
        "kind": kind,
        "metadata": {"name": name, "annotations": {ON_DEMAND: on_demand}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }


async def lead_to(playground: Playground, port: int) -> None:
    content = webhook_configuration(OURS, kinds=tuple(KINDS.values()))
    content["webhooks"][0]["clientConfig"] = {"url": f"https://127.0.0.1:{port}{WEBHOOK_PATH}"}
    await playground.call("POST", GROUP, content)


async def make(playground: Playground, made: dict[str, Any], group: str, plural: str) -> dict[str, Any]:
    """Once the definition is in force."""
    path = f"/apis/{group}/namespaces/shop/{plural}"

    async def served() -> Any:
        async with playground.http.post(path, json=made) as response:
            return await response.json() if response.status == 201 else None

    found: dict[str, Any] = await playground.eventually(f"{plural} are served", served)
    return found


async def create_pod(playground: Playground, name: str, owner: dict[str, Any], labels: dict[str, str]) -> str:
    """As the workload's controller would; the class that the pod got."""
    keys = ("apiVersion", "kind")
    reference = {key: owner[key] for key in keys} | {key: owner["metadata"][key] for key in ("name", "uid")}
    pod = {
        "metadata": {"name": name, "labels": labels, "ownerReferences": [{**reference, "controller": True}]},
        "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
    }
    created = await playground.call("POST", "/api/v1/namespaces/shop/pods", pod)
    return str(created["metadata"]["labels"].get(CLASS, ""))


@pytest.mark.rule("spot:B42", "spot:S3")
async def test_pods_of_a_cloneset_are_classed_and_a_kind_that_is_not_served_holds_up_nothing(
    playground: Playground, port: int
) -> None:
    await playground.call("POST", CRDS, definition("CloneSet"))
    owner = await make(playground, workload("CloneSet", "web", 4, "2"), "apps.kruise.io/v1alpha1", "clonesets")
    async with playground.controller("first", port, ownerKinds=ALL) as ours:
        await lead_to(playground, port)
        await playground.answers(ours)
        assert ours.not_ready() is None, "there are no Rollouts, as nobody knows them"
        labels = {"app": "web", "controller-revision-hash": "web-1"}
        classes = [await create_pod(playground, f"web-{number}", owner, labels) for number in range(4)]
        assert classes == ["on-demand", "on-demand", "spot", "spot"]


@pytest.mark.rule("spot:B42")
async def test_pods_of_a_rollout_are_classed_through_its_replicaset(playground: Playground, port: int) -> None:
    async with playground.controller("first", port, ownerKinds=ALL) as ours:
        await lead_to(playground, port)
        await playground.answers(ours)
        await playground.call("POST", CRDS, definition("Rollout"))  # served only after we have begun
        owner = await make(playground, workload("Rollout", "api", 3, "1"), "argoproj.io/v1alpha1", "rollouts")
        keys = {key: owner[key] for key in ("apiVersion", "kind")}
        reference = keys | {key: owner["metadata"][key] for key in ("name", "uid")}
        labels = {"app": "api", "rollouts-pod-template-hash": "h1"}
        between = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": "api-h1",
                "labels": labels,
                "ownerReferences": [{**reference, "controller": True}],
            },
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
                },
            },
        }
        await playground.call("POST", "/apis/apps/v1/namespaces/shop/replicasets", between)
        assert await playground.classes_of("api", 3) == {"on-demand": 1, "spot": 2}


@pytest.mark.rule("spot:B42")
async def test_check_says_which_kinds_are_not_served(playground: Playground, tmp_path: Path) -> None:
    await playground.call("POST", CRDS, definition("CloneSet"))
    await make(playground, workload("CloneSet", "web", 1, "1"), "apps.kruise.io/v1alpha1", "clonesets")
    file, reached = tmp_path / "situate.yaml", tmp_path / "kubeconfig"
    document = {"apiVersion": "situate.dev/v1alpha1", "kind": "Situate", "spot": {"ownerKinds": ALL}}
    file.write_text(json.dumps(document))
    write_kubeconfig(reached, kubeconfig(playground.server.url))
    arguments = ["check", "-f", str(file), "--kubeconfig", str(reached), "-o", "json"]
    found = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    results = {each["check"]: each for each in json.loads(found.stdout)}
    assert results["resource clonesets.apps.kruise.io v1alpha1"]["ok"]
    rollouts = results["resource rollouts.argoproj.io v1alpha1"]
    assert not rollouts["ok"]
    assert "remove Rollout from spot.ownerKinds" in str(rollouts)
