"""Admission plugins of kube-apiserver that are on by default and apply to served resources.

They are Priority, DefaultTolerationSeconds, TaintNodesByCondition and PodTopologyLabels (kubernetes
plugin/pkg/admission). `situate.cluster.write` checks the lifecycle of namespaces.
"""

from __future__ import annotations

from typing import Any, Final

from situate.cluster.admission.attributes import Attributes
from situate.cluster.errors.refusals import RequestRefused, forbidden
from situate.cluster.storage.resources import Resource
from situate.cluster.storage.store import Store

_TOLERATION_SECONDS: Final = 300
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


_HANDLED_TABLES: Final = frozenset({"pods", "nodes", "priorityclasses.scheduling.k8s.io"})


class InTreePlugins:
    """The plugins for one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, resource: Resource, subresource: str) -> bool:
        """Return whether a plugin handles such writes."""
        return resource.table in _HANDLED_TABLES and not subresource

    def mutate(self, attributes: Attributes) -> None:
        """Change the object in place."""
        obj = attributes.object
        if obj is None:
            return
        if attributes.resource.table == "pods" and not attributes.subresource:
            if attributes.operation == "CREATE":
                self._set_priority(attributes.resource, obj)
                _tolerate_lost_nodes(obj["spec"])
                self._label_with_zone(obj)
            elif attributes.operation == "UPDATE":
                self._keep_priority(obj, attributes.old)
                _tolerate_lost_nodes(obj["spec"])
        elif attributes.resource.table == "nodes" and attributes.operation == "CREATE":
            _taint_new_node(obj)

    def validate(self, attributes: Attributes) -> None:
        """Raise `RequestRefused` for an object that must not be admitted."""
        if attributes.resource.table == "priorityclasses.scheduling.k8s.io" and attributes.operation != "DELETE":
            self._check_one_default(attributes)

    def zone_labels(self, node_name: str) -> dict[str, str]:
        """Return the labels that PodTopologyLabels copies from a node to a pod bound to it."""
        node = self._store.get("nodes", "", node_name)
        if node is None:
            return {}
        return {name: node.labels[name] for name in _TOPOLOGY_LABELS if name in node.labels}

    def _label_with_zone(self, pod: dict[str, Any]) -> None:
        """Label a pod that is created with a node name like a pod that is bound to that node."""
        labels = self.zone_labels(pod["spec"].get("nodeName", ""))
        if labels:
            pod["metadata"].setdefault("labels", {}).update(labels)

    def _set_priority(self, resource: Resource, pod: dict[str, Any]) -> None:
        spec = pod["spec"]
        name = spec.get("priorityClassName", "")
        if name:
            found = self._store.get("priorityclasses.scheduling.k8s.io", "", name)
            if found is None:
                raise _refusal(resource, pod, f"no PriorityClass with name {name} was found")
            priority_class = found.object()
        else:
            priority_class = self._default_class() or {}
            if priority_class:
                spec["priorityClassName"] = priority_class["metadata"]["name"]
        value = priority_class.get("value", 0)
        policy = priority_class.get("preemptionPolicy", "PreemptLowerPriority")
        given = spec.get("priority")
        if given is not None and given != value:
            why = f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
            why += f"controller computed {value} from the given PriorityClass name"
            raise _refusal(resource, pod, why)
        spec["priority"] = value
        chosen = spec.get("preemptionPolicy")
        if chosen is not None and chosen != policy:
            why = f"the string value of PreemptionPolicy ({chosen}) must not be provided in pod spec; priority "
            why += f"admission controller computed {policy} from the given PriorityClass name"
            raise _refusal(resource, pod, why)
        spec["preemptionPolicy"] = policy

    def _keep_priority(self, pod: dict[str, Any], old: dict[str, Any] | None) -> None:
        """Restore the fields on update, because clients that do not know them omit them."""
        if old is None:
            return
        for name in ("priority", "preemptionPolicy"):
            if pod["spec"].get(name) is None and old["spec"].get(name) is not None:
                pod["spec"][name] = old["spec"][name]

    def _default_class(self) -> dict[str, Any] | None:
        """Return the global default PriorityClass; of several the one with the lowest value."""
        table = self._store.table("priorityclasses.scheduling.k8s.io")
        found: dict[str, Any] | None = None
        for stored in table.objects.values():
            if b'"globalDefault":true' in stored.raw:
                candidate = stored.object()
                if candidate.get("globalDefault") and (found is None or candidate["value"] < found["value"]):
                    found = candidate
        return found

    def _check_one_default(self, attributes: Attributes) -> None:
        obj = attributes.object
        if obj is None or not obj.get("globalDefault"):
            return
        default = self._default_class()
        name = None if default is None else default["metadata"]["name"]
        if name not in (None, obj["metadata"].get("name")):
            why = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise _refusal(attributes.resource, obj, why)


def _refusal(resource: Resource, obj: dict[str, Any], why: str) -> RequestRefused:
    return RequestRefused(forbidden(resource, obj["metadata"].get("name", ""), why))


def _tolerate_lost_nodes(spec: dict[str, Any]) -> None:
    tolerations = spec.get("tolerations") or []
    missing = [
        key for key in (_NOT_READY, _UNREACHABLE) if not any(_tolerates(toleration, key) for toleration in tolerations)
    ]
    if not missing:
        return
    spec["tolerations"] = [
        *tolerations,
        *(
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
            for key in missing
        ),
    ]


def _tolerates(toleration: dict[str, Any], key: str) -> bool:
    return toleration.get("key", "") in (key, "") and toleration.get("effect", "") in ("NoExecute", "")


def _taint_new_node(node: dict[str, Any]) -> None:
    taints = node.setdefault("spec", {}).get("taints") or []
    if any(taint.get("key") == _NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
        return
    node["spec"]["taints"] = [*taints, {"key": _NOT_READY, "effect": "NoSchedule"}]
