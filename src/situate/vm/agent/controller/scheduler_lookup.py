"""Lookup of the scheduler's Pod that grants permits: the newest Ready one with its label (C17)."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from situate.kube.client import Client
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.store import Store
from situate.objects.kinds.pods import Pod
from situate.objects.resources import PODS
from situate.vm.agent.model.settings import SchedulerAccess
from situate.vm.api.well_known import SCHEDULER_LABEL

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def newest_ready_pod(pods: Iterable[Pod]) -> Pod | None:
    """Return the Pod that agents ask; None: there is none. Among Pods of one age, the last one by UID."""
    ready = [
        pod
        for pod in pods
        if pod.ready and pod.status.pod_ip and pod.metadata.deletion_timestamp is None and not pod.finished
    ]
    return max(ready, key=lambda pod: (pod.metadata.creation_timestamp or _NEVER, pod.metadata.uid), default=None)


def scheduler_address(pods: Iterable[Pod]) -> str | None:
    """Return the address of that Pod; None: there is none."""
    found = newest_ready_pod(pods)
    return None if found is None else found.status.pod_ip


class SchedulerPods:
    """Watch of the scheduler's Pods."""

    def __init__(self, client: Client, access: SchedulerAccess, rng: random.Random) -> None:
        self._store: Store[Pod] = Store("scheduler pods")
        self.reflector = Reflector(
            client,
            PODS,
            self._store,
            rng=rng,
            namespace=access.namespace,
            label_selector=f"{SCHEDULER_LABEL}={access.scheduler_name}",
        )

    def find(self) -> str | None:
        return scheduler_address(self._store.list())
