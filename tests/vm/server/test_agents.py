"""Which tokens are an agent's: by account, and by the node of the Pod that they are bound to."""

from __future__ import annotations

import msgspec
import pytest

from situate.objects.kinds.pods import Pod
from situate.objects.reviews.authentication import UserInfo
from situate.vm.server.agents import NODE_NAME, POD_NAME, POD_UID, AgentRules, agent_refusal

RULES = AgentRules(frozenset({"situate/situate-vm-agent"}))


def pod(name: str, namespace: str, uid: str, node: str) -> Pod:
    content = {"metadata": {"name": name, "namespace": namespace, "uid": uid}, "spec": {"nodeName": node}}
    return msgspec.convert(content, Pod)


MACHINE = pod("db-x", "shop", "m", "n1")
PODS = {
    (each.metadata.name, each.metadata.namespace): each
    for each in (pod("agent-1", "situate", "u1", "n1"), pod("agent-2", "situate", "u2", "n2"))
}


def user(account: str = "situate:situate-vm-agent", **claims: str) -> UserInfo:
    keys = {"node": NODE_NAME, "pod": POD_NAME, "uid": POD_UID}
    extra = {keys[key]: (value,) for key, value in claims.items()}
    return UserInfo(username=f"system:serviceaccount:{account}", extra=extra)


def find(name: str, namespace: str) -> Pod | None:
    return PODS.get((name, namespace))


@pytest.mark.finding("N27")
@pytest.mark.rule("vm:B44")
@pytest.mark.parametrize(
    ("asks", "why"),
    [
        pytest.param(user(node="n1"), None, id="the agent of the node"),
        pytest.param(user(pod="agent-1", uid="u1"), None, id="a server before 1.30 names the Pod alone"),
        pytest.param(user("shop:default", node="n1"), "may not ask for permits", id="a tenant on the node"),
        pytest.param(user("shop:situate-vm-agent", node="n1"), "may not ask", id="the name in another namespace"),
        pytest.param(user(node="n2"), "is bound to node n2, but pod shop/db-x runs on node n1", id="another node"),
        pytest.param(user(pod="agent-2", uid="u2"), "is bound to node n2", id="another node, looked up"),
        pytest.param(
            user(pod="agent-1", uid="former"), "agent-1 of the token", id="the token of a former Pod of that name"
        ),
        pytest.param(user(pod="agent-9", uid="u9"), "has no known node yet", id="a Pod nobody knows"),
        pytest.param(user(), "is not bound to a Pod", id="a token bound to nothing"),
    ],
)
def test_a_permit_is_for_the_agent_of_the_node(asks: UserInfo, why: str | None) -> None:
    found = agent_refusal(asks, MACHINE, RULES, find)
    assert found is None if why is None else found is not None and why in found


@pytest.mark.finding("N27")
@pytest.mark.parametrize("machine", [None, pod("db-y", "shop", "m2", "")], ids=["unknown", "not bound"])
def test_of_a_pod_without_a_node_the_account_is_judged(machine: Pod | None) -> None:
    assert agent_refusal(user(), machine, RULES, find) is None
    assert agent_refusal(user("shop:default"), machine, RULES, find) is not None


@pytest.mark.finding("N27")
def test_one_agent_of_all_nodes_needs_its_account_alone() -> None:
    everywhere = AgentRules(RULES.accounts, same_node=False)
    assert agent_refusal(user(), MACHINE, everywhere, find) is None
    assert agent_refusal(user(node="n2"), MACHINE, everywhere, find) is None
    assert agent_refusal(user("shop:default"), MACHINE, everywhere, find) is not None
