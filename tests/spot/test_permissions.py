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
def test_pods_are_written_and_secrets_read_in_the_own_namespace_only() -> None:
    for each in permissions("situate", "situate"):
        if each.resource == "secrets" or (each.resource == "pods" and "patch" in each.verbs):
            assert each.namespace == "situate"
