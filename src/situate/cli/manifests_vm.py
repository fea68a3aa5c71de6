"""What an installation needs where vm is part of it: a port for agents, and pods that know their own names (B44).

Of a rollout two pods come and go at once, so that one that has caught up is there when the other goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import PurePosixPath
from typing import Any, Final

from situate.cli.manifests_spot import POD_VARIABLE
from situate.vm.configuration import VmSettings
from situate.vm.names import SCHEDULER_LABEL

SECRET: Final = "situate-permits"  # noqa: S105 - a name, no secret
"""Of type `kubernetes.io/tls`: mounted where `vm.permits.certificate` says, if that is a whole path."""
SERVICE: Final = "situate-permits"
_PORT_NAME: Final = "permits"


def permit_service_spec(labels: Mapping[str, str], settings: VmSettings) -> dict[str, Any]:
    """Of the Service that leads to the replica that decides: it bears the scheduler's name."""
    port = int(settings.permits.address.rpartition(":")[2])
    selector = {**labels, SCHEDULER_LABEL: settings.scheduler_name}
    return {"selector": selector, "ports": [{"name": _PORT_NAME, "port": port, "targetPort": _PORT_NAME}]}


def deployment_with_permits(deployment: Mapping[str, Any], settings: VmSettings) -> dict[str, Any]:
    """The Deployment as it has to be where agents ask its pods."""
    changed: dict[str, Any] = deepcopy(dict(deployment))
    spec = changed["spec"]
    spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    container["ports"].append({"name": _PORT_NAME, "containerPort": int(settings.permits.address.rpartition(":")[2])})
    if all(each["name"] != POD_VARIABLE for each in container["env"]):
        container["env"].append({"name": POD_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
    certificate = PurePosixPath(settings.permits.certificate or "")
    if certificate.is_absolute():
        mount = {"name": _PORT_NAME, "mountPath": str(certificate.parent), "readOnly": True}
        container.setdefault("volumeMounts", []).append(mount)
        pod.setdefault("volumes", []).append({"name": _PORT_NAME, "secret": {"secretName": SECRET}})
    return changed
