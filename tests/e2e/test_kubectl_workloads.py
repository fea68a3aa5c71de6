"""What people do to workloads with kubectl, on the embedded server: rollouts, scaling, draining, cascading deletion.

kubectl is the real one, of the wheel; the server and its controllers run in this process, in real time.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from situate.cluster.controllers.node.nodes import nodes
from situate.embedded.embedded_server import EmbeddedServer

KUBECTL = Path(sys.executable).with_name("kubectl")
WITHIN_S = 120.0
"""More than enough for anything here; what takes longer hangs."""


class Kubectl:
    """kubectl against one server."""

    def __init__(self, kubeconfig: Path) -> None:
        self._environment = {"KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent), "PATH": "/usr/bin:/bin"}

    async def __call__(self, *arguments: str, given: str = "") -> str:
        """The output of a call that has to succeed."""
        code, output, errors = await self.tried(*arguments, given=given)
        assert code == 0, f"kubectl {' '.join(arguments)}: {errors or output}"
        return output

    async def tried(self, *arguments: str, given: str = "") -> tuple[int, str, str]:
        """Exit code, output and errors."""
        process = await asyncio.create_subprocess_exec(
            str(KUBECTL),
            *arguments,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await asyncio.wait_for(process.communicate(given.encode()), WITHIN_S)
        return process.returncode or 0, output.decode(), errors.decode()

    async def json(self, *arguments: str) -> Any:
        return json.loads(await self("get", *arguments, "-o", "json"))

    async def names(self, *arguments: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await self.json(*arguments))["items"]]


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """A cluster of three nodes."""
    async with EmbeddedServer() as server:
        config = tmp_path / "kubeconfig"
        config.write_text(yaml.safe_dump(server.kubeconfig()))
        call = Kubectl(config)
        await call("create", "-f", "-", given=yaml.safe_dump_all(nodes(3)))
        await call("wait", "--for=condition=Ready", "node", "--all", "--timeout=100s")
        yield call


async def images(kubectl: Kubectl) -> set[str]:
    pods = await kubectl.json("pods", "-l", "app=web")
    living = (item for item in pods["items"] if "deletionTimestamp" not in item["metadata"])
    return {item["spec"]["containers"][0]["image"] for item in living}


STATEFUL_SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: "db:1"}]}
"""


def deployment(replicas: int, namespace: str = "default") -> str:
    return f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: {namespace}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: web, image: "web:1"}}]}}
"""


BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
"""
NAMESPACE = "{apiVersion: v1, kind: Namespace, metadata: {name: team}}"


async def test_a_rollout_forth_and_back(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=deployment(3))
    told = await kubectl("rollout", "status", "deployment/web", "--timeout=100s")
    assert 'deployment "web" successfully rolled out' in told
    await kubectl("set", "image", "deployment/web", "web=web:2")
    await kubectl("rollout", "status", "deployment/web", "--timeout=100s")
    assert await images(kubectl) == {"web:2"}
    history = await kubectl("rollout", "history", "deployment/web")
    assert [line.split()[0] for line in history.splitlines() if line[:1].isdigit()] == ["1", "2"]
    await kubectl("rollout", "undo", "deployment/web")
    await kubectl("rollout", "status", "deployment/web", "--timeout=100s")
    assert await images(kubectl) == {"web:1"}
    found = await kubectl.json("deployment", "web")
    assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
    described = await kubectl("describe", "deployment", "web")
    assert "ScalingReplicaSet" in described
    assert "NewReplicaSetAvailable" in described
    wide = await kubectl("get", "pods", "-o", "wide")
    assert "node-0" in wide
    assert "10.128.0." in wide


async def test_a_rollout_that_gets_nowhere_fails(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=deployment(1))
    await kubectl("rollout", "status", "deployment/web", "--timeout=100s")
    template = {"metadata": {"annotations": {"notready": "1"}}}
    patch = {"spec": {"progressDeadlineSeconds": 2, "minReadySeconds": 0, "template": template}}
    await kubectl("patch", "deployment", "web", "-p", json.dumps(patch))
    code, _, errors = await kubectl.tried("rollout", "status", "deployment/web", "--timeout=100s")
    assert code != 0
    assert 'deployment "web" exceeded its progress deadline' in errors


async def test_scaling_and_pausing(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=deployment(1))
    await kubectl("scale", "deployment/web", "--replicas=4")
    await kubectl("wait", "deployment/web", "--for=jsonpath={.status.readyReplicas}=4", "--timeout=100s")
    await kubectl("rollout", "pause", "deployment/web")
    await kubectl("set", "image", "deployment/web", "web=web:2")
    assert await images(kubectl) == {"web:1"}
    await kubectl("rollout", "resume", "deployment/web")
    await kubectl("rollout", "status", "deployment/web", "--timeout=100s")
    assert await images(kubectl) == {"web:2"}


async def test_a_stateful_set_is_scaled_in_order_and_restarted(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=STATEFUL_SET)
    await kubectl("rollout", "status", "statefulset/db", "--timeout=100s")
    assert await kubectl.names("pods") == ["db-0", "db-1", "db-2"]
    before = {item["metadata"]["uid"] for item in (await kubectl.json("pods"))["items"]}
    await kubectl("rollout", "restart", "statefulset/db")
    await kubectl("rollout", "status", "statefulset/db", "--timeout=100s")
    after = {item["metadata"]["uid"] for item in (await kubectl.json("pods"))["items"]}
    assert not before & after
    await kubectl("scale", "statefulset/db", "--replicas=1")
    await kubectl("wait", "pod/db-1", "pod/db-2", "--for=delete", "--timeout=100s")
    assert await kubectl.names("pods") == ["db-0"]


async def test_a_node_is_cordoned_drained_and_taken_back(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=deployment(3))
    await kubectl("rollout", "status", "deployment/web", "--timeout=100s")
    await kubectl("apply", "-f", "-", given=BUDGET)
    await kubectl("wait", "pdb/web", "--for=jsonpath={.status.disruptionsAllowed}=1", "--timeout=100s")
    await kubectl("cordon", "node-0")
    assert "SchedulingDisabled" in await kubectl("get", "node", "node-0")
    told = await kubectl("drain", "node-0", "--ignore-daemonsets", "--timeout=100s")
    assert "node/node-0 drained" in told
    await kubectl("wait", "deployment/web", "--for=jsonpath={.status.availableReplicas}=3", "--timeout=100s")
    pods = await kubectl.json("pods", "-l", "app=web")
    assert all(item["spec"].get("nodeName") != "node-0" for item in pods["items"])
    await kubectl("uncordon", "node-0")
    assert "SchedulingDisabled" not in await kubectl("get", "node", "node-0")


@pytest.mark.parametrize("cascade", ["background", "foreground"])
async def test_deletion_takes_everything_below(kubectl: Kubectl, cascade: str) -> None:
    await kubectl("apply", "-f", "-", given=deployment(2))
    await kubectl("rollout", "status", "deployment/web", "--timeout=100s")
    await kubectl("delete", "deployment", "web", f"--cascade={cascade}")
    await kubectl("wait", "pod", "-l", "app=web", "--for=delete", "--timeout=100s")
    assert await kubectl.names("replicasets") == []


async def test_orphaning_deletion_leaves_the_pods_for_a_successor(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=STATEFUL_SET)
    await kubectl("rollout", "status", "statefulset/db", "--timeout=100s")
    await kubectl("delete", "statefulset", "db", "--cascade=orphan")
    pods = (await kubectl.json("pods"))["items"]
    assert [item["metadata"]["name"] for item in pods] == ["db-0", "db-1", "db-2"]
    assert all(not item["metadata"].get("ownerReferences") for item in pods)
    await kubectl("apply", "-f", "-", given=STATEFUL_SET)
    await kubectl("rollout", "status", "statefulset/db", "--timeout=100s")
    uids = {item["metadata"]["uid"] for item in (await kubectl.json("pods"))["items"]}
    assert uids == {item["metadata"]["uid"] for item in pods}


async def test_a_namespace_goes_with_what_is_in_it(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=NAMESPACE)
    await kubectl("apply", "-f", "-", given=deployment(1, "team"))
    await kubectl("-n", "team", "rollout", "status", "deployment/web", "--timeout=100s")
    await kubectl("delete", "namespace", "team", "--timeout=100s")
    assert "team" not in await kubectl.names("namespaces")
    assert await kubectl.names("pods", "-A") == []
