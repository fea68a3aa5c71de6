"""Who is answered: bearers of a service account's token, and with `compat`, if that is set, a pod's own node (B44).

Whose a token is, and what he may do, is the API server's to say; a yes is remembered for seconds (`Access`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Literal

from situate.objects.kinds.pods import Pod
from situate.objects.reviews.authentication import UserInfo
from situate.objects.reviews.authorization import ResourceAttributes
from situate.runtime.serving.access import Access
from situate.runtime.serving.status_answers import Declined
from situate.vm.server.agents import SERVICE_ACCOUNT, AgentRules, FindPod, refusal

How = Literal["token", "node", "any"]


class Callers:
    """Of one process."""

    def __init__(self, access: Access, how: How, agents: AgentRules, find: FindPod) -> None:
        """`find`: a Pod that is known here."""
        self._access = access
        self._how = how
        self._agents = agents
        self._find = find

    async def check_agent(self, headers: Mapping[str, str], peer: str, pod: Pod | None) -> None:
        """Whether a permit for that Pod of a VM may be given; None: it is unknown. Raises as `check`."""
        if self._needs_no_token(peer, () if pod is None else (pod,)):
            return
        why_not = refusal(await self.account(headers), pod, self._agents, self._find)
        if why_not is not None:
            raise Declined(403, "Forbidden", why_not)

    async def check(self, headers: Mapping[str, str], peer: str, pods: Iterable[Pod]) -> None:
        """Whether an answer about these pods may be given. Raises `Declined`, and what the client raises.

        Whoever asks from a pod's node needs no token where that is allowed.
        """
        if not self._needs_no_token(peer, pods):
            await self.account(headers)

    def _needs_no_token(self, peer: str, pods: Iterable[Pod]) -> bool:
        return self._how == "any" or (self._how == "node" and any(_same(each.status.host_ip, peer) for each in pods))

    async def account(self, headers: Mapping[str, str]) -> UserInfo:
        """The service account that asks. Raises `Declined` of every other, and what the client raises."""
        said = headers.get("authorization", "")
        try:
            user = await self._access.bearer(said)
        except Declined as declined:
            raise Declined(declined.code, declined.reason, _why_not(said, self._how)) from declined
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


def _why_not(said: str, how: How) -> str:
    """Of whom the API server does not name, for whoever reads the log of an agent."""
    if said:
        return "the token is none of a service account that is in force: it has expired, or is of another cluster"
    elsewhere = ", or ask from the pod's own node" if how == "node" else ""
    return f"no token: send Authorization: Bearer, with the token of a service account{elsewhere}"


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
