"""Objects that hold settings and names (core/v1, scheduling/v1 types.go)."""

from __future__ import annotations

from collections.abc import Mapping

from situate.objects.kinds.meta import NO_LABELS, Condition, ObjectMeta
from situate.objects.model import Model


class ConfigMap(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: Mapping[str, str] = NO_LABELS
    binary_data: Mapping[str, str] = NO_LABELS
    """Values in base64."""
    immutable: bool = False


class Secret(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    type: str = ""
    data: Mapping[str, str] = NO_LABELS
    """Values in base64."""

    def __repr__(self) -> str:
        """Omit the data, so that a secret does not reach a log through an error."""
        return f"Secret({self.metadata.namespace}/{self.metadata.name}, keys={sorted(self.data)})"


class NamespaceStatus(Model, frozen=True):
    phase: str = ""
    """`Active` or `Terminating`."""


class Namespace(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: NamespaceStatus = NamespaceStatus()


class ServiceAccount(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class PriorityClass(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""
    """Empty means `PreemptLowerPriority`."""


class CustomResourceNames(Model, frozen=True):
    plural: str = ""
    singular: str = ""
    kind: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()


class CustomResourceVersion(Model, frozen=True):
    name: str = ""
    served: bool = False
    storage: bool = False


class CustomResourceDefinitionSpec(Model, frozen=True):
    group: str = ""
    scope: str = ""
    """`Namespaced` or `Cluster`."""
    names: CustomResourceNames = CustomResourceNames()
    versions: tuple[CustomResourceVersion, ...] = ()


class CustomResourceDefinitionStatus(Model, frozen=True):
    conditions: tuple[Condition, ...] = ()


class CustomResourceDefinition(Model, frozen=True):
    """A definition without the schemas, which only a server reads."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CustomResourceDefinitionSpec = CustomResourceDefinitionSpec()
    status: CustomResourceDefinitionStatus = CustomResourceDefinitionStatus()

    @property
    def established(self) -> bool:
        """Whether the server serves the resource."""
        return any(c.type == "Established" and c.status == "True" for c in self.status.conditions)
