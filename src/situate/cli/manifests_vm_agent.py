"""What `situate vm agent` needs in a cluster: a pod on each node, its rights, and its configuration if there is one.

What it is not told it finds as an installation of ours in the same namespace has it: the scheduler's pods there, and
the authority of their certificate in the Secret that they show it from.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path, PurePosixPath
from typing import Any, Final

from situate.cli.agent_file import NODE_VARIABLE, agent_settings
from situate.cli.manifests_vm import SECRET
from situate.objects.authorization import Permission
from situate.objects.yaml_text import load_yaml
from situate.vm.agent.permissions import permissions

NAME: Final = "situate-vm-agent"
FILE: Final = "agent.yaml"
AUTHORITY: Final = "/etc/situate-permits/ca.crt"
"""Where the authority of the scheduler's certificate is mounted."""
_SERVICE: Final = "situate-permits"
"""The name that the certificate is for, as the installation's Service has it."""


def agent_assignments(file: Path | None, namespace: str) -> tuple[str, ...]:
    """Settings beside those of the file, as flags have them. Raises what `agent_settings` raises.

    `namespace`: of the installation, whose scheduler answers no agent of the reference's protocol without TLS.
    """
    settings = agent_settings(file, ()).scheduler
    if settings.url is not None:
        return ()
    said = _said(file)
    found = {"namespace": namespace}
    if not agent_settings(file, ()).compat and said.get("tls", True):
        found |= {"tls": "true", "caFile": AUTHORITY, "serverName": f"{_SERVICE}.{namespace}.svc"}
    return tuple(f"scheduler.{name}={value}" for name, value in found.items() if name not in said)


def agent_arguments(file: Path | None, port: int, namespace: str) -> tuple[str, ...]:
    """Of the process; the file is mounted under `/etc/situate`."""
    given = () if file is None else ("-f", f"/etc/situate/{FILE}")
    told = tuple(part for each in agent_assignments(file, namespace) for part in ("--set", each))
    return ("vm", "agent", *given, *told, "--health-address", f":{port}")


def agent_rights(file: Path | None, namespace: str) -> tuple[Permission, ...]:
    """Raises `BadConfiguration` and `WrongInput` for a file that no agent would take."""
    return permissions(agent_settings(file, agent_assignments(file, namespace)))


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
    if f"scheduler.caFile={AUTHORITY}" in container["args"]:
        name, authority = "permits", PurePosixPath(AUTHORITY)
        mount = {"name": name, "mountPath": str(authority.parent), "readOnly": True}
        container.setdefault("volumeMounts", []).append(mount)
        # the key is the scheduler's alone
        secret = {"secretName": SECRET, "items": [{"key": authority.name, "path": authority.name}]}
        pod.setdefault("volumes", []).append({"name": name, "secret": secret})
    return changed


def _said(file: Path | None) -> Mapping[str, Any]:
    """What the file says of the scheduler, which is one that agents take."""
    data = {} if file is None else load_yaml(file.read_text(encoding="utf-8"))[0]
    said = data.get("scheduler") if isinstance(data, Mapping) else None
    return said if isinstance(said, Mapping) else {}
