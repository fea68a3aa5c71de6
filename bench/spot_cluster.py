"""An embedded API server full of pods, as a process of its own, for `bench.spot`.

    python -m bench.spot_cluster [--pods N] [--growing N]

Deployments of fifty pods each, all running; and besides them so many that want fifty and have none yet, in the
namespace `growing`. No controllers: what is written stays as it is. The first line ends with the URL.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from typing import Any, Final

import msgspec

from bench.pods import shown
from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.objects.messages import Request, Response
from situate.runtime.process.logs import configure_logging
from situate.runtime.process.startup import run_process

REPLICAS: Final = 50
ON_DEMAND: Final = 15
GROWING: Final = "growing"
NODES: Final = 200
_EVICTION_S: Final = 20
"""As admission has it for spot pods on lost nodes."""
_NUMBERS: Final = itertools.count()
_TEMPLATE: Final[dict[str, Any]] = {
    "serviceAccountName": "default",
    "containers": [
        {
            "name": "app",
            "image": "registry.example/shop/app:2026-01-01",
            "args": ["--port=8080", "--log=json", "--tracing=off"],
            "env": [{"name": f"SETTING_{number}", "value": f"the value of setting {number}"} for number in range(6)],
            "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "512Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 5},
        }
    ],
}


class _Filling:
    """Objects as clients and kubelets would have written them."""

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server

    def everything(self, pods: int, growing: int) -> None:
        for namespace in ("shop", GROWING):
            self._write("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        self._server.create_nodes(map(_node, range(NODES)))
        for number in range(pods // REPLICAS):
            self._grown("shop", f"web-{number}")
        for number in range(growing):
            self._workload(GROWING, f"new-{number}")

    def _grown(self, namespace: str, name: str) -> None:
        hashed, owner = self._workload(namespace, name)
        for ordinal in range(REPLICAS):
            number = next(_NUMBERS)
            like = msgspec.json.decode(shown(number, 1))
            pod_class = "on-demand" if ordinal < ON_DEMAND else "spot"
            metadata = {
                "name": f"{name}-{hashed}-{number:05x}",
                "generateName": f"{name}-{hashed}-",
                "labels": {"app": name, "pod-template-hash": hashed, "spot.situate.dev/class": pod_class},
                "annotations": {
                    "controller.kubernetes.io/pod-deletion-cost": "200" if pod_class == "on-demand" else "100",
                    "spot.situate.dev/decision": _decision(number, owner["uid"], hashed, pod_class),
                },
                "ownerReferences": [owner],
            }
            capacity = (number // 2) % (NODES // 2) * 2 + (pod_class == "spot")
            spec = {**like["spec"], "nodeName": _node_name(capacity)}
            if pod_class == "spot":
                spec["tolerations"] = [{**each, "tolerationSeconds": _EVICTION_S} for each in spec["tolerations"]]
            path = f"/api/v1/namespaces/{namespace}/pods"
            self._write("POST", path, {"metadata": metadata, "spec": spec})
            body = {"metadata": {"name": metadata["name"]}, "status": like["status"]}
            self._write("PATCH", f"{path}/{metadata['name']}/status", body)

    def _workload(self, namespace: str, name: str) -> tuple[str, dict[str, Any]]:
        """A Deployment and its ReplicaSet; the hash of its pods and the reference that they carry."""
        hashed = f"{next(_NUMBERS):09x}"
        labels = {"app": name}
        spec = {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _TEMPLATE},
        }
        metadata = {"name": name, "labels": labels, "annotations": {"spot.situate.dev/on-demand": str(ON_DEMAND)}}
        path = f"/apis/apps/v1/namespaces/{namespace}"
        made = self._write("POST", f"{path}/deployments", {"metadata": metadata, "spec": spec})
        both = {**labels, "pod-template-hash": hashed}
        of_set = {
            "name": f"{name}-{hashed}",
            "labels": both,
            "annotations": {"deployment.kubernetes.io/revision": "1"},
            "ownerReferences": [_reference("Deployment", made)],
        }
        spec = {
            "replicas": REPLICAS,
            "selector": {"matchLabels": both},
            "template": {"metadata": {"labels": both}, "spec": _TEMPLATE},
        }
        made = self._write("POST", f"{path}/replicasets", {"metadata": of_set, "spec": spec})
        return hashed, _reference("ReplicaSet", made)

    def _write(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        patch = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = Request(method, path, (), {"content-type": patch}, msgspec.json.encode(body))
        answer = self._server.api.answer(request, time.time())
        assert isinstance(answer, Response), "a write is answered at once"
        found: dict[str, Any] = msgspec.json.decode(answer.body)
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {found}")
        return found


def _reference(kind: str, made: dict[str, Any]) -> dict[str, Any]:
    name, uid = made["metadata"]["name"], made["metadata"]["uid"]
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid}
    return {**reference, "controller": True, "blockOwnerDeletion": True}


def _decision(number: int, owner: str, revision: str, pod_class: str) -> str:
    content = {
        "token": f"{number:016x}",
        "owner": owner,
        "rev": revision,
        "class": pod_class,
        "target": ON_DEMAND,
        "od": ON_DEMAND,
        "why": "target-met",
        "epoch": 1,
    }
    return msgspec.json.encode(content).decode()


def _node_name(number: int) -> str:
    return f"node-{number:04}"


def _node(number: int) -> dict[str, Any]:
    """On demand and spot in turn."""
    room = {"cpu": "64", "memory": "256Gi", "pods": "500"}
    labels = {
        "kubernetes.io/hostname": _node_name(number),
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "node.kubernetes.io/instance-type": "m5.16xlarge",
        "node.kubernetes.io/capacity": "spot" if number % 2 else "on-demand",
    }
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": _node_name(number), "labels": labels}, "status": status}


async def _serve(pods: int, growing: int) -> None:
    async with EmbeddedServer(Settings(machinery=None)) as server:
        _Filling(server).everything(pods, growing)
        sys.stdout.write(f"the API server answers at {server.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spot_cluster")
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--growing", type=int, default=100)
    chosen = parser.parse_args()
    configure_logging("warning")
    run_process(_serve(chosen.pods, chosen.growing))


if __name__ == "__main__":
    main()
