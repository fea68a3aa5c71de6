"""Who is answered, and who is told no more than that he is not."""

from __future__ import annotations

import json
import re

import pytest
from structlog.testing import capture_logs

from situate.testing.vm.world.processes import NAMESPACE
from situate.vm.config.settings import PermitSettings
from situate.vm.model.policy import Rules
from tests.vm.server.scene import AGENT, PERSON, STRANGER, Stage, asking, cores, stage

COMPAT = Rules(compat=True)
REFUSED = "caller refused"
RESIZE = {"pod": {"namespace": "other", "name": "web"}, "cpu": "2"}


@pytest.mark.rule("vm:B44", "vm:C14")
def test_only_service_accounts_are_answered() -> None:
    with stage() as ours:
        pod = ours.run("a", cpus=2, slots=8)
        before = ours.node()
        ways = [
            ("POST", "/", asking(pod, cores(3), cores(2))),
            ("POST", "/", b"{"),
            ("GET", f"/explain/pod/{NAMESPACE}/{pod}", None),
            ("GET", "/explain/node/n1", None),
            ("GET", "/explain", None),
            ("POST", "/whatif", {"nodes": [{"name": "n1", "gone": True}]}),
            ("POST", "/whatif", b"["),
            ("POST", "/resize", RESIZE),
            ("POST", "/resize", b"]"),
        ]
        for method, path, body in ways:
            for token, status, why in (
                (None, 401, b"no token found; send Authorization: Bearer"),
                ("expired-or-foreign", 401, b"the token is not a valid service account token"),
                (PERSON, 403, b"is not a service account"),
            ):
                answer = ours.send(method, path, body, token=token)
                assert answer.status == status, (path, token, answer.body)
                assert why in answer.body
                assert answer.headers["content-type"].startswith("text/plain")
                assert b"a-" not in answer.body
        assert ours.node() == before


@pytest.mark.rule("vm:B44")
def test_a_token_is_asked_about_once_for_a_while() -> None:
    with stage() as ours:
        pod = ours.run("a", cpus=2, slots=8)
        for count in (3, 4, 5):
            ours.permit(pod, cores(count), cores(count - 1))
        assert len(ours.reviews.asked) == 1
        ours.world.let_pass(20.0)
        ours.permit(pod, cores(6), cores(5))
        assert len(ours.reviews.asked) == 2


@pytest.mark.rule("vm:B44", "vm:F1")
def test_while_nobody_can_say_who_asks_nobody_is_answered() -> None:
    with stage() as ours:
        pod = ours.run("a", cpus=2, slots=8)
        ours.reviews.broken = True
        answer = ours.send("POST", "/", asking(pod, cores(3), cores(2)))
        assert answer.status == 503
        assert ours.approved("a") is None


@pytest.mark.rule("vm:B44")
def test_what_pods_may_be_resized_and_shown_in_changes_is_the_api_servers_to_say() -> None:
    with stage() as ours:
        pod = ours.run("a", cpus=2, slots=8)
        changes = {"pods": [{"namespace": NAMESPACE, "name": pod, "cpu": "4"}]}
        assert ours.send("POST", "/resize", RESIZE, token=STRANGER).status == 403
        assert ours.send("POST", "/whatif", changes, token=STRANGER).status == 403
        asked = [each["resourceAttributes"] for each in ours.reviews.asked if "resourceAttributes" in each]
        assert [(each["namespace"], each["verb"], each["resource"], each.get("subresource", "")) for each in asked] == [
            ("other", "patch", "pods", "resize"),
            (NAMESPACE, "list", "pods", ""),
        ]
        assert ours.send("POST", "/resize", RESIZE, token=AGENT).status == 404
        assert ours.send("POST", "/whatif", changes, token=AGENT).status == 200


@pytest.mark.rule("vm:B44", "vm:C14")
def test_with_compat_a_pods_own_node_needs_no_token_and_no_other_one() -> None:
    with stage(COMPAT) as ours:
        pod = ours.run("a", cpus=2, slots=8)
        host = ours.world.runner_pod("a")["status"]["hostIP"]
        body = asking(pod, cores(3), cores(2))
        assert ours.send("POST", "/", body, token=None, peer="192.0.2.1").status == 401
        assert ours.send("POST", "/", body, token=None, peer=f"::ffff:{host}").status == 200
        assert ours.send("GET", f"/explain/pod/{NAMESPACE}/{pod}", token=None, peer=host).status == 200
        assert ours.send("POST", "/", body, peer="192.0.2.1").status == 200


@pytest.mark.rule("vm:B44")
def test_a_token_may_be_asked_for_with_compat_too() -> None:
    with stage(COMPAT, PermitSettings(callers="token")) as ours:
        pod = ours.run("a", cpus=2, slots=8)
        host = ours.world.runner_pod("a")["status"]["hostIP"]
        assert ours.send("POST", "/", asking(pod, cores(3), cores(2)), token=None, peer=host).status == 401


@pytest.mark.rule("vm:B44")
def test_who_does_not_lead_answers_nobody_and_writes_nothing() -> None:
    with stage(processes=2) as ours:
        pod = ours.run("a", cpus=2, slots=8)
        leader = next(number for number, each in enumerate(ours.world.members) if each.leads)
        body = asking(pod, cores(3), cores(2))
        for method, path in (("POST", "/"), ("GET", "/explain/node/n1"), ("POST", "/whatif"), ("POST", "/resize")):
            answer = ours.send(method, path, body, server=1 - leader)
            assert (answer.status, b"notLeader" in answer.body) == (503, True), path
        assert ours.approved("a") is None
        assert json.loads(ours.send("POST", "/", body, server=leader).body)["reason"] == "granted"


def ask(ours: Stage, pod: str, token: str) -> tuple[int, str]:
    """Status and text of a request for 8 CPUs."""
    answer = ours.send("POST", "/", asking(pod, cores(8), cores(2)), token=token)
    return answer.status, answer.body.decode()


@pytest.mark.finding("N27")
@pytest.mark.rule("vm:B44")
def test_by_default_a_machine_is_raised_by_the_agent_of_its_node_alone() -> None:
    with stage(n1="8", n2="8") as ours, capture_logs() as logged:
        pod = ours.run("a", cpus=2, slots=8)
        node = ours.world.runner_pod("a")["spec"]["nodeName"]
        other = "n2" if node == "n1" else "n1"
        claims = ours.reviews.claims
        before = ours.state.nodes[node]

        claims[STRANGER] = {"pod-name": "web", "pod-uid": "u", "node-name": node}
        status, why = ask(ours, pod, STRANGER)
        assert status == 403, "a tenant's Pod on the same node"
        assert why == (
            "service account other/default may not ask for permits; vm.permits.agentAccounts allows: "
            "situate/situate-vm-agent"
        )

        claims[AGENT] = {"pod-name": "agent-x", "pod-uid": "u", "node-name": other}
        status, why = ask(ours, pod, AGENT)
        assert status == 403, "the agent of another node"
        assert f"is bound to node {other}, but pod {NAMESPACE}/{pod} runs on node {node}" in why

        ours.world.let_pass(20.0)
        claims[AGENT] = {}
        status, why = ask(ours, pod, AGENT)
        assert (status, "is not bound to a Pod" in why) == (403, True)
        assert ours.state.nodes[node] == before
        assert ours.approved("a") is None

        ours.world.let_pass(20.0)
        claims[AGENT] = {"pod-name": "agent-y", "pod-uid": "u", "node-name": node}
        assert ask(ours, pod, AGENT)[0] == 200

        agents = "the token of service account situate/situate-vm-agent is"
        assert [re.split("[;.] ", each["why"])[0] for each in logged if each["event"] == REFUSED] == [
            "service account other/default may not ask for permits",
            f"{agents} bound to node {other}, but pod {NAMESPACE}/{pod} runs on node {node}",
            f"{agents} not bound to a Pod, so its node is unknown",
        ]


@pytest.mark.finding("N27")
def test_a_refusal_is_logged_once_in_ten_minutes() -> None:
    with stage() as ours, capture_logs() as logged:
        pod = ours.run("a", cpus=2, slots=8)
        for _ in range(5):
            ask(ours, pod, STRANGER)
        assert len([each for each in logged if each["event"] == REFUSED]) == 1
        ours.world.let_pass(601.0)
        ask(ours, pod, STRANGER)
        assert len([each for each in logged if each["event"] == REFUSED]) == 2


@pytest.mark.finding("N27")
def test_an_agent_of_all_nodes_and_other_accounts_are_for_the_configuration_to_allow() -> None:
    settings = PermitSettings(agent_accounts=("other/default",), agent_node="any")
    with stage(settings=settings) as ours:
        pod = ours.run("a", cpus=2, slots=8)
        ours.reviews.claims.clear()
        assert ask(ours, pod, AGENT)[0] == 403
        assert ask(ours, pod, STRANGER)[0] == 200
