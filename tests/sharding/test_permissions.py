"""What accounts may do; that it suffices is shown where the printed manifests are applied."""

from __future__ import annotations

import pytest

from situate.sharding.permissions import supervisor_permissions


@pytest.mark.rule("sharding:K10")
def test_a_supervisor_reads_the_table_of_partitions_and_no_other_and_writes_none() -> None:
    given = supervisor_permissions("g", "reports", ("situate", "lease"), table="slots")
    (table,) = (each for each in given if each.resource == "configmaps")
    assert (table.verbs, table.namespace, table.name) == (("get", "list", "watch"), "situate", "slots")


@pytest.mark.rule("sharding:K15")
@pytest.mark.parametrize("table", ["", "slots"])
def test_a_supervisor_may_tell_of_its_objects_and_of_the_table_wherever_either_is(table: str) -> None:
    given = supervisor_permissions("g", "reports", ("situate", "lease"), table=table, namespace="team")
    told_in = {each.namespace for each in given if each.resource == "events" and each.verbs == ("create", "patch")}
    assert told_in == ({"team", "situate"} if table else {"team"})
