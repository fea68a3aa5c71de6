"""Without its webhook's configuration spot says so: the process in its log and a metric, `situate check` in a line."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.login.connection import Connection
from situate.spot.admission.policy_admission import on_demand_policy
from situate.spot.controller.webhook_check import CheckOutcome, check_on_demand_policy, check_webhook
from situate.spot.model.object_names import configuration_name
from situate.spot.workloads.owners import DEFAULT_KINDS, KINDS
from tests.spot.controller.playground import GROUP, OURS, Playground

CONFIGURATION = f"{GROUP}/{configuration_name(OURS)}"
ADMISSION = GROUP.rpartition("/")[0]


def warnings(logs: Sequence[Any]) -> int:
    return sum(str(each["event"]).startswith("webhook not installed") for each in logs)


@pytest.mark.finding("N23")
@pytest.mark.rule("spot:P2", "spot:F4")
async def test_a_process_warns_while_its_webhook_is_not_installed(playground: Playground, port: int) -> None:
    def installed() -> float | None:
        return playground.registries["first"].get_sample_value("situate_spot_webhook_installed")

    with capture_logs() as logs:
        async with playground.controller("first", port):
            await playground.eventually("it warns", lambda: warnings(logs) == 1)
            assert installed() == 0
            await playground.lead_to(port)
            await playground.eventually("it is installed", lambda: installed() == 1)
            assert [each["log_level"] for each in logs if each["event"] == "webhook installed"] == ["info"]
            await playground.call("DELETE", CONFIGURATION)
            await playground.eventually("it warns again", lambda: warnings(logs) == 2)
            assert installed() == 0


@pytest.fixture
async def client(playground: Playground) -> AsyncIterator[Client]:
    made = connect(Connection(server=playground.server.url, source="the test", namespace=OURS), random.Random(1))
    yield made
    await made.close()


@pytest.mark.finding("N23", "N33")
@pytest.mark.rule("spot:P2", "spot:P6")
async def test_check_proves_that_the_webhook_answers(playground: Playground, port: int, client: Client) -> None:
    missing = await check_webhook(client, OURS)
    assert missing.outcome is CheckOutcome.FAILS
    assert missing.message.startswith("no MutatingWebhookConfiguration contains the webhook of spot")
    await playground.lead_to(port)
    untrusted = await check_webhook(client, OURS)
    assert (untrusted.outcome, "has no caBundle" in untrusted.message) == (CheckOutcome.FAILS, True)
    async with playground.controller("first", port) as ours:
        await playground.answers(ours)
        assert (await check_webhook(client, OURS)).outcome is CheckOutcome.WORKS
        assert (await check_webhook(client, "elsewhere")).outcome is CheckOutcome.WORKS, "it is found by its webhook"
        assert (await playground.call("GET", "/api/v1/namespaces/default/pods"))["items"] == []
    silent = await check_webhook(client, OURS)
    assert (silent.outcome, "API servers get no answer" in silent.message) == (CheckOutcome.FAILS, True)


@pytest.mark.finding("N19", "N33")
async def test_check_proves_that_an_unreadable_value_is_refused(playground: Playground, client: Client) -> None:
    assert (await check_on_demand_policy(client)).outcome is CheckOutcome.FAILS
    plurals = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    objects = on_demand_policy(OURS, {}, [KINDS[kind] for kind in DEFAULT_KINDS])
    for plural, content in zip(plurals, objects, strict=True):
        await playground.call("POST", f"{ADMISSION}/{plural}", content)
    assert (await check_on_demand_policy(client)).outcome is CheckOutcome.WORKS
