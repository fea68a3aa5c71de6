"""Who is answered, by the real API server: tokens of its service accounts, and others that look like them."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from random import Random

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from situate.kube.connect import connect
from situate.kube.login.connection import Connection, Pem
from situate.runtime.serving.access import Access
from situate.runtime.serving.status_answers import Declined
from situate.vm.server.agents import AgentRules
from situate.vm.server.authorization import CallerAuthorizer
from tests.contract.waiting import eventually
from tests.controlplane.certificates import signing_key
from tests.controlplane.plane import ControlPlane

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def signed(token: str, key: bytes, *, ended_s_ago: float = 0.0) -> str:
    """The claims of a token under another signature; with an end that is past, if that is wanted."""
    head, claims, _ = token.split(".")
    said = json.loads(base64.urlsafe_b64decode(claims + "=="))
    if ended_s_ago:
        end = int(time.time() - ended_s_ago)
        said |= {"exp": end, "iat": end - 3600, "nbf": end - 3600}
    private = serialization.load_pem_private_key(key, None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    text = f"{head}.{_url(json.dumps(said).encode())}"
    r, s = decode_dss_signature(private.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{_url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def _url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def servers_key(plane: ControlPlane) -> bytes:
    """With which it signs its tokens."""
    return (plane.folder / "service-accounts.key").read_bytes()


def let_resize(plane: ControlPlane, namespace: str, account: str) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]}]
    place = f"{RBAC}/namespaces/{namespace}"
    plane.request("POST", f"{place}/roles", {"metadata": {"name": "resizer"}, "rules": rules})
    binding = {
        "metadata": {"name": "resizer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "resizer"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    plane.request("POST", f"{place}/rolebindings", binding)


@pytest.mark.rule("vm:B44")
async def test_tokens_of_nobody_of_others_and_of_the_past_are_refused(
    control_plane: ControlPlane, control_plane_namespace: str
) -> None:
    plane, namespace = control_plane, control_plane_namespace
    plane.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "agent"}})
    token = plane.service_account_token(namespace, "agent")
    own_key = servers_key(plane)
    connection = Connection(server=plane.url, source="the test", token=plane.token(), ca=Pem(data=plane.authority))
    client = connect(connection, Random(1))
    callers = CallerAuthorizer(
        Access(client, asyncio.get_running_loop().time), "token", AgentRules(frozenset()), lambda name, namespace: None
    )

    async def refusal(of: str | None) -> int:
        """0: there is none."""
        try:
            await callers.check({} if of is None else {"authorization": f"Bearer {of}"}, "127.0.0.1", ())
        except Declined as declined:
            return declined.code
        return 0

    async def forbidden(where: str) -> int:
        try:
            await callers.check_permission({"authorization": f"Bearer {token}"}, "patch", "resize", (where,))
        except Declined as declined:
            return declined.code
        return 0

    try:
        assert await refusal(token) == 0
        assert await refusal(signed(token, own_key)) == 0, "so that what follows is refused for one reason alone"
        assert await refusal(None) == 401
        assert await refusal(signed(token, own_key, ended_s_ago=60.0)) == 401
        assert await refusal(signed(token, signing_key()[0])) == 401
        assert await refusal(plane.token()) == 403, "an administrator is no service account"
        assert await forbidden(namespace) == 403
        let_resize(plane, namespace, "agent")
        await eventually(lambda: forbidden(namespace), lambda code: code == 0)
        assert await forbidden("default") == 403
    finally:
        await client.close()
