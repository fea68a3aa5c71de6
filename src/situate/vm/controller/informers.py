"""Watches of VMs and migrations, in addition to the scheduler's own; both share one watch per kind."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from situate.kube.client import Client
from situate.kube.watch.reflector import Reflector
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.unstructured import Unstructured
from situate.scheduler.controller.informers import Informers
from situate.vm.backends.neonvm import Backend
from situate.vm.backends.systems import System

MACHINE_INDEX: Final = "machine"
"""Index of Pods: namespace and name of the VM that they run."""


@dataclass(frozen=True, slots=True)
class VmInformers:
    """The scheduler's watches, including ended Pods: their capacity is free only once their containers have ended."""

    all: Informers
    machines: Reflector[Unstructured]
    migrations: Reflector[Unstructured]

    @classmethod
    def create(cls, client: Client, rng: random.Random, system: System[Any], backend: Backend) -> VmInformers:
        watched = Informers.create(client, rng, pods="", further=(system.machines, backend.resource))
        machines, migrations = watched.further
        watched.pods.store.add_index(MACHINE_INDEX, partial(_machine_keys, system))
        return cls(watched, machines, migrations)

    def pods_of(self, namespace: str, machine: str) -> Iterable[Pod]:
        """Return the runner Pod of a VM and, during a migration, also its target Pod."""
        return self.all.pods.store.by_index(MACHINE_INDEX, (namespace, machine))

    def reflectors(self) -> Iterable[Reflector[Any]]:
        return self.all.reflectors()


def _machine_keys(system: System[Any], pod: Pod) -> Iterable[tuple[str, str]]:
    ref = system.machine_of(pod)
    return () if ref is None else ((ref.namespace, ref.name),)
