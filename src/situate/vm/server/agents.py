"""Decide whether a service account's token is an agent's: by its account, and by the node that its Pod runs on.

A TokenReview gives both. A token is bound to a Pod if a kubelet mounted it there. Servers from 1.30 also name the node;
for older ones, the Pod is looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from situate.objects.kinds.pods import Pod
from situate.objects.reviews.authentication import UserInfo

SERVICE_ACCOUNT: Final = "system:serviceaccount:"
"""Prefix of the name of every service account."""
_CLAIMS: Final = "authentication.kubernetes.io/"
POD_NAME: Final = f"{_CLAIMS}pod-name"
POD_UID: Final = f"{_CLAIMS}pod-uid"
NODE_NAME: Final = f"{_CLAIMS}node-name"
FindPod: TypeAlias = Callable[[str, str], Pod | None]
"""Returns a Pod by name and namespace."""


@dataclass(frozen=True, slots=True)
class AgentRules:
    """Conditions for tokens that give permits."""

    accounts: frozenset[str]
    """As NAMESPACE/NAME."""
    same_node: bool = True
    """Whether the token's Pod must run on the VM's node."""


def account_of(user: UserInfo) -> str:
    """NAMESPACE/NAME of a service account."""
    return user.username.removeprefix(SERVICE_ACCOUNT).replace(":", "/", 1)


def agent_refusal(user: UserInfo, machine: Pod | None, rules: AgentRules, find: FindPod) -> str | None:
    """Return why the caller gets no permit for that Pod of a VM; None: it may ask.

    For a Pod that is unknown or has no node, only the account is checked: it gets no permit in any case.
    """
    account = account_of(user)
    if account not in rules.accounts:
        allowed = ", ".join(sorted(rules.accounts)) or "none"
        return f"service account {account} may not ask for permits; vm.permits.agentAccounts allows: {allowed}"
    if not rules.same_node or machine is None or not machine.spec.node_name:
        return None
    node = _node(user, find)
    if node == machine.spec.node_name:
        return None
    pod = f"pod {machine.metadata.namespace}/{machine.metadata.name}"
    pod_name, next_step = _claim(user, POD_NAME), "or set vm.permits.agentNode: any"
    if not node and not pod_name:
        return (
            f"the token of service account {account} is not bound to a Pod, so its node is unknown. "
            f"Use the token that is mounted in the Pod of the agent, {next_step}"
        )
    if not node:
        return f"Pod {pod_name} of the token of service account {account} has no known node yet; ask again"
    return (
        f"the token of service account {account} is bound to node {node}, but {pod} runs on node "
        f"{machine.spec.node_name}. Ask from an agent on that node, {next_step}"
    )


def _node(user: UserInfo, find: FindPod) -> str:
    """Return the node of the token's Pod; empty: unknown."""
    said = _claim(user, NODE_NAME)
    if said:
        return said
    namespace = account_of(user).partition("/")[0]  # a token is bound only to Pods of its own namespace
    name, uid = _claim(user, POD_NAME), _claim(user, POD_UID)
    pod = find(name, namespace) if name else None
    return pod.spec.node_name if pod is not None and pod.metadata.uid == uid else ""


def _claim(user: UserInfo, key: str) -> str:
    return next(iter(user.extra.get(key, ())), "")
