"""Objects that `situate sharding archive serve` needs: rights to review its users, a Deployment, a Service.

The installer creates two Secrets: `situate-archive-tls` of the type `kubernetes.io/tls`, for the name of the Service,
and `situate-archive-url` with the archive's URL under the key `url`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from situate.cli.manifests.pods import copy_deployment
from situate.cli.terminal.failures import WrongInput
from situate.objects.reviews.authorization import Permission
from situate.sharding.permissions import archive_server_permissions

NAME: Final = "situate-archive"
TLS_SECRET: Final = "situate-archive-tls"  # noqa: S105 - the name of a Secret
URL_SECRET: Final = "situate-archive-url"  # noqa: S105 - the name of a Secret
_TLS, _URL = "/etc/situate/tls", "/etc/situate/archive"
_PORT: Final = 8443


def server_arguments(resources: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments of the process. Raises `WrongInput` without a resource to serve."""
    if not resources:
        raise WrongInput("no resource is named: give --resource, such as batch.example.com/v1/reports")
    named = [each for resource in resources for each in ("--resource", resource)]
    certificate = ("--tls-cert-file", f"{_TLS}/tls.crt", "--tls-private-key-file", f"{_TLS}/tls.key")
    return (
        "sharding",
        "archive",
        "serve",
        *named,
        "--address",
        f":{_PORT}",
        *certificate,
        "--archive-url-file",
        f"{_URL}/url",
    )


def server_rights(resources: Sequence[str]) -> tuple[Permission, ...]:
    """Return the permissions of the server. Raises `WrongInput` for a malformed resource."""
    found: dict[Permission, None] = {}
    for each in resources:
        group, _, rest = each.partition("/")
        version, _, plural = rest.partition("/")
        if not (group and version and plural) or "/" in plural:
            raise WrongInput(f"--resource: found {each!r}, allowed: GROUP/VERSION/PLURAL")
        found.update(dict.fromkeys(archive_server_permissions(group, plural)))
    return tuple(found)


def server_deployment(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Deployment of situate, adapted to this server."""
    copy = copy_deployment(deployment)
    container = copy.container
    container["ports"] = [{"name": "https", "containerPort": _PORT}]
    for probe in ("livenessProbe", "readinessProbe"):
        container[probe] = {"httpGet": {**container[probe]["httpGet"], "port": "https", "scheme": "HTTPS"}}
    copy.mount("tls", _TLS, {"secret": {"secretName": TLS_SECRET}})
    copy.mount("archive", _URL, {"secret": {"secretName": URL_SECRET}})
    return copy.deployment


def server_service_spec(labels: Mapping[str, str]) -> dict[str, Any]:
    return {"selector": dict(labels), "ports": [{"name": "https", "port": 443, "targetPort": "https"}]}
