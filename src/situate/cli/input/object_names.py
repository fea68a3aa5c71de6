"""Read an object's name from an argument: NAMESPACE/NAME, or TYPE/NAME as in kubectl."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from situate.cli.terminal.failures import WrongInput
from situate.objects.settings.section import format_value


@dataclass(frozen=True, slots=True)
class ObjectType:
    """Type of objects, with every word that kubectl accepts for it."""

    kind: str
    plural: str
    group: str = ""
    short_names: tuple[str, ...] = ()

    def is_named(self, word: str) -> bool:
        """Return whether `word` is its kind, plural or short name, with or without version and group."""
        name, _, group = word.lower().partition(".")
        if name not in (self.kind.lower(), self.plural, *self.short_names):
            return False
        return group in ("", self.group) or group.partition(".")[2] == self.group


POD: Final = ObjectType("Pod", "pods", short_names=("po",))
DEPLOYMENT: Final = ObjectType("Deployment", "deployments", "apps", ("deploy",))
STATEFULSET: Final = ObjectType("StatefulSet", "statefulsets", "apps", ("sts",))
_KNOWN_TYPES: Final = (
    POD,
    DEPLOYMENT,
    STATEFULSET,
    ObjectType("ReplicaSet", "replicasets", "apps", ("rs",)),
    ObjectType("DaemonSet", "daemonsets", "apps", ("ds",)),
    ObjectType("Job", "jobs", "batch"),
    ObjectType("CronJob", "cronjobs", "batch", ("cj",)),
    ObjectType("Node", "nodes", short_names=("no",)),
    ObjectType("Service", "services", short_names=("svc",)),
    ObjectType("ConsumerGroup", "consumergroups", "internal.kafka.eventing.knative.dev"),
    ObjectType("KafkaSource", "kafkasources", "sources.knative.dev"),
    ObjectType("VirtualMachine", "virtualmachines", "vm.neon.tech", ("vm", "vms")),
)
"""Types that users try with every product. The error for one lists the types that the product explains."""


@dataclass(frozen=True, slots=True)
class ObjectName:
    """Object that an argument names."""

    type: ObjectType | None
    """None if the argument names no type."""
    namespace: str
    """Empty if neither the argument nor `-n` names one."""
    name: str


def possible_names(text: str, namespace: str | None, types: Sequence[ObjectType]) -> tuple[ObjectName, ...]:
    """List the objects that an argument may name, in the order of lookup: one or two.

    `pod/web` without `-n` may name a Pod, or an object in a namespace called `pod`. Raises `WrongInput` for anything
    but NAME, NAMESPACE/NAME, TYPE/NAME and TYPE/NAMESPACE/NAME, and for a type that is not one of `types`.
    """
    parts = text.split("/")
    if not all(parts) or len(parts) > 3:
        raise WrongInput(f"{text or format_value(text)}: {_name_forms(types)}")
    if len(parts) == 1:
        return (ObjectName(None, namespace or "", text),)
    first, *_, name = parts
    type_ = next((each for each in types if each.is_named(first)), None)
    if len(parts) == 3:
        if type_ is None:
            raise WrongInput(_wrong_type_message(text, first, types))
        if namespace not in (None, parts[1]):
            raise WrongInput(f"{text}: -n {namespace} names another namespace; leave one of them out")
        return (ObjectName(type_, parts[1], name),)
    as_namespace = ObjectName(None, first, name)
    if namespace is None or namespace == first:
        return (as_namespace,) if type_ is None else (as_namespace, ObjectName(type_, namespace or "", name))
    if type_ is not None:
        return (ObjectName(type_, namespace, name),)
    if any(each.is_named(first) for each in _KNOWN_TYPES):
        raise WrongInput(_wrong_type_message(text, first, types))
    raise WrongInput(f"{text}: -n {namespace} names another namespace; leave one of them out, or {_name_forms(types)}")


def require_explained_type(text: str, types: Sequence[ObjectType]) -> None:
    """Raise `WrongInput` for an argument that matches no object and begins with a type that is not explained."""
    first, slash, _ = text.partition("/")
    if slash and any(each.is_named(first) for each in _KNOWN_TYPES) and not any(each.is_named(first) for each in types):
        raise WrongInput(_wrong_type_message(text, first, types))


def _wrong_type_message(text: str, word: str, types: Sequence[ObjectType]) -> str:
    return f"{text}: found type {format_value(word)}, allowed: {_type_words(types)}; {_name_forms(types)}"


def _name_forms(types: Sequence[ObjectType]) -> str:
    example = types[0].kind.lower()
    return f"name the object as NAMESPACE/NAME, or as NAME or TYPE/NAME with -n NAMESPACE, such as {example}/NAME"


def _type_words(types: Sequence[ObjectType]) -> str:
    return ", ".join(dict.fromkeys(each.kind.lower() for each in types))
