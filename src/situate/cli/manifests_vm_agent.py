"""What `situate vm agent` needs in a cluster: a pod on each node, its rights, and its configuration if there is one."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from situate.cli.agent_file import NODE_VARIABLE, agent_settings
from situate.objects.authorization import Permission
from situate.vm.agent.permissions import permissions

NAME: Final = "situate-vm-agent"
FILE: Final = "agent.yaml"


def agent_arguments(file: Path | None, port: int) -> tuple[str, ...]:
    """Of the process; the file is mounted under `/etc/situate`."""
    given = () if file is None else ("-f", f"/etc/situate/{FILE}")
    return ("vm", "agent", *given, "--health-address", f":{port}")


def agent_rights(file: Path | None) -> tuple[Permission, ...]:
    """Raises `BadConfiguration` and `WrongInput` for a file that no agent would take."""
    return permissions(agent_settings(file, ()))


def agent_daemon_set(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """One on each node, from a Deployment of situate; also where nodes are kept for machines by a taint (B8)."""
    changed: dict[str, Any] = deepcopy(dict(deployment))
    changed["kind"] = "DaemonSet"
    changed["spec"].pop("replicas")
    pod = changed["spec"]["template"]["spec"]
    pod.pop("topologySpreadConstraints")
    pod["tolerations"] = [{"operator": "Exists"}]
    (container,) = pod["containers"]
    container["env"].append({"name": NODE_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}})
    return changed
