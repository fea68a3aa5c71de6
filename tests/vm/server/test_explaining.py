"""/explain, /whatif and /resize over the port."""

from __future__ import annotations

import asyncio
import json

import pytest
from prometheus_client import generate_latest

from situate.objects.messages import Request
from situate.testing.builders.objects import pod as pod_object
from situate.testing.vm.world.processes import NAMESPACE, PODS
from situate.vm.api.well_known import RESIZE_REQUESTED
from situate.vm.config.settings import PermitSettings
from situate.vm.model.policy import Rules
from tests.vm.server.scene import AGENT, asking, cores, stage


@pytest.mark.rule("vm:B39", "vm:B41")
def test_why_a_machine_is_short_is_told_and_nothing_is_written() -> None:
    with stage() as ours:
        pod = ours.run("a", cpus=2, slots=8)
        ours.permit(pod, cores(10), cores(2))
        writes, state = len(ours.writes), ours.state
        for name in (pod, "a"):
            told = json.loads(ours.send("GET", f"/explain/pod/{NAMESPACE}/{name}").body)
            assert (told["pod"], told["node"]) == (f"{NAMESPACE}/{pod}", "n1")
            assert told["shortBy"] == {"cpu": "2", "memory": "8Gi"}
            assert told["reason"] == "noRoom"
            assert told["queue"] == {"position": 1, "aheadOf": []}
            assert told["wouldHelp"]
        node = json.loads(ours.send("GET", "/explain/node/n1").body)
        assert node["queue"] == [{"pod": f"{NAMESPACE}/{pod}", "shortBy": {"cpu": "2", "memory": "8Gi"}}]
        for path in ("/explain/pod/other/x", "/explain/node/n9", "/explain", "/explain/pods"):
            assert ours.send("GET", path).status == 404
        assert ours.send("POST", f"/explain/pod/{NAMESPACE}/{pod}").status == 405
        assert len(ours.writes) == writes
        assert ours.state == state


@pytest.mark.rule("vm:B41", "vm:C10")
def test_what_would_come_of_changes_is_told_and_does_not_come() -> None:
    with stage() as ours:
        pod = ours.run("a", cpus=2, slots=8)
        ours.permit(pod, cores(10), cores(2))
        writes, state = len(ours.writes), ours.state
        told = json.loads(ours.send("POST", "/whatif", {"nodes": [{"name": "n1", "cpu": "16", "memory": "64Gi"}]}).body)
        assert {"action": "grant", "pod": f"{NAMESPACE}/{pod}", "amount": {"cpu": "10", "memory": "40Gi"}} in told[
            "actions"
        ]
        assert told["nodes"][0]["reserved"] == {"cpu": "10", "memory": "40Gi"}
        assert ours.state == state
        assert len(ours.writes) == writes
        for body, words in ((b"[", "JSON"), ({"nodes": [{"cpu": "1"}]}, "name"), ({"pods": [{"name": "x"}]}, "x")):
            answer = ours.send("POST", "/whatif", body)
            assert (answer.status, words in answer.body.decode()) == (400, True)
        assert ours.send("GET", "/whatif").status == 405


@pytest.mark.rule("vm:B41", "vm:F16")
def test_whoever_asks_what_if_of_much_keeps_nobody_waiting() -> None:
    with stage() as ours:
        ours.run("a", cpus=2, slots=8)
        changes = {"pods": [{"namespace": NAMESPACE, "name": "a", "cpu": str(2 + number % 2)} for number in range(40)]}
        turns = 0

        class Reading:
            """One explanation at a time; others have their turns meanwhile."""

            async def __aenter__(self) -> None:
                self.others = asyncio.create_task(self._count())

            async def __aexit__(self, *_: object) -> None:
                self.others.cancel()

            async def _count(self) -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

        ours.servers[0].router._reading = Reading()  # type: ignore[assignment]
        told = ours.send("POST", "/whatif", changes)
        assert len(json.loads(told.body)["pods"]) == 40
        assert turns >= 80, "one between any two of forty decisions and forty explanations"


@pytest.mark.rule("vm:C39", "vm:F16")
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/"), ("POST", "/resize"), ("POST", "/whatif"), ("GET", "/explain/node/n1")]
)
def test_where_the_api_server_does_not_say_who_asks_he_hears_that_in_time(method: str, path: str) -> None:
    with stage() as ours:
        ours.reviews.silent = True
        body = asking("nobody", cores(3), cores(2)) if path == "/" else {}
        coming = ours.begin(Request(method, path, (), {"authorization": f"Bearer {AGENT}"}, _json(body)))
        ours.wait(coming.done, 1.5)
        assert coming.result().status == 503
        assert b"your identity and permissions" in coming.result().body


@pytest.mark.rule("vm:F16")
def test_a_wish_that_waits_for_its_turn_is_answered_in_time_too() -> None:
    with stage() as ours:
        ours.world.call("POST", PODS, pod_object("web", cpu="1", scheduler="situate-vm"))
        ours.wait(lambda: bool(ours.world.call("GET", f"{PODS}/web")["spec"].get("nodeName")))
        ours.world.let_pass(1.0)
        ours.servers[0].router._context.lane = asyncio.Semaphore(0)
        wish = {"pod": {"namespace": NAMESPACE, "name": "web"}, "cpu": "2"}
        coming = ours.begin(Request("POST", "/resize", (), {"authorization": f"Bearer {AGENT}"}, _json(wish)))
        ours.wait(coming.done, 1.5)
        assert coming.result().status == 500
        assert b"within 1 s" in coming.result().body


def _json(body: object) -> bytes:
    return json.dumps(body).encode()


@pytest.mark.rule("vm:B34")
def test_a_plain_pod_is_given_room_and_resized() -> None:
    with stage() as ours:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        body = {"metadata": {"name": "web"}, "spec": {"schedulerName": "situate-vm", "containers": [container]}}
        ours.world.call("POST", PODS, body)
        ours.wait(lambda: ours.world.call("GET", f"{PODS}/web").get("status", {}).get("phase") == "Running")
        ours.world.let_pass(1.0)
        wish = {"pod": {"namespace": NAMESPACE, "name": "web"}, "cpu": "2"}
        answer = ours.send("POST", "/resize", wish)
        assert answer.status == 200, answer.body
        assert json.loads(answer.body)["permit"] == {"vCPUs": 2, "mem": "1Gi"}
        found = ours.world.call("GET", f"{PODS}/web")
        assert found["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"
        assert json.loads(found["metadata"]["annotations"][RESIZE_REQUESTED]) == {"cpu": 2}
        above = ours.send("POST", "/resize", wish | {"cpu": "80"})
        assert (above.status, b"at most 8" in above.body) == (400, True)
        named = ours.send("POST", "/resize", wish | {"container": "x"})
        assert (named.status, b"one of c" in named.body) == (400, True)
        runner = ours.run("a", cpus=2, slots=8)
        assert ours.send("POST", "/resize", wish | {"pod": {"namespace": NAMESPACE, "name": runner}}).status == 400


@pytest.mark.rule("vm:C32", "vm:B28")
def test_requests_are_counted_by_status_node_and_reason() -> None:
    with stage(Rules(compat=True), PermitSettings(callers="any")) as ours:
        pod = ours.run("a", cpus=2, slots=8)
        ours.permit(pod, cores(3), cores(2))
        ours.send("POST", "/", asking("nobody", cores(3), cores(2)))
        text = generate_latest(ours.registry).decode()
        for prefix in ("situate_vm_", "autoscaling_plugin_"):
            assert f'{prefix}resource_requests_total{{code="200"}} 1.0' in text
            assert f'{prefix}resource_requests_results_total{{code="200",node="n1"}} 1.0' in text
            assert f'{prefix}resource_requests_total{{code="404"}} 1.0' in text
