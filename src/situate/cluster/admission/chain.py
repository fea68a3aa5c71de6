"""The order of admission: in-tree plugins, then mutating webhooks, then both again if a webhook changed something.

After apiserver's pkg/admission/reinvocation.go and kubeapiserver's options/plugins.go. Validation happens last, on the
object as it will be stored: in-tree plugins, then policies, then webhooks.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from situate.cluster.admission.attributes import Attributes, Steps
from situate.cluster.admission.built_in import InTree
from situate.cluster.admission.policies import Policies
from situate.cluster.admission.webhooks import Round, Webhooks
from situate.cluster.kinds.semantics import Semantics
from situate.cluster.storage.names import Names
from situate.cluster.storage.resources import Catalog, Resource
from situate.cluster.storage.store import Store


class Admission:
    """What may change or refuse writes to one store."""

    def __init__(
        self, store: Store, names: Names, catalog: Catalog, semantics_of: Callable[[Resource, str, str], Semantics]
    ) -> None:
        """`semantics_of` takes a resource and the apiVersion and kind of an object written to it or below it."""
        self.built_in = InTree(store)
        self._policies = Policies(store, catalog)
        self._webhooks = Webhooks(store, names, catalog, semantics_of)

    @property
    def configured(self) -> bool:
        """Whether any webhook or policy is configured at all."""
        return self._webhooks.configured or self._policies.configured

    def concerns(self, resource: Resource, subresource: str) -> bool:
        """Whether anybody could change or refuse such a write."""
        return self.configured or self.built_in.concern(resource, subresource)

    def mutate(self, attributes: Attributes) -> Steps[None]:
        """Changes `attributes.object`. Raises `Declined`."""
        self.built_in.mutate(attributes)
        hooks = self._webhooks.mutating(attributes)
        if not hooks:
            return
        first = Round()
        yield from self._webhooks.mutate(attributes, hooks, first)
        if not first.changed:
            return
        before = msgspec.json.encode(attributes.object)
        self.built_in.mutate(attributes)
        again = first.reinvocation(everything=before != msgspec.json.encode(attributes.object))
        if again is not None:
            yield from self._webhooks.mutate(attributes, hooks, again)

    def validate(self, attributes: Attributes) -> Steps[None]:
        """Raises `Declined` if somebody says no."""
        self.built_in.validate(attributes)
        self._policies.validate(attributes)
        yield from self._webhooks.validate(attributes)
