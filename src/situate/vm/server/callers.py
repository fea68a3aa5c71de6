"""Who is answered: bearers of a service account's token, and with `compat`, if that is set, a pod's own node (B44).

Whose a token is, and what he may do, is the API server's to say; a yes is remembered for seconds (`Access`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from situate.objects.authentication import UserInfo
from situate.objects.authorization import ResourceAttributes
from situate.objects.pods import Pod
from situate.runtime.serving.access import Access
from situate.runtime.serving.answers import Declined

SERVICE_ACCOUNT: Final = "system:serviceaccount:"
"""Before the name of every service account."""
How = Literal["token", "node", "any"]


class Callers:
    """Of one process."""

    def __init__(self, access: Access, how: How) -> None:
        self._access = access
        self._how = how

    async def check(self, headers: Mapping[str, str], peer: str, pods: Iterable[Pod]) -> None:
        """Whether an answer about these pods may be given. Raises `Declined`, and what the client raises.

        Whoever asks from a pod's node needs no token where that is allowed.
        """
        if self._how == "any" or (self._how == "node" and any(_same(each.status.host_ip, peer) for each in pods)):
            return
        await self.account(headers)

    async def account(self, headers: Mapping[str, str]) -> UserInfo:
        """The service account that asks. Raises `Declined` of every other, and what the client raises."""
        user = await self._access.bearer(headers.get("authorization", ""))
        if not user.username.startswith(SERVICE_ACCOUNT):
            raise Declined(403, "Forbidden", f"{user.username} is no service account: ask with the token of one")
        return user

    async def may(self, headers: Mapping[str, str], verb: str, subresource: str, namespaces: Iterable[str]) -> None:
        """Whether the account may do that to pods of these namespaces; the empty one is all. Raises as `account`."""
        user = await self.account(headers)
        for namespace in namespaces:
            action = ResourceAttributes(
                namespace=namespace, verb=verb, version="v1", resource="pods", subresource=subresource
            )
            await self._access.check(user, action)


def _same(host: str, peer: str) -> bool:
    """Whether two texts are one address; IPv4 as IPv6 shows it counts as IPv4."""
    try:
        one, other = (_plain(ipaddress.ip_address(each)) for each in (host, peer))
    except ValueError:
        return False
    return one == other


def _plain(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped
