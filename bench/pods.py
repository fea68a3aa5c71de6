"""Pods as a cluster's API server shows them: some 4 kB each, managers included, twenty templates, a thousand nodes."""

from __future__ import annotations

import json
from typing import Any

_TIMES = 3600
"""Pods started within an hour: that many different times stand in their conditions."""


def to_create(name: str, **labels: str) -> dict[str, Any]:
    """A plain pod, as a client sends it."""
    requests = {"cpu": "100m", "memory": "128Mi"}
    container = {"name": "app", "image": "registry.example/app:1.0", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "load", **labels}},
        "spec": {"containers": [container]},
    }


def shown(number: int, version: int, *, started: int | None = None) -> bytes:
    """Pod `number` at a resourceVersion; `started` moves the times in its status."""
    second = (number * 7 if started is None else started) % _TIMES
    template = number % 20
    values = {
        b"name": b"web-%d-%05x-%05d" % (template, template * 7919, number),
        b"app": b"web-%d" % template,
        b"replica_set": b"web-%d-%05x" % (template, template * 7919),
        b"token": b"kube-api-access-%05x" % (number * 31 % 0xFFFFF),
        b"uid": b"%08x-0000-4000-8000-%012x" % (number, number),
        b"owner": b"%08x-1111-4000-8000-%012x" % (template, template),
        b"version": b"%d" % version,
        b"time": b"2026-01-02T03:%02d:%02dZ" % (second // 60, second % 60),
        b"node": b"node-%04d" % (number % 1000),
        b"ip": b"10.%d.%d.%d" % (number >> 16 & 255, number >> 8 & 255, number & 255),
        b"host": b"192.168.%d.%d" % (number % 1000 >> 8, number % 1000 & 255),
        b"id": b"containerd://%064x" % number,
    }
    return _TEMPLATE % values


def _condition(type_: str) -> dict[str, Any]:
    return {"type": type_, "status": "True", "lastProbeTime": None, "lastTransitionTime": "%(time)b"}


def _owned(*paths: str) -> dict[str, Any]:
    return {f"f:{path}": {".": {}, "f:name": {}, "f:value": {}} for path in paths}


def _manager(name: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    head = {"manager": name, "operation": "Update", "apiVersion": "v1", "time": "%(time)b"}
    return {**head, "fieldsType": "FieldsV1", "fieldsV1": fields, **more}


def _pod() -> dict[str, Any]:
    mount = {"name": "%(token)b", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    amounts = {"cpu": "250m", "memory": "512Mi"}
    container = {
        "name": "app",
        "image": "registry.example/shop/%(app)b:2026-01-01",
        "args": ["--port=8080", "--log=json", "--tracing=off"],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{n}", "value": f"the value of setting {n}"} for n in range(6)],
        "resources": {"requests": amounts, "limits": {"memory": "512Mi"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}, mount],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 5},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    lasting = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    spec = {
        "volumes": [
            {"name": "config", "configMap": {"name": "%(app)b", "defaultMode": 420}},
            {
                "name": "%(token)b",
                "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "t"}}]},
            },
        ],
        "containers": [container],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "nodeName": "%(node)b",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", **lasting},
            {"key": "node.kubernetes.io/unreachable", **lasting},
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    running = {
        "name": "app",
        "state": {"running": {"startedAt": "%(time)b"}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": "registry.example/shop/%(app)b:2026-01-01",
        "imageID": "registry.example/shop/%(app)b@sha256:" + "ab" * 32,
        "containerID": "%(id)b",
        "started": True,
        "allocatedResources": amounts,
        "resources": {"requests": amounts, "limits": {"memory": "512Mi"}},
    }
    conditions = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    status = {
        "phase": "Running",
        "conditions": [_condition(each) for each in conditions],
        "hostIP": "%(host)b",
        "hostIPs": [{"ip": "%(host)b"}],
        "podIP": "%(ip)b",
        "podIPs": [{"ip": "%(ip)b"}],
        "startTime": "%(time)b",
        "containerStatuses": [running],
        "qosClass": "Burstable",
    }
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "%(replica_set)b",
        "uid": "%(owner)b",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    kubelet = {"f:status": _owned("conditions", "containerStatuses", "hostIP", "podIP", "podIPs", "startTime")}
    made = {
        "f:metadata": _owned("labels", "ownerReferences"),
        "f:spec": _owned("containers", "restartPolicy", "volumes"),
    }
    metadata = {
        "name": "%(name)b",
        "generateName": "%(replica_set)b-",
        "namespace": "shop",
        "uid": "%(uid)b",
        "resourceVersion": "%(version)b",
        "creationTimestamp": "%(time)b",
        "labels": {"app": "%(app)b", "pod-template-hash": "%(app)b", "team": "checkout"},
        "annotations": {"prometheus.io/scrape": "true"},
        "ownerReferences": [owner],
        "managedFields": [
            _manager("kube-controller-manager", made),
            _manager("kubelet", kubelet, subresource="status"),
        ],
    }
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}


_TEMPLATE = json.dumps(_pod(), separators=(",", ":")).encode()
