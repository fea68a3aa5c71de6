"""Objects that vm adds to an installation: a port for agents, a port for API servers, and Pods with their own names.

A rollout replaces two Pods at once, so that a Pod that has caught up exists when the other one ends (B44, B48).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from situate.cli.manifests.pods import TEMPORARY_FILES, copy_deployment, empty_lease, field_variable
from situate.cli.manifests.spot import POD_VARIABLE
from situate.cli.terminal.failures import WrongInput
from situate.vm.api.well_known import SCHEDULER_LABEL
from situate.vm.config.settings import VmSettings
from situate.vm.protocol.eviction_webhook_objects import CERTIFICATES, webhook_configuration
from situate.vm.protocol.eviction_webhook_objects import SERVICE as SERVICE

SECRET: Final = "situate-permits"  # noqa: S105 - a name, no secret
"""Secret of type `kubernetes.io/tls`, which situate does not create.

It is mounted at the path of `vm.permits.certificate`, if that path is absolute. Without that setting, the permit port
uses the certificate in the Secret `CERTIFICATES`, as the webhook does.
"""
_PORT_NAME: Final = "permits"
_EVICTIONS_PORT_NAME: Final = "evictions"
_TMP: Final = "tmp"


def check_files(settings: VmSettings) -> None:
    """Raise `WrongInput` if Pods would need a certificate that none of them has."""
    for name, file in (("certificate", settings.permits.certificate), ("key", settings.permits.key)):
        if file is not None and not PurePosixPath(file).is_absolute():
            raise WrongInput(
                f"vm.permits.{name}: found {file}, a file of this computer that no Pod has; leave certificate and key"
                f" out, or give their paths in the mounted Secret {SECRET}, such as /etc/permits/tls.crt and tls.key"
            )


def permit_service_spec(labels: Mapping[str, str], settings: VmSettings) -> dict[str, Any]:
    """Return the spec of the Service that selects the leader. It has the scheduler's name."""
    ports = [{"name": _PORT_NAME, "port": _port(settings.permits.address), "targetPort": _PORT_NAME}]
    if settings.eviction_settings is not None:
        ports.append({"name": _EVICTIONS_PORT_NAME, "port": 443, "targetPort": _EVICTIONS_PORT_NAME})
    return {"selector": {**labels, SCHEDULER_LABEL: settings.scheduler_name}, "ports": ports}


def leader_objects(
    namespace: str, lease_namespace: str, labels: Mapping[str, str], settings: VmSettings
) -> Iterator[dict[str, Any]]:
    """Return the Lease, the Secret and the webhook configuration.

    Secret and Lease are empty: the leader fills them, and a second apply leaves their content unchanged.
    """
    yield empty_lease(settings.lease_name, lease_namespace, labels)
    if settings.keeps_certificates:
        metadata = {"name": CERTIFICATES, "namespace": namespace, "labels": dict(labels)}
        yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
    if settings.eviction_settings is not None:
        yield webhook_configuration(namespace, int(settings.eviction_settings.timeout_s), labels)


def deployment_with_permits(deployment: Mapping[str, Any], settings: VmSettings) -> dict[str, Any]:
    """Return the Deployment, adapted to serve agents."""
    copy = copy_deployment(deployment)
    container = copy.container
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    copy.deployment["spec"]["strategy"] = strategy
    container["ports"].append({"name": _PORT_NAME, "containerPort": _port(settings.permits.address)})
    if settings.eviction_settings is not None:
        port = {"name": _EVICTIONS_PORT_NAME, "containerPort": _port(settings.eviction_settings.address)}
        container["ports"].append(port)
    if settings.keeps_certificates and all(each["name"] != _TMP for each in copy.pod.get("volumes", ())):
        copy.mount(_TMP, "/tmp", TEMPORARY_FILES, read_only=False)  # noqa: S108 - of the container
    if all(each["name"] != POD_VARIABLE for each in container["env"]):
        container["env"].append(field_variable(POD_VARIABLE, "metadata.name"))
    certificate = PurePosixPath(settings.permits.certificate or "")
    if certificate.is_absolute():
        copy.mount(_PORT_NAME, str(certificate.parent), {"secret": {"secretName": SECRET}})
    return copy.deployment


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
