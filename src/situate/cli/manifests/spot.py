"""Objects that spot adds to an installation: a webhook, and Pods that stay available.

The Pods run on on-demand nodes, apart from each other, and with the highest priority (P4). One of them thus survives
most failures. A rollout replaces two Pods at once, so that a full node does not block it (P1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from situate.cli.manifests.pods import TEMPORARY_FILES, copy_deployment, empty_lease, field_variable
from situate.cli.terminal.failures import WrongInput
from situate.objects.kinds.pods import NodeSelectorRequirement
from situate.spot.admission.policy_admission import on_demand_policy
from situate.spot.admission.webhook_objects import gating_policy, webhook_configuration
from situate.spot.config.settings import SpotSettings
from situate.spot.model.object_names import CERTIFICATES, LEADER_LABEL, NAME, POLICIES
from situate.spot.nodes.known_signals import on_demand_requirement

_PORT_NAME: Final = "webhook"
POD_VARIABLE: Final = "SITUATE_POD"
"""Environment variable with the name of the process's own Pod."""
MEMORY: Final = "512Mi"
"""Memory limit. 20,000 Pods take less than 400 MiB."""


def admission_objects(
    namespace: str, lease_namespace: str, labels: Mapping[str, str], settings: SpotSettings
) -> Iterator[dict[str, Any]]:
    """Return the objects for admission.

    Secret, ConfigMap and Lease are empty: the leader fills them, and a second apply leaves their content unchanged.
    """

    def metadata(name: str, within: str) -> dict[str, Any]:
        return {"name": name, "namespace": within, "labels": dict(labels)}

    yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata(CERTIFICATES, namespace), "type": "Opaque"}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(POLICIES, namespace)}
    yield empty_lease(NAME, lease_namespace, labels)
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(NAME, namespace),
        "spec": {
            "selector": {**labels, LEADER_LABEL: "true"},
            "ports": [{"name": "https", "port": 443, "targetPort": _PORT_NAME}],
        },
    }
    yield webhook_configuration(namespace, int(settings.webhook.timeout_s), labels, settings.kinds)
    yield from on_demand_policy(namespace, labels, settings.kinds)
    if settings.strict is not None and settings.gate_by == "policy":
        yield from gating_policy(namespace, settings.strict, labels, settings.kinds)


def deployment_with_webhook(deployment: Mapping[str, Any], settings: SpotSettings) -> dict[str, Any]:
    """Return the Deployment, adapted to serve the webhook. Raises `WrongInput` (P9)."""
    copy = copy_deployment(deployment)
    container, spec = copy.container, copy.deployment["spec"]
    if settings.strict is not None and spec["replicas"] < 2:
        raise WrongInput("spot.strict with --replicas 1: without a leader no Pod starts; run at least 2 replicas")
    spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    port = int(settings.webhook.address.rpartition(":")[2])
    container["ports"].append({"name": _PORT_NAME, "containerPort": port})
    container["env"].append(field_variable(POD_VARIABLE, "metadata.name"))
    copy.mount("tmp", "/tmp", TEMPORARY_FILES, read_only=False)  # noqa: S108 - of the container
    copy.pod["priorityClassName"] = "system-cluster-critical"
    copy.pod["affinity"] = _affinity(on_demand_requirement(settings.table), spec["selector"]["matchLabels"])
    return copy.deployment


def _affinity(on_demand: NodeSelectorRequirement, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the affinity: on on-demand nodes, and preferably apart from each other.

    On a single on-demand node, two Pods are better than one Pod that stays Pending.
    """
    terms = [{"matchExpressions": [msgspec.to_builtins(on_demand)]}]
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": dict(labels)}}
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": apart}]
        },
    }
