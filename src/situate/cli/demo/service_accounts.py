"""ServiceAccounts of the demo's processes, with exactly the rights that `situate manifests` prints.

The story itself uses the user's credentials. The embedded server authenticates the accounts by their tokens and
enforces no RBAC; a real API server does.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from situate.cli.demo.demo_objects import DemoObjects
from situate.cli.demo.wait import wait_until_usable
from situate.embedded.kubeconfig import write_kubeconfig
from situate.kube.login.connection import Connection
from situate.kube.queries.reviews import review_access
from situate.objects.messages import Request
from situate.objects.resources import SERVICEACCOUNTS, ResourceType, unstructured
from situate.objects.reviews.authentication import UserInfo
from situate.objects.reviews.authorization import ResourceAttributes

_DAY_S: Final = 86_400
_RBAC: Final = "rbac.authorization.k8s.io"
_KINDS: Final[Mapping[str, ResourceType[Any]]] = {
    "ServiceAccount": SERVICEACCOUNTS,
    "Role": unstructured(_RBAC, "v1", "Role", "roles"),
    "RoleBinding": unstructured(_RBAC, "v1", "RoleBinding", "rolebindings"),
    "ClusterRole": unstructured(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False),
    "ClusterRoleBinding": unstructured(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
}
"""Printed kinds that the demo creates. The other kinds are for Pods, which processes replace here."""


@dataclass(frozen=True, slots=True)
class Account:
    namespace: str
    name: str
    token: str
    """Valid for one day."""
    kubeconfig: Path


class Accounts:
    """Creates accounts, and records the created objects for their removal."""

    def __init__(self, objects: DemoObjects, connection: Connection, folder: Path) -> None:
        """`connection` is the client's; `folder` is for the accounts' kubeconfigs."""
        self._objects = objects
        self._connection = connection
        self._folder = folder
        self._created_objects: list[tuple[ResourceType[Any], str, str | None]] = []

    def kubeconfig_of(self, account: str) -> Path:
        """Return the path of an account's kubeconfig, which exists once the account is created."""
        return self._folder / f"{account}.kubeconfig"

    async def create(self, printed: Iterable[Mapping[str, Any]]) -> list[Account]:
        """Create the accounts among the printed objects, and wait until the API server grants their rights.

        Returns them in the printed order. Raises `WrongInput` if the API server does not grant the rights in time.
        """
        objects = [each for each in printed if each["kind"] in _KINDS]
        for each in objects:
            resource, metadata = _KINDS[each["kind"]], each["metadata"]
            name, namespace = metadata["name"], metadata.get("namespace")
            self._created_objects.append((resource, name, namespace))
            await self._objects.apply(resource, each, namespace)
        for user, action in granted_actions(objects):
            await wait_until_usable(
                partial(self._is_allowed, user, action),
                f"{user} still may not {action.verb} {action.resource}, although a role that is bound to it allows it",
            )
        return [await self._create_account(each["metadata"]) for each in objects if each["kind"] == "ServiceAccount"]

    async def remove(self) -> None:
        """Delete all created objects, in every namespace."""
        while self._created_objects:
            await self._objects.delete(*self._created_objects.pop())

    async def _is_allowed(self, user: str, action: ResourceAttributes) -> bool:
        return (await review_access(self._objects.client, UserInfo(username=user), action)).allowed

    async def _create_account(self, metadata: Mapping[str, Any]) -> Account:
        namespace, name = metadata["namespace"], metadata["name"]
        token = await self._request_token(namespace, name)
        kubeconfig = self.kubeconfig_of(name)
        write_kubeconfig(kubeconfig, kubeconfig_content(self._connection, namespace, name, token))
        return Account(namespace, name, token, kubeconfig)

    async def _request_token(self, namespace: str, name: str) -> str:
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        body = msgspec.json.encode({**asked, "spec": {"expirationSeconds": _DAY_S}})
        headers = {"content-type": "application/json", "accept": "application/json"}
        path = SERVICEACCOUNTS.path(namespace, name, "token")
        made = await self._objects.client.raw(Request("POST", path, (), headers, body))
        return str(msgspec.json.decode(made.body)["status"]["token"])


def granted_actions(objects: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, ResourceAttributes]]:
    """Return one action of each role, and the user that its binding grants it to.

    API servers learn of roles and bindings separately, so each pair is checked.
    """
    roles: dict[tuple[str, str | None], Mapping[str, Any]] = {}
    for each in objects:
        kind, namespace = each["kind"], each["metadata"].get("namespace")
        if kind in ("Role", "ClusterRole"):
            roles[each["metadata"]["name"], namespace] = each["rules"][-1]
        elif kind in ("RoleBinding", "ClusterRoleBinding"):
            rule = roles[each["roleRef"]["name"], namespace]
            resource, _, subresource = rule["resources"][0].partition("/")
            action = ResourceAttributes(
                namespace=namespace or "",
                verb=rule["verbs"][0],
                group=rule["apiGroups"][0],
                resource=resource,
                subresource=subresource,
                name=rule.get("resourceNames", ("",))[0],
            )
            for subject in each["subjects"]:
                yield f"system:serviceaccount:{subject['namespace']}:{subject['name']}", action


def kubeconfig_content(connection: Connection, namespace: str, account: str, token: str) -> dict[str, Any]:
    """Return a kubeconfig for the same API server with that token."""
    cluster: dict[str, Any] = {"server": connection.server}
    if connection.ca is not None and connection.ca.path is not None:
        cluster["certificate-authority"] = str(connection.ca.path.absolute())
    elif connection.ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(connection.ca.data).decode()
    further = {
        "insecure-skip-tls-verify": connection.insecure_skip_tls_verify,
        "tls-server-name": connection.tls_server_name,
        "proxy-url": connection.proxy_url,
    }
    cluster |= {key: value for key, value in further.items() if value}
    context = {"cluster": "demo", "user": account, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "demo", "cluster": cluster}],
        "users": [{"name": account, "user": {"token": token}}],
        "contexts": [{"name": "demo", "context": context}],
        "current-context": "demo",
    }
