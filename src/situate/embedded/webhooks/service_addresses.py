"""Find the address of a webhook's Service through its endpoints, because cluster addresses are not routed here.

The address is that of the Service's first ready endpoint, or its `externalName`. For a webhook on this machine, create
a Service of type ExternalName for `localhost`, or an EndpointSlice with `127.0.0.1`. In both cases the certificate must
contain the name `NAME.NAMESPACE.svc` of the Service, as for kube-apiserver.
"""

from __future__ import annotations

from typing import Any

from situate.cluster.storage.store import Store


class ServiceAddresses:
    """The Services of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def resolve(self, namespace: str, name: str, port: int) -> str:
        """Return `https://host:port`. Raises `LookupError` with Go's text if no such address exists."""
        found = self._store.get("services", namespace, name)
        if found is None:
            raise LookupError(f'service "{name}" not found')
        spec = found.object().get("spec", {})
        if spec.get("type") == "ExternalName":
            return f"https://{spec.get('externalName', '')}:{port}"
        named = next((entry for entry in spec.get("ports") or () if entry.get("port") == port), None)
        if named is None:
            raise LookupError(f'no service port {port} found for service "{name}"')
        for entry in self._store.table("endpointslices.discovery.k8s.io").sorted_objects(namespace):
            if entry.labels.get("kubernetes.io/service-name") == name:
                address = _ready_address(entry.object(), named)
                if address:
                    return address
        raise LookupError(f'no endpoints available for service "{name}"')


def _ready_address(entry: dict[str, Any], port: dict[str, Any]) -> str:
    numbers = [p["port"] for p in entry.get("ports") or () if p.get("name", "") == port.get("name", "")]
    for endpoint in entry.get("endpoints") or ():
        ready = (endpoint.get("conditions") or {}).get("ready")
        if ready is not False and endpoint.get("addresses") and numbers:
            host = endpoint["addresses"][0]
            return f"https://[{host}]:{numbers[0]}" if ":" in host else f"https://{host}:{numbers[0]}"
    return ""
