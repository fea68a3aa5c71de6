from __future__ import annotations

import pytest

from situate.cluster.apiserver.faults import FaultKind, FaultRule, Faults
from situate.cluster.storage.effects import ADMIN, Identity
from situate.objects.messages import Request

GET = Request("GET", "/api/v1/pods")
POST = Request("POST", "/api/v1/namespaces/n/pods")
WATCH = Request("GET", "/api/v1/pods", (("watch", "true"),))


@pytest.mark.parametrize(
    ("rule", "harmed"),
    [
        (FaultRule(fault=FaultKind.REFUSE), [GET, POST, WATCH]),
        (FaultRule(fault=FaultKind.REFUSE, methods=("POST",)), [POST]),
        (FaultRule(fault=FaultKind.REFUSE, path="*/namespaces/*"), [POST]),
        (FaultRule(fault=FaultKind.REFUSE, watches=True), [WATCH]),
        (FaultRule(fault=FaultKind.REFUSE, watches=False), [GET, POST]),
        (FaultRule(fault=FaultKind.REFUSE, users=("eve",)), []),
    ],
)
def test_conditions(rule: FaultRule, harmed: list[Request]) -> None:
    assert [request for request in (GET, POST, WATCH) if rule.applies(request, ADMIN)] == harmed
    assert not harmed or not rule.users or rule.applies(GET, Identity("eve"))


def test_a_rule_skips_harms_and_is_used_up() -> None:
    faults = Faults()
    faults.add(FaultRule(fault=FaultKind.DELAY, skip=1, times=2))
    assert [faults.take_rule(GET, ADMIN) is not None for _ in range(5)] == [False, True, True, False, False]
    assert faults.report() == {"paused": False, "rules": []}


def test_the_first_rule_that_applies_counts_until_cleared() -> None:
    faults = Faults()
    first, second = (
        FaultRule(fault=FaultKind.REFUSE, methods=("POST",), times=None),
        FaultRule(fault=FaultKind.DELAY, times=None),
    )
    faults.add(first)
    faults.add(second)
    assert (faults.take_rule(POST, ADMIN), faults.take_rule(GET, ADMIN), faults.take_rule(POST, ADMIN)) == (
        first,
        second,
        first,
    )
    assert [(rule["seen"], rule["done"]) for rule in faults.report()["rules"]] == [(2, 2), (1, 1)]
    faults.clear()
    assert faults.take_rule(GET, ADMIN) is None
