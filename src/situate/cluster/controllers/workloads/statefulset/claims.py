"""Claims of a StatefulSet's pods: created with the pod, owned according to persistentVolumeClaimRetentionPolicy.

Upstream: stateful_set_utils.go, isClaimOwnerUpToDate. Claims are never bound to a volume here, and no pod waits for
one.
"""

from __future__ import annotations

from collections.abc import Iterator

from situate.cluster.controllers.machinery.actions import Action, Create, EventTemplate, uid_patch
from situate.cluster.controllers.machinery.controllers import ControllerContext
from situate.cluster.controllers.machinery.owners import controller_reference
from situate.cluster.controllers.machinery.tables import CLAIMS, PODS, Obj
from situate.cluster.controllers.node.pods import PodFacts, controller_of
from situate.cluster.controllers.workloads.statefulset.identity import claim_name, claim_templates, new_claims, pod_name


def retention_policy(stateful_set: Obj) -> tuple[str, str]:
    """Return the policy for claims on deletion of the set, and on scale-down: Retain or Delete."""
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    return policy.get("whenDeleted", "Retain"), policy.get("whenScaled", "Retain")


def missing_claims(cluster: ControllerContext, stateful_set: Obj, ordinal: int) -> Iterator[Create]:
    """Create the missing claims of an ordinal."""
    name, pod = stateful_set["metadata"]["name"], pod_name(stateful_set, ordinal)
    owned = retention_policy(stateful_set)[0] == "Delete"
    for claim in new_claims(stateful_set, ordinal):
        metadata = claim["metadata"]
        if cluster.store.get(CLAIMS, metadata["namespace"], metadata["name"]) is not None:
            continue
        if owned:
            metadata["ownerReferences"] = [controller_reference(stateful_set)]
        text = f"Create Claim {metadata['name']} Pod {pod} in StatefulSet {name} success"
        failure = f"Create Claim {metadata['name']} for Pod {pod} in StatefulSet {name} failed error: {{error}}"
        yield Create(
            CLAIMS,
            metadata["namespace"],
            claim,
            done=EventTemplate(stateful_set, "SuccessfulCreate", text),
            failed=EventTemplate(stateful_set, "FailedCreate", failure, "Warning"),
        )


def blocking_claim(cluster: ControllerContext, stateful_set: Obj, ordinal: int) -> str | None:
    """Return a claim that blocks a new pod: one being deleted, or still owned by the previous pod.

    None if no claim does.
    """
    for template in claim_templates(stateful_set):
        namespace = stateful_set["metadata"]["namespace"]
        claim = cluster.store.get(CLAIMS, namespace, claim_name(stateful_set, template, ordinal))
        if claim is None:
            continue
        if claim.deleting:
            return claim.name
        if retention_policy(stateful_set)[1] == "Delete" and any(
            entry.get("kind") == "Pod" for entry in claim.object()["metadata"].get("ownerReferences") or ()
        ):
            return claim.name
    return None


def owner_patches(cluster: ControllerContext, stateful_set: Obj, pod: PodFacts, *, wanted: bool) -> Iterator[Action]:
    """Set the owner of a pod's claims according to the policy: the set, the condemned pod, or none."""
    when_deleted, when_scaled = retention_policy(stateful_set)
    set_uid = stateful_set["metadata"]["uid"]
    for template in claim_templates(stateful_set):
        claim = cluster.get(CLAIMS, pod.namespace, claim_name(stateful_set, template, pod.index))
        if claim is None:
            continue
        controller = controller_of(claim)
        if controller is not None and controller["uid"] not in (set_uid, pod.uid):
            continue
        before = claim["metadata"].get("ownerReferences") or []
        after = [entry for entry in before if entry.get("uid") not in (set_uid, pod.uid)]
        if not wanted and when_scaled == "Delete":
            owner = cluster.get(PODS, pod.namespace, pod.name)
            if owner is not None:
                after.append(controller_reference(owner))
        elif when_deleted == "Delete":
            after.append(controller_reference(stateful_set))
        if {entry["uid"] for entry in before} != {entry["uid"] for entry in after}:
            yield uid_patch(CLAIMS, claim, {"metadata": {"ownerReferences": after or None}})
