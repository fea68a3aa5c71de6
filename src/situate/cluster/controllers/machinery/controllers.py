"""The controller protocol, and the view of the cluster that all controllers share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from situate.cluster.controllers.machinery.actions import ReconcileResult, Refusal, Rng
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.pod_index import PodIndex
from situate.cluster.controllers.machinery.settings import MachinerySettings
from situate.cluster.controllers.machinery.tables import Key, Obj
from situate.cluster.storage.resources import Catalog
from situate.cluster.storage.store import Store


class ControllerContext:
    """The store as controllers read it, and the pod index, which is updated before controllers observe a change."""

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
        """Return the objects, sorted by namespace and name."""
        return [stored.object() for stored in self.store.table(resource).sorted_objects(namespace)]


class Controller(Protocol):
    """A state machine over keys of one kind of object.

    Its memory is only a cache: observing every object once as created rebuilds it.
    """

    name: str
    """Name in `MachinerySettings.disabled`."""
    user: str
    """User of its writes."""
    manager: str
    """Field manager of its writes, and source of its Events."""

    @property
    def watches(self) -> frozenset[str] | None:
        """Resources for which it observes changes; None for all."""
        ...

    def observe(self, change: Change, now: float) -> Iterable[Key]:
        """Take in a change. Return the keys to reconcile."""
        ...

    def reconcile(self, key: Key, now: float) -> ReconcileResult:
        """Return the writes for this key; none if the desired state is reached."""
        ...

    def handle_refusal(self, key: Key, refusal: Refusal) -> None:  # noqa: ARG002  # the default
        """Take note of a refused action for this key. By default nothing is noted: the next reconcile repeats it."""
        return
