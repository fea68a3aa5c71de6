from __future__ import annotations

import pytest

from situate.cluster.apiserver.faults import Faults, Kind, Rule
from situate.cluster.storage.effects import ADMIN, Identity
from situate.objects.messages import Request

GET = Request("GET", "/api/v1/pods")
POST = Request("POST", "/api/v1/namespaces/n/pods")
WATCH = Request("GET", "/api/v1/pods", (("watch", "true"),))


@pytest.mark.parametrize(
    ("rule", "harmed"),
    [
        (Rule(fault=Kind.REFUSE), [GET, POST, WATCH]),
        (Rule(fault=Kind.REFUSE, methods=("POST",)), [POST]),
        (Rule(fault=Kind.REFUSE, path="*/namespaces/*"), [POST]),
        (Rule(fault=Kind.REFUSE, watches=True), [WATCH]),
        (Rule(fault=Kind.REFUSE, watches=False), [GET, POST]),
        (Rule(fault=Kind.REFUSE, users=("eve",)), []),
    ],
)
def test_conditions(rule: Rule, harmed: list[Request]) -> None:
    assert [request for request in (GET, POST, WATCH) if rule.applies(request, ADMIN)] == harmed
    assert not harmed or not rule.users or rule.applies(GET, Identity("eve"))


def test_a_rule_skips_harms_and_is_used_up() -> None:
    faults = Faults()
    faults.add(Rule(fault=Kind.DELAY, skip=1, times=2))
    assert [faults.of(GET, ADMIN) is not None for _ in range(5)] == [False, True, True, False, False]
    assert faults.report() == {"paused": False, "rules": []}


def test_the_first_rule_that_applies_counts_until_cleared() -> None:
    faults = Faults()
    first, second = Rule(fault=Kind.REFUSE, methods=("POST",), times=None), Rule(fault=Kind.DELAY, times=None)
    faults.add(first)
    faults.add(second)
    assert (faults.of(POST, ADMIN), faults.of(GET, ADMIN), faults.of(POST, ADMIN)) == (first, second, first)
    assert [(rule["seen"], rule["done"]) for rule in faults.report()["rules"]] == [(2, 2), (1, 1)]
    faults.clear()
    assert faults.of(GET, ADMIN) is None
