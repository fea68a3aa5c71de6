"""What a controller is, and the view of the cluster that all of them share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from situate.cluster.controllers.machinery.actions import Outcome, Refusal, Rng
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.pod_index import PodIndex
from situate.cluster.controllers.machinery.settings import MachinerySettings
from situate.cluster.controllers.machinery.tables import Key, Obj
from situate.cluster.storage.resources import Catalog
from situate.cluster.storage.store import Store


class Cluster:
    """The store as controllers read it, with the index of pods; the index is up to date before anyone observes."""

    def __init__(self, store: Store, catalog: Catalog, settings: MachinerySettings, rng: Rng) -> None:
        self.store = store
        self.catalog = catalog
        self.settings = settings
        self.rng = rng
        self.pods = PodIndex()

    def get(self, resource: str, namespace: str, name: str) -> Obj | None:
        stored = self.store.get(resource, namespace, name)
        return None if stored is None else stored.object()

    def list(self, resource: str, namespace: str = "") -> list[Obj]:
        """In the order of namespace and name."""
        return [stored.object() for stored in self.store.table(resource).ordered(namespace)]


class Controller(Protocol):
    """A state machine over keys of its own kind of object.

    What it keeps in memory is a shortcut only: it can be rebuilt by observing every object once as created.
    """

    name: str
    """As `MachinerySettings.disabled` names it."""
    user: str
    """In whose name it writes."""
    manager: str
    """Its field manager and the source of its Events."""

    @property
    def watches(self) -> frozenset[str] | None:
        """The resources of whose changes it is told; None: all."""
        ...

    def observe(self, change: Change, now: float) -> Iterable[Key]:
        """Take in a change; the keys that have to be looked at again."""
        ...

    def reconcile(self, key: Key, now: float) -> Outcome:
        """What to write for this key; nothing if all is as it should be."""
        ...

    def refused(self, key: Key, refusal: Refusal) -> None:
        """An action for this key was refused; the key will be looked at again."""
        ...
