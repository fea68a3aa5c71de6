from __future__ import annotations

import pytest

from situate.spot.permissions import permissions


@pytest.mark.rule("spot:B36", "spot:I6")
def test_no_workload_and_no_node_may_be_written() -> None:
    reads = {"get", "list", "watch"}
    written = {(each.group, each.resource) for each in permissions("situate", "situate") if set(each.verbs) - reads}
    assert not {group for group, _ in written} & {"apps", "batch"}
    assert ("", "nodes") not in written


@pytest.mark.rule("spot:B36")
def test_pods_are_what_is_written_and_secrets_are_read_in_the_own_namespace_only() -> None:
    reads = {"get", "list", "watch"}
    everywhere = {
        each.resource
        for each in permissions("situate", "situate")
        if set(each.verbs) - reads and each.namespace is None
    }
    assert everywhere == {"pods", "pods/eviction", "pods/status", "events", "mutatingwebhookconfigurations"}
    for each in permissions("situate", "situate"):
        if each.resource == "secrets":
            assert each.namespace == "situate"
