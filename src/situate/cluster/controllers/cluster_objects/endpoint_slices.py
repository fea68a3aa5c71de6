"""EndpointSlices of Services: the addresses of the pods that a Service selects.

Upstream: pkg/controller/endpointslice and its reconciler. No component routes traffic; clients that look up Services
find their pods. A slice holds up to a hundred endpoints, sorted by pod name. A named target port gets the number of the
first pod that has this name. The older Endpoints are not written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from situate.cluster.controllers.machinery.actions import (
    NO_WRITES,
    Action,
    Create,
    Delete,
    ReconcileResult,
    merge_patch,
    sequential_writes,
    uid_patch,
)
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Controller, ControllerContext
from situate.cluster.controllers.machinery.owners import controller_reference
from situate.cluster.controllers.machinery.tables import ENDPOINT_SLICES, NODES, PODS, SERVICES, Key, Obj
from situate.cluster.controllers.node.nodes import ZONE
from situate.cluster.controllers.node.pods import PodFacts

_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_MANAGER: Final = "endpointslice-controller.k8s.io"
_SERVICE: Final = "kubernetes.io/service-name"
_HEADLESS: Final = "service.kubernetes.io/headless"
_MAX_ENDPOINTS: Final = 100
"""Endpoints in a slice."""


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """The data of a pod that a slice holds."""

    address: str
    pod: PodFacts
    ports: Mapping[str, int]
    """Container ports with a name."""


@dataclass(slots=True)
class _Service:
    selector: Mapping[str, str]
    endpoints: dict[str, _Endpoint] = field(default_factory=dict)
    """Endpoints by pod name."""

    def selects(self, pod: PodFacts) -> bool:
        return all(pod.labels.get(key) == value for key, value in self.selector.items())


class EndpointSliceController(Controller):
    """Controller of EndpointSlices. Keys are Services."""

    name = "endpoint-slices"
    user = "system:serviceaccount:kube-system:endpointslice-controller"
    manager = "endpointslice-controller"
    watches = frozenset({PODS, SERVICES, ENDPOINT_SLICES})

    def __init__(self, cluster: ControllerContext) -> None:
        self._cluster = cluster
        self._services: dict[str, dict[str, _Service]] = {}
        self._slices: dict[Key, set[str]] = {}

    def observe(self, change: Change, now: float) -> Iterator[Key]:  # noqa: ARG002  # the protocol's
        namespace, name = change.key
        if change.resource == PODS:
            for service, known in self._services.get(namespace, {}).items():
                if self._update_pod(known, change):
                    yield namespace, service
        elif change.resource == SERVICES:
            self._update_service(change)
            yield change.key
        elif change.resource == ENDPOINT_SLICES:
            labels = change.last.labels
            if labels.get(_MANAGED_BY) == _MANAGER:
                key = namespace, labels.get(_SERVICE, "")
                names = self._slices.setdefault(key, set())
                (names.discard if change.new is None else names.add)(name)
                yield key

    def reconcile(self, key: Key, now: float) -> ReconcileResult:  # noqa: ARG002  # the protocol's
        service = self._cluster.get(SERVICES, *key)
        known = self._services.get(key[0], {}).get(key[1])
        if service is None or known is None or "deletionTimestamp" in service["metadata"]:
            return NO_WRITES
        return sequential_writes(self._actions(key, service, known))

    def _update_service(self, change: Change) -> None:
        namespace, name = change.key
        services = self._services.setdefault(namespace, {})
        selector = (change.object.get("spec") or {}).get("selector") if change.new is not None else None
        if not selector:
            services.pop(name, None)
            return
        if name in services and services[name].selector == selector:
            return
        services[name] = known = _Service(selector)
        for pod in self._cluster.pods.pods.values():
            if pod.namespace == namespace and known.selects(pod):
                obj = self._cluster.get(PODS, *pod.key)
                if obj is not None:
                    _set_endpoint(known, pod, obj)

    @staticmethod
    def _update_pod(known: _Service, change: Change) -> bool:
        """Take in a change of a pod. Return whether the Service's endpoints changed."""
        pod, name = change.pod, change.last.name
        before = known.endpoints.pop(name, None)
        if pod is not None and known.selects(pod):
            _set_endpoint(known, pod, change.object)
        return known.endpoints.get(name) != before

    def _actions(self, key: Key, service: Obj, known: _Service) -> Iterator[Action]:
        namespace = key[0]
        endpoints = [known.endpoints[name] for name in sorted(known.endpoints)]
        always = bool(service["spec"].get("publishNotReadyAddresses"))
        shown = [self._endpoint(each, always=always) for each in endpoints]
        ports = _ports(service, endpoints) if endpoints else []
        present = sorted(self._slices.get(key, ()))
        for first in range(0, max(len(shown), 1), _MAX_ENDPOINTS):
            wanted = {"endpoints": shown[first : first + _MAX_ENDPOINTS], "ports": ports}
            if not present:
                yield Create(ENDPOINT_SLICES, namespace, _new_slice(service, wanted))
                continue
            name = present.pop(0)
            found = self._cluster.get(ENDPOINT_SLICES, namespace, name)
            patch = {} if found is None else merge_patch({each: found.get(each) or [] for each in wanted}, wanted)
            if found is not None and patch:
                yield uid_patch(ENDPOINT_SLICES, found, patch)
        for name in present:
            found = self._cluster.get(ENDPOINT_SLICES, namespace, name)
            if found is not None:
                yield Delete(ENDPOINT_SLICES, namespace, name, found["metadata"]["uid"])

    def _endpoint(self, endpoint: _Endpoint, *, always: bool) -> dict[str, Any]:
        pod = endpoint.pod
        node = self._cluster.get(NODES, "", pod.node)
        zone = ((node or {}).get("metadata", {}).get("labels") or {}).get(ZONE)
        serving = pod.ready or always
        return {
            "addresses": [endpoint.address],
            "conditions": {
                "ready": serving and (always or not pod.terminating),
                "serving": serving,
                "terminating": pod.terminating,
            },
            "nodeName": pod.node,
            "targetRef": {"kind": "Pod", "name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            **({"zone": zone} if zone else {}),
        }


def _set_endpoint(known: _Service, pod: PodFacts, obj: Obj) -> None:
    address = (obj.get("status") or {}).get("podIP", "")
    if address and not pod.finished:
        containers = obj["spec"]["containers"]
        ports = (port for container in containers for port in container.get("ports") or ())
        named = {port["name"]: port["containerPort"] for port in ports if port.get("name")}
        known.endpoints[pod.name] = _Endpoint(address, pod, named)


def _ports(service: Obj, endpoints: list[_Endpoint]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for port in service["spec"].get("ports") or ():
        target = port.get("targetPort") or port["port"]
        if isinstance(target, str):
            target = next((each.ports[target] for each in endpoints if target in each.ports), None)
        if target is not None:
            known = {"name": port.get("name", ""), "port": target, "protocol": port.get("protocol", "TCP")}
            application = port.get("appProtocol")
            found.append({**known, **({"appProtocol": application} if application else {})})
    return found


def _new_slice(service: Obj, wanted: Mapping[str, Any]) -> dict[str, Any]:
    metadata = service["metadata"]
    labels = {**(metadata.get("labels") or {}), _MANAGED_BY: _MANAGER, _SERVICE: metadata["name"]}
    if service["spec"].get("clusterIP") == "None":
        labels[_HEADLESS] = ""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [controller_reference(service)],
        },
        "addressType": "IPv4",
        **wanted,
    }
