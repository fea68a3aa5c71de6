"""What the process does at all: a filter over nodes, a binding, or a write of a few kinds."""

from __future__ import annotations

import re

import pytest

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.testing.builders.objects import pod as pod_object
from situate.testing.vm.world.processes import MIGRATIONS, PODS
from situate.vm.api.quantities import GIB
from situate.vm.api.well_known import TARGET_NODE
from situate.vm.model.resource_amounts import Amounts
from situate.vm.placement.plugin import HELD_REASON
from tests.vm.controller.test_controller import UNAVAILABLE, crowd, stage

KIND = re.compile(r"/(?:api/v1|apis/[^/]+/[^/]+)/(?:namespaces/[^/]+/)?([^/]+)(?:/[^/]+(/[^/]+)?)?")

WRITES = {
    ("POST", "pods/binding"),
    ("PATCH", "pods/status"),
    ("PATCH", "pods/resize"),
    ("DELETE", "pods"),
    ("PATCH", "virtualmachines"),
    ("POST", "virtualmachinemigrations"),
    ("PATCH", "virtualmachinemigrations"),
    ("DELETE", "virtualmachinemigrations"),
}
"""Of a whole move; the pod that is deleted is the one that was left, and the target's is made by others."""


@pytest.mark.rule("vm:N3")
def test_whatever_is_decided_is_a_filter_over_nodes_or_a_binding_or_a_write() -> None:
    """A third pod that would fit into what is reserved meets the filter; everything else is a request."""
    with stage() as ours:
        crowd(ours)
        done: set[tuple[str, str]] = set()

        def note(request: Request, _: Response | Watch, identity: Identity) -> None:
            by_us = identity.user in {each.identity for each in ours.world.members}
            if by_us and request.method != "GET" and "/leases" not in request.path:
                found = KIND.fullmatch(request.path)
                assert found, request.path
                done.add((request.method, found[1] + (found[2] or "")))

        ours.world.request_listeners.append(note)
        ours.requests.clear()
        refused = ours.meddle("POST", "/binding", lambda _: UNAVAILABLE, times=1)  # its pod waits a second then
        ours.world.write_request("a", Amounts.from_values(6000, 24 * GIB))
        ours.wait(lambda: refused.left == 0)
        ours.world.call("POST", PODS, pod_object("web", cpu="5", scheduler="situate-vm"))
        ours.wait(lambda: HELD_REASON in str(ours.world.call("GET", f"{PODS}/web")["status"]))
        ours.wait(lambda: ours.approved("a") == {"vCPUs": 6, "mem": "24Gi"}, within_s=60.0)
        ours.wait(lambda: not ours.world.list_items(MIGRATIONS))

        (made,) = ours.writes("POST", MIGRATIONS)
        bound = [body["target"]["name"] for _, path, body in ours.requests if path.endswith("/binding")]
        assert bound == [made["metadata"]["annotations"][TARGET_NODE]], "of the target alone, where it was led"
        assert done == WRITES
