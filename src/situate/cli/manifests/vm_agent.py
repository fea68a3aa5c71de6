"""Objects that `situate vm agent` needs: a Pod on each node, its rights, and its configuration if there is one.

Missing settings are completed for an installation in the same namespace: the scheduler's Pods there, and the
authorities in the Secrets from which its certificate may come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from situate.cli.input.agent_file import agent_settings
from situate.cli.manifests.pods import copy_deployment, field_variable, set_arguments
from situate.cli.manifests.vm import SECRET
from situate.cli.terminal.failures import WrongInput
from situate.cli.vm.variables import NODE_VARIABLE
from situate.objects.reviews.authorization import Permission
from situate.objects.settings.yaml_text import load_yaml
from situate.vm.agent.permissions import permissions
from situate.vm.api.well_known import AGENT
from situate.vm.protocol.eviction_webhook_objects import AUTHORITY_KEYS, CERTIFICATES, SERVICE

NAME: Final = AGENT
FILE: Final = "agent.yaml"
AUTHORITIES: Final = "/etc/situate-permits"
"""Mount path of the authorities of the scheduler's certificate."""
_VOLUME: Final = "permits"


def agent_assignments(file: Path | None, namespace: str) -> tuple[str, ...]:
    """Return settings in addition to those of the file, as flags. Raises the errors of `agent_settings`.

    `namespace` is the namespace of the installation. Its scheduler serves TLS only, unless it uses the protocol of
    neondatabase/autoscaling.
    """
    settings = agent_settings(file, ()).scheduler
    if settings.url is not None:
        return ()
    said = _scheduler_section(file)
    found = {"namespace": namespace}
    if not agent_settings(file, ()).compat and said.get("tls", True):
        found |= {"tls": "true", "caFile": AUTHORITIES, "serverName": f"{SERVICE}.{namespace}.svc"}
    return tuple(f"scheduler.{name}={value}" for name, value in found.items() if name not in said)


def check_agent_files(file: Path | None) -> None:
    """Raise `WrongInput` if its Pods would need files that none of them has.

    Raises the errors of `agent_settings`, too.
    """
    settings = agent_settings(file, ()).scheduler
    for name, path in (("caFile", settings.ca_file), ("tokenFile", settings.token_file)):
        if path is not None and not PurePosixPath(path).is_absolute():
            here = f"{file}: scheduler.{name}: found {path}, a file of this computer that no Pod has"
            raise WrongInput(f"{here}; leave it out, or give the path of its mount")


def agent_arguments(file: Path | None, port: int, namespace: str) -> tuple[str, ...]:
    """Return the arguments of the process. The file is mounted under `/etc/situate`."""
    given = () if file is None else ("-f", f"/etc/situate/{FILE}")
    return ("vm", "agent", *given, *set_arguments(agent_assignments(file, namespace)), "--health-address", f":{port}")


def agent_rights(file: Path | None, namespace: str) -> tuple[Permission, ...]:
    """Return the permissions of an agent. Raises `BadConfiguration` and `WrongInput` for an unusable file."""
    return permissions(agent_settings(file, agent_assignments(file, namespace)))


def agent_daemon_set(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """Return a DaemonSet, made from a Deployment of situate. It tolerates taints that reserve nodes for VMs (B8)."""
    copy = copy_deployment(deployment)
    copy.deployment["kind"] = "DaemonSet"
    copy.deployment["spec"].pop("replicas")
    copy.pod.pop("topologySpreadConstraints")
    copy.pod["tolerations"] = [{"operator": "Exists"}]
    copy.container["env"].append(field_variable(NODE_VARIABLE, "spec.nodeName"))
    if f"scheduler.caFile={AUTHORITIES}" in copy.container["args"]:
        copy.mount(_VOLUME, AUTHORITIES, {"projected": {"sources": [*_volume_sources()]}})
    return copy.deployment


def _volume_sources() -> Iterator[dict[str, Any]]:
    """Return the volume's sources: authorities only, because the keys belong to the scheduler.

    They are the authorities of the installation's own certificates (previous, current and next), and that of a
    certificate that situate did not create. All are optional, because this command does not know which ones exist.
    """
    own = [{"key": key, "path": key} for key in AUTHORITY_KEYS]
    others = [{"key": AUTHORITY_KEYS[0], "path": f"{SECRET}.crt"}]
    for secret, items in ((CERTIFICATES, own), (SECRET, others)):
        yield {"secret": {"name": secret, "items": items, "optional": True}}


def _scheduler_section(file: Path | None) -> Mapping[str, Any]:
    """Return the `scheduler` section of a valid file."""
    data = {} if file is None else load_yaml(file.read_text(encoding="utf-8"))[0]
    said = data.get("scheduler") if isinstance(data, Mapping) else None
    return said if isinstance(said, Mapping) else {}
