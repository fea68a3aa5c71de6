"""The policy that fences the objects of sharding, in force: who is refused, and who is not.

It is one test, because of the parameter's kind: once its last policy is gone, 1.36.3 finds no parameters of a built-in
kind any more until it is restarted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

from situate.objects.resources import unstructured
from situate.sharding.fencing.admission_policy import POD_UID, LeaderLease, fencing_policies
from situate.sharding.fencing.admit import Fence, Refusal, Role, Writer
from situate.sharding.model.field_paths import FieldPaths
from situate.sharding.model.names import EPOCH, EXECUTOR
from situate.sharding.model.object_view import Holder
from situate.testing.sharding.world.reports import CRDS, assignment_patch, definition, report, revocation_patch
from tests.contract.api import Answer, Api
from tests.contract.servers import Server
from tests.contract.waiting import eventually
from tests.sharding.fencing.fenced_writes import ACCOUNTS, given_up, user_info

GROUP = "/apis/admissionregistration.k8s.io/v1"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOLDER_A, HOLDER_B = Holder("a", "uid-a"), Holder("b", "uid-b")


class Acting:
    """Requests about one report, made as somebody."""

    def __init__(self, api: Api, path: str) -> None:
        self._api = api
        self._path = path

    async def get(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self._api.get(self._path)).ok(200)
        return found

    async def patch(self, operations: Any, *, dry: bool = False) -> Answer:
        return await self._api.patch(self._path, [*operations], form="json", **({"dryRun": "All"} if dry else {}))

    async def write_status(self, **status: Any) -> Answer:
        return await self._api.patch(f"{self._path}/status", {"status": status})

    async def edit(self, **body: Any) -> Answer:
        return await self._api.patch(self._path, body)


@pytest.fixture
async def people(server: Server) -> AsyncIterator[dict[str, Api]]:
    """By impersonation: a supervisor, two executors with the UIDs of their pods, and a user."""
    roles = {
        "supervisor": Writer(Role.SUPERVISOR),
        "a": Writer(Role.EXECUTOR, "uid-a"),
        "b": Writer(Role.EXECUTOR, "uid-b"),
        "user": Writer(Role.OTHER),
    }
    async with AsyncExitStack() as stack:
        made = {}
        for name, writer in roles.items():
            info = user_info(writer)
            api = await stack.enter_async_context(Api(server.url, server.token, server.tls()))
            api._headers |= {"Impersonate-User": info["username"], "Impersonate-Group": "system:masters"}
            if writer.pod_uid:
                api._headers[f"Impersonate-Extra-{quote(POD_UID, safe='')}"] = writer.pod_uid
            made[name] = api
        yield made


def refused(answer: Answer, refusal: Refusal) -> None:
    assert answer.status == 403, answer
    assert str(refusal) in answer.body["message"], answer.body


@pytest.mark.finding("N21")
@pytest.mark.rule("sharding:S2", "sharding:S3", "sharding:S6", "sharding:S10")
async def test_fencing_by_the_server(api: Api, namespace: str, people: dict[str, Api]) -> None:
    group, name = f"{namespace}.example.com", f"fencing-{namespace}"
    (await api.post(CRDS, definition(group=group))).ok(201)
    reports = unstructured(group, "v1", "Report", "reports")
    listing = reports.path(namespace)
    await eventually(lambda: api.get(listing), lambda answer: answer.status == 200)
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    (await api.post(leases, {"metadata": {"name": "leader"}, "spec": {"leaseTransitions": 3}})).ok(201)
    whole = report("r") | {"apiVersion": f"{group}/v1"}
    (await api.post(listing, whole)).ok(201)
    policies = [*fencing_policies(name, reports, ACCOUNTS, Fence(FieldPaths()), LeaderLease(namespace, "leader"))]
    kinds = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}
    paths = [f"{GROUP}/{kinds.get(each['kind'], 'validatingadmissionpolicybindings')}" for each in policies]
    try:
        for path, policy in zip(paths, policies, strict=True):
            (await api.post(path, policy)).ok(201)
        supervisor, a, b, user = (Acting(people[each], reports.path(namespace, "r")) for each in people)
        await _in_force(supervisor, user)
        await _switched(api, f"{paths[3]}/{name}-term", supervisor, user)
        await _fenced(supervisor, a, b, user)
        created = await people["user"].post(
            listing, {**await user.get(), "metadata": {"name": "s", "labels": {EXECUTOR: "a"}}}
        )
        refused(created, Refusal.NOT_SUPERVISOR)
        (await people["user"].post(listing, {**whole, "metadata": {"name": "s"}})).ok(201)
        await _without_a_lease(api, f"{leases}/leader", people, reports.path(namespace, "s"))
    finally:
        for path, policy in reversed([*zip(paths, policies, strict=True)]):
            await api.delete(f"{path}/{policy['metadata']['name']}")
        await api.delete(f"{CRDS}/reports.{group}")


async def _in_force(supervisor: Acting, user: Acting) -> None:
    """The real server reads policies and parameters through watches."""
    content = await user.get()
    await eventually(
        lambda: user.patch(assignment_patch(content, HOLDER_A, NOW, 3), dry=True), lambda answer: answer.status == 403
    )
    stale = await eventually(
        lambda: supervisor.patch(assignment_patch(content, HOLDER_A, NOW, 2), dry=True),
        lambda answer: answer.status == 403 and answer.body["message"].endswith(str(Refusal.STALE_LEADER)),
    )
    refused(stale, Refusal.STALE_LEADER)
    await eventually(
        lambda: supervisor.patch(assignment_patch(content, HOLDER_A, NOW, 3), dry=True),
        lambda answer: answer.status == 200,
    )


async def _switched(api: Api, path: str, supervisor: Acting, user: Acting) -> None:
    """To the output for partitions, which checks no leader's term, and back."""
    *_, other = fencing_policies("other", unstructured("g", "v1", "Report", "reports"), ACCOUNTS, Fence())
    content = await user.get()
    stale = assignment_patch(content, HOLDER_A, NOW, 2)
    present = (await api.get(path)).ok(200)
    changed = {**present, "spec": {**present["spec"], "paramRef": other["spec"]["paramRef"]}}
    stored = (await api.put(path, changed)).ok(200)
    await eventually(lambda: supervisor.patch(stale, dry=True), lambda answer: answer.status == 200)
    refused(await user.edit(spec={"assignedTo": "b"}), Refusal.NOT_SUPERVISOR)
    (await api.put(path, {**stored, "spec": present["spec"]})).ok(200)
    answer = await eventually(lambda: supervisor.patch(stale, dry=True), lambda answer: answer.status == 403)
    refused(answer, Refusal.STALE_LEADER)


async def _without_a_lease(api: Api, lease: str, people: dict[str, Api], path: str) -> None:
    """Nobody is locked out, and what needs no Lease holds on."""
    supervisor, user = Acting(people["supervisor"], path), Acting(people["user"], path)
    content = await user.get()
    stale = assignment_patch(content, HOLDER_A, NOW, 2)
    assert (await supervisor.patch(stale, dry=True)).status == 403
    (await api.delete(lease)).ok(200)
    await eventually(lambda: supervisor.patch(stale, dry=True), lambda answer: answer.status == 200)
    (await user.edit(spec={"work": 4})).ok(200)
    refused(await user.edit(spec={"assignedTo": "b"}), Refusal.NOT_SUPERVISOR)


async def _fenced(supervisor: Acting, a: Acting, b: Acting, user: Acting) -> None:
    (await supervisor.patch(assignment_patch(await user.get(), HOLDER_A, NOW, 3))).ok(200)
    (await a.write_status(progress=1)).ok(200)
    refused(await b.write_status(progress=2), Refusal.NOT_HOLDER)
    (await user.edit(spec={"work": 2})).ok(200)
    (await user.edit(metadata={"labels": {"example.com/x": "y"}, "annotations": {"example.com/x": "y"}})).ok(200)
    refused(await user.edit(spec={"assignedTo": "b"}), Refusal.NOT_SUPERVISOR)
    refused(await user.edit(metadata={"annotations": {EPOCH: "0"}}), Refusal.NOT_SUPERVISOR)
    refused(await a.edit(metadata={"annotations": {EPOCH: "2"}}), Refusal.NOT_RELEASED)
    (await supervisor.patch(revocation_patch(await user.get(), 3))).ok(200)
    refused(await a.write_status(progress=3), Refusal.NOT_HOLDER)
    (await supervisor.patch(assignment_patch(await user.get(), HOLDER_B, NOW, 3))).ok(200)
    refused(await a.write_status(progress=4), Refusal.NOT_HOLDER)
    held = await b.get()
    (
        await b.patch(
            [{"op": "replace", "path": f"/{key}", "value": given_up(held)[key]} for key in ("metadata", "spec")]
        )
    ).ok(200)
    refused(await b.write_status(progress=5), Refusal.NOT_HOLDER)
    (await supervisor.patch(assignment_patch(await user.get(), HOLDER_A, NOW, 4))).ok(200)
    (await a.write_status(completedAt="2026-01-01T00:00:00Z", successful=True)).ok(200)
    refused(await a.write_status(progress=6), Refusal.FINAL)
    refused(await user.write_status(progress=6), Refusal.FINAL)
    (await supervisor.write_status(conditions=[{"type": "ArchiveFailed"}])).ok(200)
    refused(await supervisor.patch(assignment_patch(await user.get(), HOLDER_B, NOW, 4)), Refusal.AGAIN)
    (await user.edit(spec={"work": 3})).ok(200)
