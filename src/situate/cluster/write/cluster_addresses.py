"""Allocate addresses and node ports of Services when they are written.

After pkg/registry/core/service (alloc.go, strategy.go). There is one IPv4 range, and no process listens on the
allocated addresses and ports. The lowest free number is allocated; upstream chooses at random.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from situate.cluster.errors.field_errors import FieldError, invalid
from situate.cluster.storage.store import Store

_Obj = dict[str, Any]
_RANGE: Final = ipaddress.IPv4Network("10.0.0.0/16")
_FIRST_FREE: Final = 10
"""Lower addresses are for clients that choose their own, such as the API server."""
_NODE_PORTS: Final = range(30000, 32768)
_ALLOCATED_FIELDS: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


class ClusterAddresses:
    """Allocator of addresses and node ports for the Services of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def allocate(self, service: _Obj, old: _Obj | None) -> list[FieldError]:
        """Set the fields that a Service did not set, in place. On update, omitted fields keep their values."""
        spec = service.setdefault("spec", {})
        before = (old or {}).get("spec", {})
        if old is not None:
            _restore_allocated(spec, before)
        if spec.get("type") == "ExternalName":
            for name in _ALLOCATED_FIELDS:
                spec.pop(name, None)
            return []
        # The endpoints of a headless Service without a selector can have addresses of both families.
        both = spec.get("clusterIP") == "None" and not spec.get("selector")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if both else ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if both else "SingleStack")
        errors = self._address(spec, before)
        if spec.get("type") not in ("NodePort", "LoadBalancer"):
            if not spec.get("externalIPs"):
                spec.pop("externalTrafficPolicy", None)
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
        elif spec.get("allocateLoadBalancerNodePorts", True):
            errors += self._node_ports(spec, before)
        return errors

    def _address(self, spec: _Obj, before: _Obj) -> list[FieldError]:
        chosen = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
        if not chosen:
            used = {each.get("clusterIP") for each in self._specs()}
            free = (str(address) for address in islice(_RANGE, _FIRST_FREE, None) if str(address) not in used)
            chosen = next(free)
        elif chosen not in ("None", before.get("clusterIP")) and (problem := self._address_error(chosen)):
            return [problem]
        spec["clusterIP"] = chosen
        spec.setdefault("clusterIPs", [chosen])
        return []

    def _address_error(self, address: str) -> FieldError | None:
        try:
            inside = ipaddress.ip_address(address) in _RANGE
        except ValueError:
            detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            return invalid("spec.clusterIPs[0]", address, detail)
        problem = "" if inside else "the provided network does not match the current range"
        if any(each.get("clusterIP") == address for each in self._specs()):
            problem = "provided IP is already allocated"
        return invalid("spec.clusterIPs", [address], f"failed to allocate IP {address}: {problem}") if problem else None

    def _node_ports(self, spec: _Obj, before: _Obj) -> list[FieldError]:
        own = {port.get("nodePort") for port in before.get("ports") or ()}
        used = {port.get("nodePort") for each in self._specs() for port in each.get("ports") or ()} - own
        errors: list[FieldError] = []
        chosen = {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
        for index, port in enumerate(spec.get("ports") or ()):
            number = port.get("nodePort")
            if not number:
                port["nodePort"] = next(each for each in _NODE_PORTS if each not in used | chosen | own)
                chosen.add(port["nodePort"])
            elif number in used:
                errors.append(invalid(f"spec.ports[{index}].nodePort", number, "provided port is already allocated"))
            elif number not in _NODE_PORTS:
                detail = "provided port is not in the valid range. The range of valid ports is 30000-32767"
                errors.append(invalid(f"spec.ports[{index}].nodePort", number, detail))
        return errors

    def _specs(self) -> Iterator[_Obj]:
        for stored in self._store.table("services").objects.values():
            yield stored.object().get("spec", {})


def _restore_allocated(spec: _Obj, before: _Obj) -> None:
    """Keep allocated values that the client omitted."""
    if spec.get("type") == "ExternalName" or before.get("type") == "ExternalName":
        return
    for name in _ALLOCATED_FIELDS:
        if not spec.get(name) and name in before:
            spec[name] = before[name]
    known = {(port.get("protocol"), port.get("port")): port.get("nodePort") for port in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        number = known.get((port.get("protocol"), port.get("port")))
        if not port.get("nodePort") and number:
            port["nodePort"] = number
