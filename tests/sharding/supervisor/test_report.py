"""What leaders say of themselves, and whom one may believe."""

from __future__ import annotations

import pytest

from situate.objects.kinds.leases import Lease, LeaseSpec
from situate.objects.kinds.meta import ObjectMeta
from situate.sharding.model.names import STATUS
from situate.sharding.supervisor.report import (
    SupervisorReport,
    confirmed_versions,
    report_text,
    supervisor_report,
)

SAID = SupervisorReport(term=3, open=5, unassigned=2, queue_age_s=0.5, writes_per_s=12.5, table_version=7)


def lease(text: str, holder: str = "s1", transitions: int = 3) -> Lease:
    spec = LeaseSpec(holder_identity=holder, lease_transitions=transitions)
    return Lease(ObjectMeta(annotations={STATUS: text}), spec)


@pytest.mark.rule("sharding:B16")
def test_the_leader_is_believed() -> None:
    assert supervisor_report(lease(report_text(SAID))) == SAID
    assert confirmed_versions({0: lease(report_text(SAID)), 1: lease("")}) == {0: 7}


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(lease(report_text(SAID), transitions=4), id="another leads now"),
        pytest.param(lease(report_text(SAID), holder=""), id="nobody leads"),
        pytest.param(lease('{"term":"3"}'), id="wrong type"),
        pytest.param(lease("[" * 20_000), id="nested"),
        pytest.param(lease("\ud800"), id="no text"),
        pytest.param(Lease(), id="nothing"),
    ],
)
@pytest.mark.rule("sharding:K10")
def test_nobody_else_is(found: Lease) -> None:
    assert supervisor_report(found) is None
    assert confirmed_versions({0: found}) == {}
