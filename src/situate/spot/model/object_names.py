"""What the objects of an installation are called. Beside its Deployment each part finds the others by these names."""

from __future__ import annotations

from typing import Final

from situate.spot.model.pods_nodes_workloads import PREFIX

NAME: Final = "situate-spot"
"""Of the Deployment, the Service, the Lease and the ServiceAccount's rights."""
CERTIFICATES: Final = "situate-spot-certificates"
"""The Secret."""
POLICIES: Final = "situate-spot-policies"
"""The ConfigMap with the last valid policy of each workload."""
WEBHOOK: Final = "pods.spot.situate.dev"
"""The one webhook of the configuration."""
WEBHOOK_PATH: Final = "/admit"
LEADS: Final = PREFIX + "leads"
"""Label of the pod that answers; the Service selects it."""
WANTS: Final = PREFIX + "wants"
"""Annotation of the Lease: which pod of a newer revision asks for it, as JSON."""
INTERRUPTIONS: Final = PREFIX + "interruptions"
"""Annotation of the Lease: which spot nodes ended when, as `interruptions.to_text` writes it."""


def configuration_name(namespace: str) -> str:
    """Of the MutatingWebhookConfiguration; it belongs to the cluster, so it says whose it is."""
    return f"{NAME}-{namespace}"
