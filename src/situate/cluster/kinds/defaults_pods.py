"""Set the defaults of pods and of the pod templates of workloads.

After `k8s.io/kubernetes/pkg/apis/core/v1/defaults.go` of the release in `schemas.catalog.version`. All functions change
a decoded object in place.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, Final

from situate.cluster.errors.quantity_text import canonical_quantity, parse_amount

_Object = dict[str, Any]
_CONTAINER_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def set_absent(obj: _Object, **values: Any) -> None:
    """Set the fields that are absent."""
    for name, value in values.items():
        obj.setdefault(name, value)


def set_empty(obj: _Object, **values: Any) -> None:
    """Set the fields that are absent, zero or empty."""
    for name, value in values.items():
        if not obj.get(name):
            obj[name] = value


def default_pod(pod: _Object) -> None:
    """Set the defaults of a pod.

    Besides those of its spec, requests default to limits and host ports to container ports.
    """
    spec = pod.get("spec")
    if spec is None:
        return
    for name in ("containers", "initContainers"):
        for container in spec.get(name, ()):
            _default_requests(container)
    _default_pod_level_requests(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for name in ("containers", "initContainers"):
            for container in spec.get(name, ()):
                for port in container.get("ports", ()):
                    if not port.get("hostPort"):
                        port["hostPort"] = port.get("containerPort", 0)
    default_pod_spec(spec)


def _default_requests(container: _Object) -> None:
    resources = container.get("resources")
    if resources and resources.get("limits"):
        resources["requests"] = {**resources["limits"], **resources.get("requests", {})}


def _default_pod_level_requests(spec: _Object) -> None:
    """Set pod-level requests if there are pod-level limits: the sum of the containers' requests, else the limit."""
    limits = spec.get("resources", {}).get("limits")
    if not limits:
        return
    requests = dict(spec["resources"].get("requests", {}))
    for name in ("cpu", "memory"):
        asked = [
            parse_amount(container["resources"]["requests"][name])
            for container in spec.get("containers", ())
            if name in container.get("resources", {}).get("requests", {})
        ]
        if asked and name not in requests:
            requests[name] = _milli_text(sum(asked, Fraction(0)))
    for name, limit in limits.items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            requests.setdefault(name, limit)
    if requests:
        spec["resources"]["requests"] = requests


def _milli_text(value: Fraction) -> str:
    """Return a sum of quantities as text in thousandths."""
    return canonical_quantity(f"{-(-value.numerator * 1000 // value.denominator)}m")


def default_pod_spec(spec: _Object) -> None:
    """Set the defaults of the spec of a pod or template."""
    set_empty(spec, dnsPolicy="ClusterFirst", restartPolicy="Always")
    set_absent(spec, securityContext={}, terminationGracePeriodSeconds=30)
    set_empty(spec, schedulerName="default-scheduler")
    # kubectl and old clients read the deprecated field serviceAccount.
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    for name in _CONTAINER_LISTS:
        for container in spec.get(name, ()):
            default_container(container)
    for holder in (spec, *spec.get("containers", ())):
        if "overhead" in holder:
            _round_up(holder["overhead"])


def default_container(container: _Object) -> None:
    """Set the defaults of a container in any of the three lists."""
    if not container.get("imagePullPolicy"):
        latest = _image_tag(container.get("image", "")) == "latest"
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"
    set_empty(container, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File")
    for port in container.get("ports", ()):
        set_empty(port, protocol="TCP")
    for variable in container.get("env", ()):
        source = variable.get("valueFrom")
        if source:
            _default_field_reference(source)
            if "fileKeyRef" in source:
                source["fileKeyRef"].setdefault("optional", False)
    resources = container.get("resources")
    if resources:
        for amounts in (resources.get("limits"), resources.get("requests")):
            if amounts:
                _round_up(amounts)
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])
    lifecycle = container.get("lifecycle")
    if lifecycle:
        for name in ("postStart", "preStop"):
            _default_http(lifecycle.get(name, {}).get("httpGet"))


def _round_up(amounts: dict[str, str]) -> None:
    """Round amounts up to thousandths, the finest unit that Kubernetes counts."""
    for name, text in amounts.items():
        if text[-1:] in "nu":
            amounts[name] = _milli_text(parse_amount(text))


def _image_tag(image: str) -> str:
    """Return the tag of an image; `latest` if the image has neither tag nor digest."""
    name, at, _ = image.partition("@")
    colon = name.rpartition("/")[2].partition(":")
    if colon[1]:
        return colon[2]
    return "" if at else "latest"


def _default_field_reference(holder: _Object) -> None:
    reference = holder.get("fieldRef")
    if reference is not None:
        set_empty(reference, apiVersion="v1")


def _default_probe(probe: _Object) -> None:
    set_empty(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    _default_http(probe.get("httpGet"))
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http(action: _Object | None) -> None:
    if action is not None:
        set_empty(action, path="/", scheme="HTTP")


def _default_volume(volume: _Object) -> None:
    if len(volume) <= 1:
        volume["emptyDir"] = {}
        return
    for name, fill in _VOLUME_SOURCES.items():
        if name in volume:
            fill(volume[name])


def _default_mode(source: _Object) -> None:
    set_absent(source, defaultMode=0o644)


def _default_downward_api(source: _Object) -> None:
    _default_mode(source)
    for item in source.get("items", ()):
        _default_field_reference(item)


def _default_projected(source: _Object) -> None:
    _default_mode(source)
    for projection in source.get("sources") or ():
        for item in projection.get("downwardAPI", {}).get("items", ()):
            _default_field_reference(item)
        if "serviceAccountToken" in projection:
            projection["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def _default_image(source: _Object) -> None:
    if not source.get("pullPolicy"):
        source["pullPolicy"] = "Always" if _image_tag(source.get("reference", "")) == "latest" else "IfNotPresent"


def _default_ephemeral(source: _Object) -> None:
    if "volumeClaimTemplate" in source:
        source["volumeClaimTemplate"].setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


_VOLUME_SOURCES: Final[dict[str, Callable[[_Object], None]]] = {
    "secret": _default_mode,
    "configMap": _default_mode,
    "downwardAPI": _default_downward_api,
    "projected": _default_projected,
    "hostPath": partial(set_absent, type=""),
    "image": _default_image,
    "ephemeral": _default_ephemeral,
}


def qos_class(pod: _Object) -> str:
    """Return Guaranteed, Burstable or BestEffort.

    Pod-level resources decide if the pod has any, else the cpu and memory of all containers.
    """
    spec = pod.get("spec", {})
    level = spec.get("resources") or {}
    if level.get("requests") or level.get("limits"):
        holders = [level]
    else:
        holders = [
            container.get("resources") or {}
            for name in ("containers", "initContainers")
            for container in spec.get(name) or ()
        ]
    any_amount = False
    guaranteed = bool(holders)
    for holder in holders:
        requests, limits = holder.get("requests") or {}, holder.get("limits") or {}
        for name in ("cpu", "memory"):
            request, limit = parse_amount(requests.get(name, "0")), parse_amount(limits.get(name, "0"))
            any_amount = any_amount or request > 0 or limit > 0
            if limit == 0 or request != limit:
                guaranteed = False
    if not any_amount:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
