"""What the chapters on spot put into the cluster: nodes of both kinds, ten replicas, the parts of an installation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from situate.cli.demo.objects import CONFIGURATION, SYSTEM, ZONES
from situate.cli.manifests_spot import admission_objects
from situate.objects.settings import parse_section
from situate.spot.configuration import SpotSettings
from situate.spot.model import CAPACITY_LABEL, ON_DEMAND, ZONE_LABEL
from situate.spot.names import WEBHOOK_PATH

SPOT_NODES: Final = ("demo-spot-1", "demo-spot-2", "demo-spot-3")
ON_DEMAND_NODES: Final = ("demo-od-1", "demo-od-2")
REPLICAS: Final = 10
FLOOR: Final = 2
NOTICE_S: Final = 20
"""Two minutes of a cloud, by the clock of this story; a busy machine still has moved everything by then."""
ENDS: Final = {"key": "situate-demo/ends", "value": "soon", "effect": "NoSchedule"}
"""The taint of a node that has got its notice."""
GONE: Final = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
"""The taint of a node that is off, as whoever runs the machines sets it."""
_OURS: Final = {"situate-demo-spot": "true"}
"""Label of the nodes: nothing else of the demo goes there, and its replicas nowhere else."""


def configuration(port: int) -> dict[str, Any]:
    """As a user would write it, but for times that suit the story's clock."""
    return {
        "apiVersion": CONFIGURATION["apiVersion"],
        "kind": CONFIGURATION["kind"],
        "leaderElection": CONFIGURATION["leaderElection"],
        "spot": {
            "webhook": {"address": f"127.0.0.1:{port}"},
            "signals": [{"source": "taint", "key": ENDS["key"], "state": "doomed", "noticeSeconds": NOTICE_S}],
            "start": "1s",
            "evictions": {"coolDown": "0s"},
            "return": {"enabled": False},
        },
    }


def installation(port: int) -> Iterator[dict[str, Any]]:
    """What `situate manifests spot` prints besides Deployment and rights; the webhook is asked on this machine."""
    settings, _ = parse_section(configuration(port)["spot"], SpotSettings)
    assert settings is not None
    for each in admission_objects(SYSTEM, SYSTEM, {}, settings):
        if each["kind"] == "Service":
            continue
        if each["kind"] == "MutatingWebhookConfiguration":
            each["webhooks"][0]["clientConfig"] = {"url": f"https://127.0.0.1:{port}{WEBHOOK_PATH}"}
        yield each


def node(name: str) -> dict[str, Any]:
    capacity = "spot" if name in SPOT_NODES else "on-demand"
    zone = ZONES[int(name[-1]) - 1]
    labels = {"kubernetes.io/hostname": name, ZONE_LABEL: zone, CAPACITY_LABEL: capacity, **_OURS}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def deployment(name: str) -> dict[str, Any]:
    """Ten replicas, two of them on demand."""
    labels = {"app": name}
    pod = {
        "nodeSelector": dict(_OURS),
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "example.com/web:1", "resources": {"requests": {"cpu": "100m"}}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": {ON_DEMAND: str(FLOOR)}},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
