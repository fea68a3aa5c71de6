"""What people do to objects with kubectl, on the embedded server: apply, edit, patch, label, explain, create.

Rollouts, scaling and draining are in `test_kubectl_workloads`. No controllers run here.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.embedded.kubeconfig import write_kubeconfig
from tests.cluster.kinds.test_custom_resources import definition, foo

KUBECTL = Path(sys.executable).with_name("kubectl")
WITHIN_S = 120.0
"""More than enough for anything here; what takes longer hangs."""

WEB: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}


class Kubectl:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def __call__(self, *arguments: str, given: Any = None, editor: str = "") -> str:
        """The output of a call that has to succeed."""
        environment = {"KUBECONFIG": str(self.folder / "kubeconfig"), "HOME": str(self.folder), "EDITOR": editor}
        process = await asyncio.create_subprocess_exec(
            str(KUBECTL),
            *arguments,
            env={"PATH": os.environ["PATH"], **environment},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        raw = b"" if given is None else json.dumps(given).encode()
        output, _ = await asyncio.wait_for(process.communicate(raw), WITHIN_S)
        assert process.returncode == 0, f"kubectl {' '.join(arguments)}: {output.decode()}"
        return output.decode()


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with EmbeddedServer(Settings(machinery=None)) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server.kubeconfig())
        yield Kubectl(tmp_path)


async def test_apply_on_both_sides(kubectl: Kubectl) -> None:
    assert await kubectl("apply", "-f", "-", given=WEB) == "deployment.apps/web created\n"
    assert await kubectl("apply", "-f", "-", given=WEB) == "deployment.apps/web unchanged\n"
    more = {**WEB, "spec": {**WEB["spec"], "replicas": 3}}
    assert "serverside-applied" in await kubectl("apply", "--server-side", "-f", "-", given=more)
    shown = json.loads(await kubectl("get", "deployment", "web", "-o", "json", "--show-managed-fields"))
    assert shown["spec"]["replicas"] == 3
    assert ("kubectl", "Apply") in [(e["manager"], e["operation"]) for e in shown["metadata"]["managedFields"]]


async def test_showing(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=WEB)
    wide = (await kubectl("get", "deployment", "-o", "wide")).splitlines()
    assert wide[0].split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]
    assert wide[1].split()[:4] == ["web", "0/2", "0", "0"]
    assert "app=web" in await kubectl("describe", "deployment", "web")
    rows = await kubectl("api-resources", "--no-headers")
    assert "statefulsets" in rows
    assert "situate" not in await kubectl("version")


async def test_changing(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=WEB)
    await kubectl("label", "deployment", "web", "tier=front")
    await kubectl("annotate", "deployment", "web", "why=because")
    await kubectl("patch", "deployment", "web", "-p", '{"spec":{"replicas":5}}')
    await kubectl("scale", "deployment/web", "--replicas=6")
    script = kubectl.folder / "editor"
    script.write_text("#!/bin/sh\nsed -i s/replicas:.6/replicas:\\ 7/ $1\n")
    script.chmod(0o755)
    assert "edited" in await kubectl("edit", "deployment", "web", editor=str(script))
    shown = json.loads(await kubectl("get", "deployment", "web", "-o", "json"))
    assert shown["metadata"]["labels"] == {"tier": "front"}
    assert shown["metadata"]["annotations"]["why"] == "because"
    assert shown["spec"]["replicas"] == 7
    assert "deleted" in await kubectl("delete", "deployment", "web")


async def test_creating_as_go_clients_do(kubectl: Kubectl) -> None:
    """Typed clients send protobuf."""
    await kubectl("create", "namespace", "n")
    await kubectl("create", "configmap", "c", "--from-literal=a=b", "-n", "n")
    await kubectl("create", "deployment", "d", "--image=i", "--port=80", "-n", "n")
    await kubectl("create", "secret", "generic", "s", "--from-literal=a=b", "-n", "n")
    assert json.loads(await kubectl("get", "configmap", "c", "-n", "n", "-o", "json"))["data"] == {"a": "b"}
    made = json.loads(await kubectl("get", "deployment", "d", "-n", "n", "-o", "json"))
    assert made["spec"]["template"]["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


async def test_a_list_of_objects(kubectl: Kubectl) -> None:
    """kubectl knows no schema of a List: it asks for the document of version 2, and the server checks the items."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    several = {"apiVersion": "v1", "kind": "List", "items": [config, WEB]}
    made = "configmap/c created\ndeployment.apps/web created\n"
    assert await kubectl("create", "-f", "-", given=several) == made
    assert "configured" in await kubectl("apply", "-f", "-", given=several)
    with pytest.raises(AssertionError, match=r"unknown field .*dota"):
        await kubectl("apply", "-f", "-", given={**several, "items": [{**config, "dota": {}}]})


async def test_custom_resources(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=definition())
    assert "size\t<string>" in await kubectl("explain", "foos.spec")
    await kubectl("apply", "-f", "-", given=foo(size="big"))
    assert (await kubectl("get", "fo", "--no-headers")).split() == ["f", "big"]
    await kubectl("delete", "fo", "f")


async def test_watching(kubectl: Kubectl) -> None:
    process = await asyncio.create_subprocess_exec(
        str(KUBECTL),
        *("get", "configmaps", "--watch", "-o", "name"),
        env={"PATH": os.environ["PATH"], "KUBECONFIG": str(kubectl.folder / "kubeconfig"), "HOME": str(kubectl.folder)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await kubectl("create", "configmap", "seen")
    line = await asyncio.wait_for(process.stdout.readline(), WITHIN_S)
    process.terminate()
    await process.wait()
    assert line == b"configmap/seen\n"
