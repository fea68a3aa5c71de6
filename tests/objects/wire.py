"""Objects as a real API server writes them, for the tests of this folder."""

from __future__ import annotations

from typing import Any

import msgspec


def wire_pod(number: int) -> dict[str, Any]:
    """A pod of a ReplicaSet of 50, with managed fields, a token mount of its own name and a kubelet's conditions."""
    owner = f"web-{number // 50}-7d4b9c6f5d"
    token = f"kube-api-access-{number:05d}"
    at = f"2024-01-01T00:{number % 60:02d}:01Z"
    return {
        "metadata": {
            "name": f"{owner}-{number:05d}",
            "generateName": f"{owner}-",
            "namespace": f"team-{number % 20}",
            "uid": f"4a1c6a0a-7a0a-4a0a-8a0a-{number:012d}",
            "resourceVersion": str(1_000_000 + number),
            "generation": 1,
            "creationTimestamp": at,
            "labels": {"app": f"web-{number // 50}", "pod-template-hash": "7d4b9c6f5d"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": owner,
                    "uid": f"5a1c6a0a-7a0a-4a0a-8a0a-{number // 50:012d}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": "kube-controller-manager",
                    "operation": "Update",
                    "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}},
                }
            ],
        },
        "spec": {
            "volumes": [
                {"name": token, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
            ],
            "containers": [
                {
                    "name": "web",
                    "image": "registry.example.com/team/web:1.2.3",
                    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                    "env": [{"name": f"VARIABLE_{n}", "value": "some value"} for n in range(8)],
                    "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
                    "volumeMounts": [{"name": token, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
                }
            ],
            "restartPolicy": "Always",
            "nodeName": f"node-{number % 500}",
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            "priority": 0,
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": type_, "status": "True", "lastProbeTime": None, "lastTransitionTime": at}
                for type_ in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "hostIP": f"10.0.0.{number % 250}",
            "podIP": f"10.1.{number // 250}.{number % 250}",
            "startTime": at,
            "containerStatuses": [
                {
                    "name": "web",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": at}},
                    "lastState": {},
                    "containerID": f"containerd://{number:064d}",
                }
            ],
            "qosClass": "Burstable",
        },
    }


def wire_list(items: list[dict[str, Any]], **metadata: Any) -> bytes:
    return msgspec.json.encode({"kind": "List", "metadata": {"resourceVersion": "7", **metadata}, "items": items})
