"""Checks of callers: tokens of service accounts and, with `compat` if set, requests from a Pod's own node (B44).

The API server identifies the account of a token and its permissions. `Access` caches a positive result for seconds.
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
from situate.vm.server.agents import SERVICE_ACCOUNT, AgentRules, FindPod, agent_refusal

CallerCheck = Literal["token", "node", "any"]


class CallerAuthorizer:
    """Checks of one process."""

    def __init__(self, access: Access, how: CallerCheck, agents: AgentRules, find: FindPod) -> None:
        """`find` returns a known Pod."""
        self._access = access
        self._how = how
        self._agents = agents
        self._find = find

    async def check_agent(self, headers: Mapping[str, str], peer: str, pod: Pod | None) -> None:
        """Check that the caller may get a permit for that Pod of a VM; None: it is unknown. Raises as `check`."""
        if self._needs_no_token(peer, () if pod is None else (pod,)):
            return
        why_not = agent_refusal(await self.account(headers), pod, self._agents, self._find)
        if why_not is not None:
            raise Declined(403, "Forbidden", why_not)

    async def check(self, headers: Mapping[str, str], peer: str, pods: Iterable[Pod]) -> None:
        """Check that the caller may get an answer about these Pods. Raises `Declined`, and the errors of the client.

        If node callers are allowed, a request from the node of such a Pod needs no token.
        """
        if not self._needs_no_token(peer, pods):
            await self.account(headers)

    def _needs_no_token(self, peer: str, pods: Iterable[Pod]) -> bool:
        return self._how == "any" or (
            self._how == "node" and any(_is_same_address(each.status.host_ip, peer) for each in pods)
        )

    async def account(self, headers: Mapping[str, str]) -> UserInfo:
        """Return the calling service account. Raises `Declined` for any other caller, and the errors of the client."""
        said = headers.get("authorization", "")
        try:
            user = await self._access.authenticate(said)
        except Declined as declined:
            raise Declined(declined.code, declined.reason, _authentication_error(said, self._how)) from declined
        if not user.username.startswith(SERVICE_ACCOUNT):
            raise Declined(
                403, "Forbidden", f"{user.username} is not a service account; use the token of a service account"
            )
        return user

    async def check_permission(
        self, headers: Mapping[str, str], verb: str, subresource: str, namespaces: Iterable[str]
    ) -> None:
        """Check that the account may do this to Pods of these namespaces; the empty one is all. Raises as `account`."""
        user = await self.account(headers)
        for namespace in namespaces:
            action = ResourceAttributes(
                namespace=namespace, verb=verb, version="v1", resource="pods", subresource=subresource
            )
            await self._access.check(user, action)


def _authentication_error(said: str, how: CallerCheck) -> str:
    """Return the error for a caller that the API server does not identify, for readers of an agent's log."""
    if said:
        return "the token is not a valid service account token; it has expired or belongs to another cluster"
    elsewhere = ", or ask from the node of the pod" if how == "node" else ""
    return f"no token found; send Authorization: Bearer with the token of a service account{elsewhere}"


def _is_same_address(host: str, peer: str) -> bool:
    """Return whether two texts are the same address. IPv4-mapped IPv6 counts as IPv4."""
    try:
        one, other = (_unmapped_address(ipaddress.ip_address(each)) for each in (host, peer))
    except ValueError:
        return False
    return one == other


def _unmapped_address(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped
