"""What an unmodified kubectl says and does, in the same words on both servers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contract.api import Api
from tests.contract.servers import Server, new_namespace
from tests.contract.things import configmap, core, deployment, statefulset
from tests.contract.work import Work
from tests.waiting import WITHIN_S

Json = dict[str, Any]

KUBECTL = Path(sys.executable).with_name("kubectl")


class Kubectl:
    """kubectl in one namespace of one server."""

    def __init__(self, config: Path, folder: Path, namespace: str) -> None:
        self.folder = folder
        self._namespace = namespace
        plain = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder), "KUBECONFIG": str(config)}
        self._environment = {**plain, "EDITOR": str(folder / "editor")}

    async def tried(self, line: str, given: Any = None) -> tuple[int, str]:
        """Exit code, and output with errors behind it; words are parted by blanks."""
        process = await asyncio.create_subprocess_exec(
            *(str(KUBECTL), "-n", self._namespace, *line.split(" ")),
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        raw = json.dumps(given).encode() if given is not None else b""
        output, errors = await asyncio.wait_for(process.communicate(raw), WITHIN_S)
        return process.returncode or 0, output.decode() + errors.decode()

    async def __call__(self, line: str, given: Any = None) -> str:
        """The output of a call that has to succeed."""
        code, output = await self.tried(line, given)
        assert code == 0, f"kubectl {line}: {output}"
        return output

    async def fails(self, line: str, given: Any = None) -> str:
        """What a call says that has to fail."""
        code, output = await self.tried(line, given)
        assert code == 1, f"kubectl {line}: {code}: {output}"
        return output

    def edits(self, before: str, after: str) -> None:
        """What the editor will do to a file."""
        script = self.folder / "editor"
        script.write_text(f'#!/bin/sh\nsed -i "s/{before}/{after}/" "$1"\n')
        script.chmod(0o755)


@pytest.fixture
async def kubectl(server: Server, api: Api, tmp_path: Path) -> Kubectl:
    return Kubectl(server.kubeconfig(tmp_path), tmp_path, await new_namespace(api))


@pytest.fixture
async def working(cluster: Server, work: Work, tmp_path: Path) -> Kubectl:
    """On a cluster with controllers and nodes."""
    return Kubectl(cluster.kubeconfig(tmp_path), tmp_path, work.namespace)


class TestApply:
    async def test_on_both_sides(self, kubectl: Kubectl) -> None:
        web = deployment("web", 2)
        more = {**web, "spec": {**web["spec"], "replicas": 3}}
        assert await kubectl("apply -f -", web) == "deployment.apps/web created\n"
        assert await kubectl("apply -f -", web) == "deployment.apps/web unchanged\n"
        assert await kubectl("apply -f -", more) == "deployment.apps/web configured\n"
        assert await kubectl("apply --server-side -f -", more) == "deployment.apps/web serverside-applied\n"
        told = await kubectl.fails("apply --server-side --field-manager=other -f -", web)
        assert 'Apply failed with 1 conflict: conflict with "kubectl": .spec.replicas' in told
        forced = "apply --server-side --field-manager=other --force-conflicts -f -"
        assert await kubectl(forced, web) == "deployment.apps/web serverside-applied\n"
        assert await kubectl("apply --dry-run=server -f -", more) == "deployment.apps/web configured (server dry run)\n"
        assert await kubectl("get deployment web -o jsonpath={.spec.replicas}") == "2"

    async def test_pruning(self, kubectl: Kubectl) -> None:
        several = {"apiVersion": "v1", "kind": "List", "items": [configmap(n, labels={"set": "one"}) for n in "ab"]}
        assert await kubectl("apply -f -", several) == "configmap/a created\nconfigmap/b created\n"
        alone = {**several, "items": several["items"][:1]}
        told = await kubectl("apply --prune -l set=one --prune-allowlist=core/v1/ConfigMap -f -", alone)
        assert told == "configmap/a unchanged\nconfigmap/b pruned\n"

    async def test_differences(self, kubectl: Kubectl) -> None:
        assert await kubectl.fails("diff -f -", configmap("c", {"a": "1"}))
        await kubectl("apply -f -", configmap("c", {"a": "1"}))
        assert await kubectl("diff -f -", configmap("c", {"a": "1"})) == ""
        told = await kubectl.fails("diff --server-side -f -", configmap("c", {"a": "2"}))
        assert re.search(r'^-  a: "1"\n\+  a: "2"$', told, re.MULTILINE)

    async def test_replacing(self, kubectl: Kubectl) -> None:
        await kubectl("create -f -", configmap("c", {"a": "1"}))
        old = json.loads(await kubectl("get configmap c -o json"))
        assert await kubectl("replace -f -", configmap("c", {"a": "2"})) == "configmap/c replaced\n"
        assert "the object has been modified; please apply your changes" in await kubectl.fails("replace -f -", old)


class TestChanging:
    async def test_patches(self, kubectl: Kubectl) -> None:
        await kubectl("create -f -", deployment("web", 2))
        for form, patch in (
            ("strategic", {"spec": {"replicas": 3}}),
            ("merge", {"spec": {"replicas": 4}}),
            ("json", [{"op": "replace", "path": "/spec/replicas", "value": 5}]),
        ):
            line = f"patch deployment web --type={form} -p {json.dumps(patch, separators=(',', ':'))}"
            assert await kubectl(line) == "deployment.apps/web patched\n"
            assert await kubectl(line) == "deployment.apps/web patched (no change)\n"
        assert await kubectl("get deployment web -o jsonpath={.spec.replicas}") == "5"
        told = await kubectl.fails('patch deployment web -p {"spec":{"selector":{"matchLabels":{"a":"b"}}}}')
        assert told.startswith('The Deployment "web" is invalid: \n* spec.template.metadata.labels: Invalid value: ')

    async def test_labels_annotations_and_scale(self, kubectl: Kubectl) -> None:
        await kubectl("create -f -", deployment("web", 2))
        assert await kubectl("label deployment web tier=front") == "deployment.apps/web labeled\n"
        assert "already has a value (front), and --overwrite is false" in await kubectl.fails(
            "label deployment web tier=back"
        )
        assert await kubectl("label deployment web tier-") == "deployment.apps/web unlabeled\n"
        assert await kubectl("annotate deployment web why=so") == "deployment.apps/web annotated\n"
        assert await kubectl("scale deployment/web --replicas=3") == "deployment.apps/web scaled\n"
        told = await kubectl.fails("scale deployment/web --replicas=3 --current-replicas=9")
        assert "Expected replicas to be 9, was 3" in told

    async def test_an_editor(self, kubectl: Kubectl) -> None:
        await kubectl("create -f -", deployment("web", 2))
        kubectl.edits("replicas: 2", "replicas: 3")
        assert await kubectl("edit deployment web") == "deployment.apps/web edited\n"
        kubectl.edits("nothing", "nothing")
        assert await kubectl("edit deployment web") == "Edit cancelled, no changes made.\n"
        kubectl.edits("replicas: 3", "replicas: -3")
        told = await kubectl.fails("edit deployment web")
        assert 'error: deployments.apps "web" is invalid\n' in told

    async def test_deleting(self, kubectl: Kubectl) -> None:
        await kubectl("create -f -", configmap("c"))
        assert re.match(r'configmap "c" deleted', await kubectl("delete configmap c"))
        assert await kubectl.fails("delete configmap c") == 'Error from server (NotFound): configmaps "c" not found\n'
        assert await kubectl("delete configmap c --ignore-not-found") == ""


class TestShowing:
    async def test_forms(self, kubectl: Kubectl) -> None:
        await kubectl("create -f -", deployment("web", 2))
        wide = (await kubectl("get deployment -o wide")).splitlines()
        assert wide[0].split() == [
            "NAME",
            "READY",
            "UP-TO-DATE",
            "AVAILABLE",
            "AGE",
            "CONTAINERS",
            "IMAGES",
            "SELECTOR",
        ]
        assert wide[1].split()[:4] == ["web", "0/2", "0", "0"]
        assert await kubectl("get deployment -o name") == "deployment.apps/web\n"
        columns = "custom-columns=N:.metadata.name,R:.spec.replicas,X:.nobody"
        assert await kubectl(f"get deployment -o {columns}") == "N     R     X\nweb   2     <none>\n"
        assert (await kubectl("get deployment web -o yaml")).startswith("apiVersion: apps/v1\nkind: Deployment\n")
        assert await kubectl("get deployments --field-selector=metadata.name=x") == (await self.nothing(kubectl))
        assert "Replicas:" in await kubectl("describe deployment web")

    @staticmethod
    async def nothing(kubectl: Kubectl) -> str:
        return f"No resources found in {kubectl._namespace} namespace.\n"

    async def test_what_is_not_there(self, kubectl: Kubectl) -> None:
        assert await kubectl.fails("get pod x") == 'Error from server (NotFound): pods "x" not found\n'
        assert await kubectl.fails("get nobodies") == 'error: the server doesn\'t have a resource type "nobodies"\n'
        assert "Metrics API not available" in await kubectl.fails("top pods")
        assert "timed out waiting for the condition" in await kubectl.fails("wait --for=create pod/x --timeout=1s")

    async def test_about_the_server(self, kubectl: Kubectl) -> None:
        assert re.search(r"^Server Version: v1\.36\.", await kubectl("version"), re.MULTILINE)
        assert "Kubernetes control plane" in await kubectl("cluster-info")
        assert {"v1", "apps/v1", "policy/v1", "batch/v1"} <= set((await kubectl("api-versions")).split())
        resources = await kubectl("api-resources --api-group=apps -o name")
        assert {"deployments.apps", "statefulsets.apps"} <= set(resources.split())
        assert await kubectl("auth can-i create pods") == "yes\n"
        assert "system:masters" in await kubectl("auth whoami")
        assert "FIELD: replicas <integer>" in await kubectl("explain deployment.spec.replicas")


class TestWorkloads:
    async def test_a_rollout_forth_and_back(self, working: Kubectl, work: Work) -> None:
        await working("create -f -", deployment("web", 2))
        done = 'deployment "web" successfully rolled out\n'
        assert (await working("rollout status deployment/web --timeout=100s")).endswith(done)
        assert await working("set image deployment/web app=b:2") == "deployment.apps/web image updated\n"
        assert (await working("rollout status deployment/web --timeout=100s")).endswith(done)
        history = await working("rollout history deployment/web")
        assert [line.split()[0] for line in history.splitlines() if line[:1].isdigit()] == ["1", "2"]
        assert await working("rollout undo deployment/web") == "deployment.apps/web rolled back\n"
        assert (await working("rollout status deployment/web --timeout=100s")).endswith(done)
        assert "unable to find specified revision 9" in await working.fails(
            "rollout undo deployment/web --to-revision=9"
        )
        assert await working("rollout restart deployment/web") == "deployment.apps/web restarted\n"
        assert (await working("rollout status deployment/web --timeout=100s")).endswith(done)
        await working("rollout pause deployment/web")
        assert "is already paused" in await working.fails("rollout pause deployment/web")
        assert await working("rollout resume deployment/web") == "deployment.apps/web resumed\n"

    async def test_a_rollout_that_gets_nowhere(self, working: Kubectl, work: Work) -> None:
        body = deployment("web", 1, progressDeadlineSeconds=2)
        body["spec"]["template"]["metadata"]["annotations"] = {"notready": ""}
        await working("create -f -", body)
        told = await working.fails("rollout status deployment/web --timeout=100s")
        assert told.endswith('error: deployment "web" exceeded its progress deadline\n')

    async def test_a_stateful_set(self, working: Kubectl, work: Work) -> None:
        await working("create -f -", statefulset("db", 2))
        told = await working("rollout status statefulset/db --timeout=100s")
        assert told.endswith("partitioned roll out complete: 2 new pods have been updated...\n")
        assert await working("scale statefulset/db --replicas=1") == "statefulset.apps/db scaled\n"
        assert "condition met" in await working(
            "wait --for=jsonpath={.status.replicas}=1 statefulset/db --timeout=100s"
        )
        await working("wait --for=delete pod/db-1 --timeout=100s")
        await work.known_to_collector()
        assert "deleted" in await working("delete statefulset db --cascade=orphan")
        assert await working("get pods -o name") == "pod/db-0\n"
        assert "force deleted" in await working("delete pod db-0 --force --grace-period=0")

    @pytest.mark.parametrize("cascade", ["foreground", "background"])
    async def test_cascades(self, working: Kubectl, work: Work, cascade: str) -> None:
        await working("create -f -", deployment("web", 2))
        await working("rollout status deployment/web --timeout=100s")
        assert "deleted" in await working(f"delete deployment web --cascade={cascade} --timeout=100s")
        await working("wait --for=delete pod,replicaset -l app=web --timeout=100s")

    async def test_a_drain(self, working: Kubectl, work: Work, own_host: str) -> None:
        assert await working(f"cordon {own_host}") == f"node/{own_host} cordoned\n"
        assert await working(f"cordon {own_host}") == f"node/{own_host} already cordoned\n"
        bare = {"metadata": {"name": "bare", "labels": {"app": "web"}}}
        spec = {"nodeName": own_host, "containers": [{"name": "c", "image": "i"}]}
        await working("create -f -", {"apiVersion": "v1", "kind": "Pod", **bare, "spec": spec})
        await working("wait --for=condition=Ready pod/bare --timeout=100s")
        told = await working.fails(f"drain {own_host}")
        assert "cannot delete Pods that declare no controller (use --force to override)" in told
        told = await working(f"drain {own_host} --force --timeout=100s")
        assert f"node/{own_host} drained\n" in told
        assert "deleting Pods that declare no controller" in told
        assert await working("get pods -o name") == ""
        assert await working(f"uncordon {own_host}") == f"node/{own_host} uncordoned\n"


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
class TestEmbedded:
    """What only the embedded server says."""

    async def test_pods_of_daemon_sets_are_left_alone(self, working: Kubectl, work: Work, own_host: str) -> None:
        """On the real one a DaemonSet makes them itself, and they come back."""
        path = "/apis/apps/v1/namespaces/" + work.namespace + "/daemonsets"
        labels = {"app": "ds"}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        body = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}
        made = (await work.api.post(path, {"metadata": {"name": "ds"}, "spec": body})).ok(201)
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": made["metadata"]["uid"]}
        meta = {"name": "p", "labels": labels, "ownerReferences": [{**owner, "controller": True}]}
        pod = {"metadata": meta, "spec": {**spec, "nodeName": own_host}}
        (await work.api.post(core(work.namespace, "pods"), pod)).ok(201)
        told = await working.fails(f"drain {own_host}")
        assert "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)" in told
        told = await working(f"drain {own_host} --ignore-daemonsets")
        assert f"node/{own_host} drained" in told
        assert "ignoring DaemonSet-managed Pods" in told

    @pytest.mark.parametrize(
        ("line", "told"),
        [
            ("logs p", "containers do not run, so they print nothing"),
            ("exec p -- ls", "containers do not run"),
            ("attach p", "containers do not run"),
            ("port-forward pod/p 8080:80", "containers do not run"),
            ("debug p --image=b", "containers do not run"),
            ("create quota q --hard=pods=1", "does not serve resourcequotas: quotas are not enforced"),
        ],
    )
    async def test_refused_by_name(self, working: Kubectl, work: Work, hosts: list[str], line: str, told: str) -> None:
        spec = {"nodeName": hosts[0], "containers": [{"name": "c", "image": "i"}]}
        (await work.api.post(core(work.namespace, "pods"), {"metadata": {"name": "p"}, "spec": spec})).ok(201)
        await work.settled(1)
        assert told in await working.fails(line)
