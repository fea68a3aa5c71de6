"""The whole product in one process: an embedded API server with its controllers calls our webhook over TLS."""

from __future__ import annotations

from typing import Any

import pytest

from situate.objects.settings.section import parse_section
from situate.spot.config.settings import SpotSettings
from situate.spot.model.object_names import LEADER_LABEL, LEASE_REQUEST_ANNOTATION
from situate.spot.model.pods_nodes_workloads import CLASS, ON_DEMAND
from tests.spot.controller.playground import DEPLOYMENTS, OURS, PATIENT, SETS, Playground, workload


@pytest.mark.rule("spot:P1", "spot:P6", "spot:B1", "spot:P17", "spot:P27")
async def test_a_burst_gets_exactly_the_floor(playground: Playground, port: int) -> None:
    async with playground.controller("first", port) as ours:
        await playground.lead_to(port)
        await playground.answers(ours)
        await playground.call("POST", DEPLOYMENTS, workload("web", 20, "7"))
        assert await playground.classes_of("web", 20) == {"on-demand": 7, "spot": 13}
        assert ours.not_ready() is None

        await playground.call("POST", SETS, workload("base", 3, kind="StatefulSet"))
        await playground.classes_of("base", 3)
        classes = {
            each["metadata"]["name"]: each["metadata"]["labels"][CLASS] for each in await playground.pods("base")
        }
        assert classes == {"base-0": "on-demand", "base-1": "on-demand", "base-2": "spot"}

        written = await playground.call("GET", f"{DEPLOYMENTS}/web")
        assert CLASS not in written["spec"]["template"]["metadata"]["labels"]


@pytest.mark.rule("spot:P2", "spot:I15")
async def test_without_a_leader_pods_start_as_they_are(playground: Playground, port: int) -> None:
    async with playground.controller("first", port) as ours:
        await playground.lead_to(port)
        await playground.answers(ours)
    await playground.call("POST", DEPLOYMENTS, workload("web", 3, "2"))
    assert await playground.classes_of("web", 3) == {"": 3}


@pytest.mark.rule("spot:P1", "spot:I11")
async def test_the_next_leader_counts_what_is_there_and_answers_alone(playground: Playground, port: int) -> None:
    async with playground.controller("first", port) as first:
        await playground.lead_to(port)
        await playground.answers(first)
        await playground.call("POST", DEPLOYMENTS, workload("web", 4, "3"))
        await playground.classes_of("web", 4)
        async with playground.controller("second", port) as second:
            await playground.eventually("the second has seen everything", lambda: second.not_ready() is None)
            assert not second.listener.listening
            first.stop()
            await playground.eventually("the second answers", lambda: second.listener.listening)
            assert not first.listener.listening
            scale = {"spec": {"replicas": 9}}
            await playground.call("PATCH", f"{DEPLOYMENTS}/web", scale, kind="application/merge-patch+json")
            assert await playground.classes_of("web", 9) == {"on-demand": 3, "spot": 6}


@pytest.mark.rule("spot:P11")
async def test_a_policy_that_cannot_be_read_is_told_and_the_last_one_holds(playground: Playground, port: int) -> None:
    async with playground.controller("first", port) as ours:
        await playground.lead_to(port)
        await playground.answers(ours)
        await playground.call("POST", DEPLOYMENTS, workload("web", 1, "2"))
        await playground.classes_of("web", 1)
        bad = {"metadata": {"annotations": {ON_DEMAND: "-4"}}, "spec": {"replicas": 5}}
        await playground.call("PATCH", f"{DEPLOYMENTS}/web", bad, kind="application/merge-patch+json")
        assert await playground.classes_of("web", 5) == {"on-demand": 2, "spot": 3}
        await playground.eventually("it is told", lambda: ("web", "InvalidPolicy") in playground.events)


@pytest.mark.rule("spot:P6", "spot:B37")
async def test_a_secret_that_somebody_broke_is_mended(playground: Playground, port: int) -> None:
    secret = f"/api/v1/namespaces/{OURS}/secrets/situate-spot-certificates"
    async with playground.controller("first", port) as ours:
        await playground.lead_to(port)
        await playground.answers(ours)
        before = (await playground.call("GET", secret))["data"]["tls.crt"]
        broken = {"data": {"tls.key": "AAAA", "unrelated": "AAAA"}}
        await playground.call("PATCH", secret, broken, kind="application/merge-patch+json")

        async def mended() -> Any:
            data = (await playground.call("GET", secret))["data"]
            return data if data["tls.crt"] != before else None

        assert (await playground.eventually("the Secret is whole again", mended))["unrelated"] == "AAAA"
        await playground.call("DELETE", secret)

        async def again() -> bool:
            async with playground.http.get(secret) as response:
                return response.status == 200

        await playground.eventually("the Secret is there again", again)
        await playground.call("POST", DEPLOYMENTS, workload("web", 3, "1"))
        await playground.classes_of("web", 3)


@pytest.mark.rule("spot:P1")
async def test_a_pod_of_a_newer_revision_asks_for_the_lease_and_gets_it(playground: Playground, port: int) -> None:
    own = f"/apis/apps/v1/namespaces/{OURS}/deployments"
    await playground.call("POST", own, workload("situate-spot", 1))

    async def ready_pods() -> list[str]:
        found = await playground.pods("situate-spot", OURS)
        alive = [each for each in found if "deletionTimestamp" not in each["metadata"]]
        ready = [each for each in alive if any(c["type"] == "Ready" for c in each["status"].get("conditions", ()))]
        return [each["metadata"]["name"] for each in ready]

    async def marked() -> list[str]:
        found = await playground.pods("situate-spot", OURS)
        return [each["metadata"]["name"] for each in found if each["metadata"]["labels"].get(LEADER_LABEL) == "true"]

    (old,) = await playground.eventually("the old pod is ready", ready_pods)
    async with playground.controller(f"{old}_x", port, PATIENT) as first:
        await playground.lead_to(port)
        await playground.answers(first)

        async def old_is_marked() -> bool:
            return await marked() == [old]

        await playground.eventually("questions are led to the old pod", old_is_marked)
        # the old pod stays: as in a rollout that has begun
        image = {"containers": [{"name": "c", "image": "example.com/c:2"}]}
        strategy = {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
        change = {"spec": {"strategy": strategy, "minReadySeconds": 500, "template": {"spec": image}}}
        await playground.call("PATCH", f"{own}/situate-spot", change, kind="application/strategic-merge-patch+json")

        async def both() -> list[str]:
            found = await ready_pods()
            return found if len(found) == 2 else []

        (new,) = set(await playground.eventually("the new pod is ready", both)) - {old}
        async with playground.controller(f"{new}_x", port, PATIENT) as second:
            await playground.eventually("the new one answers", lambda: second.listener.listening)
            assert not first.listener.listening
            assert not first.leader.is_leading()

            async def new_is_marked() -> bool:
                return await marked() == [new]

            await playground.eventually("questions are led to the new pod", new_is_marked)
            await playground.call("POST", DEPLOYMENTS, workload("web", 4, "2"))
            assert await playground.classes_of("web", 4) == {"on-demand": 2, "spot": 2}
            assert first.not_ready() is None, "it stands by until it is stopped"
            assert second.leader.is_leading()


@pytest.mark.rule("spot:P1")
async def test_a_pod_of_the_same_revision_leaves_the_lease_where_it_is(playground: Playground, port: int) -> None:
    own = f"/apis/apps/v1/namespaces/{OURS}/deployments"
    await playground.call("POST", own, workload("situate-spot", 2))

    async def ready_pods() -> list[str]:
        found = await playground.pods("situate-spot", OURS)
        names = [each["metadata"]["name"] for each in found if each["status"].get("conditions")]
        return names if len(names) == 2 else []

    one, other = await playground.eventually("both pods are ready", ready_pods)
    async with playground.controller(f"{one}_x", port, PATIENT) as first:
        await playground.lead_to(port)
        await playground.answers(first)
        async with playground.controller(f"{other}_x", port, PATIENT) as second:
            await playground.eventually("the second has seen everything", lambda: second.not_ready() is None)
            await second._lease_handover.request_lease()
            assert first.leader.is_leading()
            assert not second.listener.listening
            lease = await playground.call("GET", f"/apis/coordination.k8s.io/v1/namespaces/{OURS}/leases/situate-spot")
            assert LEASE_REQUEST_ANNOTATION not in lease["metadata"].get("annotations", {})


@pytest.mark.rule("spot:P35", "spot:B46")
async def test_new_settings_hold_from_the_next_pod_on(playground: Playground, port: int) -> None:
    async with playground.controller("first", port) as ours:
        await playground.lead_to(port)
        await playground.answers(ours)
        await playground.call("POST", DEPLOYMENTS, workload("web", 2))
        assert await playground.classes_of("web", 2) == {"spot": 2}
        address = {"address": f"127.0.0.1:{port}"}
        changed, mistakes = parse_section({"webhook": address, "policies": [{"policy": "3"}]}, SpotSettings, "spot")
        assert changed is not None, mistakes
        ours.reconfigure(changed)
        scale = {"spec": {"replicas": 6}}
        await playground.call("PATCH", f"{DEPLOYMENTS}/web", scale, kind="application/merge-patch+json")
        assert await playground.classes_of("web", 6) == {"spot": 3, "on-demand": 3}
