"""Run admission in order: in-tree plugins, mutating webhooks, then both again if a webhook changed the object.

After apiserver's pkg/admission/reinvocation.go and kubeapiserver's options/plugins.go. Validation comes last, on the
object as it will be stored: in-tree plugins, then policies, then webhooks.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from situate.cluster.admission.attributes import Attributes, Steps
from situate.cluster.admission.built_in_plugins import InTreePlugins
from situate.cluster.admission.policies import Policies
from situate.cluster.admission.webhooks import MutatingPass, Webhooks
from situate.cluster.kinds.semantics import Semantics
from situate.cluster.storage.names import NameGenerator
from situate.cluster.storage.resources import Catalog, Resource
from situate.cluster.storage.store import Store


class Admission:
    """Admission for the writes to one store."""

    def __init__(
        self,
        store: Store,
        names: NameGenerator,
        catalog: Catalog,
        semantics_of: Callable[[Resource, str, str], Semantics],
    ) -> None:
        """Set up the plugins.

        `semantics_of` takes a resource, and apiVersion and kind of an object or subresource body.
        """
        self.built_in = InTreePlugins(store)
        self._policies = Policies(store, catalog)
        self._webhooks = Webhooks(store, names, catalog, semantics_of)

    @property
    def configured(self) -> bool:
        """Return whether any webhook or policy is configured."""
        return self._webhooks.configured or self._policies.configured

    def applies_to(self, resource: Resource, subresource: str) -> bool:
        """Return whether any plugin, policy or webhook could change or refuse such a write."""
        return self.configured or self.built_in.handles(resource, subresource)

    def mutate(self, attributes: Attributes) -> Steps[None]:
        """Change `attributes.object`. Raises `Declined`."""
        self.built_in.mutate(attributes)
        hooks = self._webhooks.mutating_hooks(attributes)
        if not hooks:
            return
        first = MutatingPass()
        yield from self._webhooks.mutate(attributes, hooks, first)
        if not first.changed:
            return
        before = msgspec.json.encode(attributes.object)
        self.built_in.mutate(attributes)
        again = first.reinvocation(everything=before != msgspec.json.encode(attributes.object))
        if again is not None:
            yield from self._webhooks.mutate(attributes, hooks, again)

    def validate(self, attributes: Attributes) -> Steps[None]:
        """Raise `Declined` if a plugin, a policy or a webhook refuses the write."""
        self.built_in.validate(attributes)
        self._policies.validate(attributes)
        yield from self._webhooks.validate(attributes)
