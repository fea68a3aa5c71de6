"""virt-launcher Pods: the VM of each, and its role in a migration.

KubeVirt changes no owner during a migration. A target keeps the UID of its migration for good. So only the status of
the VM shows whether the VM has arrived, and whether it has left another Pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from situate.objects.kinds import pods as objects
from situate.vm.api.pods import pod_from_requests
from situate.vm.backends.kubevirt_instances import ObservedInstance, allows_migration
from situate.vm.backends.kubevirt_names import (
    APP_LABEL,
    GROUP,
    HOSTNAME_LABEL,
    INSTANCE_KIND,
    LAUNCHER,
    MIGRATION_NAME,
    MIGRATION_UID_LABEL,
)
from situate.vm.model import pods_and_nodes
from situate.vm.model.pods_and_nodes import Load, Machine, Phase, Ref, Role
from situate.vm.model.policy import Rules


def instance_of(pod: objects.Pod) -> Ref | None:
    """Return the VM of the Pod, by owner and label. Pods that attach volumes belong to launchers and run no VM."""
    if pod.metadata.labels.get(APP_LABEL) != LAUNCHER:
        return None
    owner = pod.metadata.controller
    if owner is None or owner.kind != INSTANCE_KIND or owner.api_version.partition("/")[0] != GROUP:
        return None
    return Ref(pod.metadata.namespace, owner.name, owner.uid)


def migration_of_target(pod: objects.Pod) -> Ref | None:
    """Return the migration that the Pod was created for, ongoing or not; None for the first Pod of a VM."""
    uid = pod.metadata.labels.get(MIGRATION_UID_LABEL, "")
    if not uid or instance_of(pod) is None:
        return None
    return Ref(pod.metadata.namespace, pod.metadata.annotations.get(MIGRATION_NAME, ""), uid)


def launcher_role(pod: objects.Pod, seen: ObservedInstance | None) -> Role:
    """Return the role that its labels give, corrected by the status of its VM, if known.

    A Pod that its VM has left still counts as a source: it is not migrated and does not grow.
    """
    migration = migration_of_target(pod)
    uid = "" if migration is None else migration.uid
    if seen is None:
        return Role.TARGET if uid else Role.IDLE
    if pod.spec.node_name and pod.spec.node_name == seen.node:
        return Role.SOURCE if seen.ongoing_migration not in ("", uid) else Role.IDLE
    if uid and not _has_left(pod, uid, seen):
        return Role.TARGET
    return Role.SOURCE if seen.node and pod.spec.node_name else Role.IDLE


def _has_left(pod: objects.Pod, uid: str, seen: ObservedInstance) -> bool:
    """Return whether the VM has left this former target in a later migration."""
    last = seen.last
    if not last.over or last.uid in ("", uid):
        return False
    if last.source_pod:
        return last.source_pod == pod.metadata.name
    created = pod.metadata.creation_timestamp
    return created is not None and last.ended_at is not None and created.timestamp() < last.ended_at


def without_target_constraints(pod: objects.Pod) -> objects.Pod:
    """Return the Pod without the constraints that only a target has: its pinned node, and avoiding its source's node.

    KubeVirt makes the next target from the VM's own spec. It adds its requirement at the end of a term.
    """
    if migration_of_target(pod) is None:
        return pod
    spec = pod.spec
    selector = {key: value for key, value in spec.node_selector.items() if key != HOSTNAME_LABEL}
    affinity = spec.affinity
    node = affinity.node_affinity
    if node is not None and node.required is not None:
        terms = tuple(_without_source(term) for term in node.required.node_selector_terms)
        left = None if terms == (objects.NodeSelectorTerm(),) else objects.NodeSelector(terms)
        affinity = msgspec.structs.replace(affinity, node_affinity=msgspec.structs.replace(node, required=left))
    spec = msgspec.structs.replace(spec, node_selector=selector, affinity=affinity)
    return msgspec.structs.replace(pod, spec=spec)


def _without_source(term: objects.NodeSelectorTerm) -> objects.NodeSelectorTerm:
    last = term.match_expressions[-1] if term.match_expressions else objects.NodeSelectorRequirement()
    if (last.key, last.operator, len(last.values)) != (HOSTNAME_LABEL, "NotIn", 1):
        return term
    return msgspec.structs.replace(term, match_expressions=term.match_expressions[:-1])


def running_pod_name(seen: ObservedInstance, pods: Iterable[objects.Pod]) -> str:
    """Return the name of the Pod on the VM's node; of several, the newest, since the VM may have been restarted."""
    here = [each for each in pods if seen.node and each.spec.node_name == seen.node and not each.finished]
    here.sort(key=lambda each: (each.metadata.creation_timestamp is not None, each.metadata.creation_timestamp))
    return here[-1].metadata.name if here else ""


def read_launcher(pod: objects.Pod, rules: Rules, seen: ObservedInstance | None) -> pods_and_nodes.Pod:
    """Return the Pod with its requests as its amounts, KubeVirt's overhead included. Its VM has the same size."""
    counted = pod_from_requests(pod, rules)
    ref = instance_of(pod)
    assert ref is not None, f"{pod.metadata.namespace}/{pod.metadata.name} does not run a VM"
    role = launcher_role(pod, seen)
    wanted, always = allows_migration(pod.metadata.labels) if seen is None else (seen.wanted, seen.always)
    movable = seen is not None and seen.live_migratable and wanted
    return replace(
        counted,
        machine=Machine(
            ref=ref,
            own=pod.spec.scheduler_name == rules.scheduler_name,
            role=role,
            migratable=role is Role.SOURCE or (role is not Role.TARGET and movable),
            always_migrate=always,
            phase=Phase.OTHER if seen is None else seen.phase,
            load=Load(memory_used=0 if seen is None else seen.memory),
            closed_claim="" if seen is None else seen.closed_claim,
            moved_at=() if seen is None else seen.moved_at,
        ),
    )
