"""Leading pods of workloads: a pod with the label that the annotation names, or the holder of a Lease.

Rule: B45.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from situate.spot.model.pods_nodes_workloads import LEADER, Owner, PodFacts, PodKey

_LEASE = "lease/"


def lease_keys(owners: Iterable[Owner]) -> frozenset[PodKey]:
    """Return the namespaces and names of the Leases to read."""
    named = (owner for owner in owners if owner.annotations.get(LEADER, "").startswith(_LEASE))
    return frozenset(PodKey(owner.namespace, owner.annotations[LEADER].removeprefix(_LEASE)) for owner in named)


def leader_uids(
    owners: Iterable[Owner], pods: Mapping[str, Sequence[PodFacts]], holders: Mapping[PodKey, str]
) -> frozenset[str]:
    """Return the uids of leading pods. `pods`: by uid of the workload; `holders`: identities by Lease.

    An identity is a pod's name, optionally followed by `_` and more, as client-go's leader election writes it.
    """
    found: set[str] = set()
    for owner in owners:
        said = owner.annotations.get(LEADER, "")
        if said.startswith(_LEASE):
            identity = holders.get(PodKey(owner.namespace, said.removeprefix(_LEASE)), "")
            found.update(
                pod.uid for pod in pods.get(owner.uid, ()) if identity and pod.key.name == identity.split("_")[0]
            )
        elif "=" in said:
            key, _, value = said.partition("=")
            found.update(pod.uid for pod in pods.get(owner.uid, ()) if pod.labels.get(key) == value)
    return frozenset(found)
