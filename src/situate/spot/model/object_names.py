"""Names of an installation's objects. By these names each part finds the objects of the others."""

from __future__ import annotations

from typing import Final

from situate.spot.model.pods_nodes_workloads import PREFIX

NAME: Final = "situate-spot"
"""Name of the Deployment, the Service, the Lease and the RBAC objects."""
CERTIFICATES: Final = "situate-spot-certificates"
"""The Secret."""
POLICIES: Final = "situate-spot-policies"
"""The ConfigMap with the last valid policy of each workload."""
WEBHOOK: Final = "pods.spot.situate.dev"
"""The one webhook of the configuration."""
WEBHOOK_PATH: Final = "/admit"
LEADER_LABEL: Final = PREFIX + "leads"
"""Label of the pod that answers; the Service selects it."""
LEASE_REQUEST_ANNOTATION: Final = PREFIX + "wants"
"""Annotation of the Lease: the pod of a newer revision that requests the Lease, as JSON."""
INTERRUPTIONS_ANNOTATION: Final = PREFIX + "interruptions"
"""Annotation of the Lease: the spot nodes that ended, with times, as `interruptions.to_text` writes them."""


def configuration_name(namespace: str) -> str:
    """Return the name of the MutatingWebhookConfiguration.

    The object is cluster-wide, so its name contains the namespace of the installation.
    """
    return f"{NAME}-{namespace}"
