from __future__ import annotations

from random import Random

import pytest

from situate.kube.errors import (
    Conflict,
    Forbidden,
    InternalError,
    KubeError,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
    Unreachable,
)
from situate.kube.retry.backoff import Backoff
from situate.kube.retry.retries import Retries
from situate.objects.kinds.status import StatusCause, StatusDetails
from situate.objects.messages import Request

READ = Request("GET", "/api/v1/pods")
WRITE = Request("POST", "/api/v1/namespaces/d/pods")
DRY_RUN = Request("POST", "/api/v1/namespaces/d/pods", (("dryRun", "All"),))
BUDGET = StatusDetails(causes=(StatusCause(reason="DisruptionBudget"),))


@pytest.mark.parametrize(
    ("error", "read", "write"),
    [
        pytest.param(TooManyRequests(429, "TooManyRequests", ""), True, True, id="429: it was not carried out"),
        pytest.param(TooManyRequests(429, "", "", BUDGET), False, False, id="429 of a disruption budget"),
        pytest.param(ServiceUnavailable(503, "", ""), True, False, id="503"),
        pytest.param(InternalError(500, "", ""), False, False, id="500"),
        pytest.param(InternalError(500, "", "", None, 2.0), True, False, id="500 with Retry-After"),
        pytest.param(ServerTimeout(504, "", "", None, 1.0), True, False, id="504 with Retry-After"),
        pytest.param(Unreachable("", outcome_unknown=False), True, True, id="nothing was sent"),
        pytest.param(Unreachable("", outcome_unknown=True), True, False, id="the outcome is unknown"),
        pytest.param(Unreachable("", outcome_unknown=False, retriable=False), False, False, id="a wrong certificate"),
        pytest.param(Conflict(409, "", ""), False, False, id="409"),
        pytest.param(Forbidden(403, "", ""), False, False, id="403"),
    ],
)
def test_only_what_cannot_do_harm_is_repeated(error: KubeError, read: bool, write: bool) -> None:
    retries = Retries(Random(1))
    assert (retries.delay_s(READ, error, 0) is not None) is read
    assert (retries.delay_s(DRY_RUN, error, 0) is not None) is read
    assert (retries.delay_s(WRITE, error, 0) is not None) is write


def test_waits_grow_are_jittered_and_end() -> None:
    retries = Retries(Random(1), attempts=5, backoff=Backoff(0.1, 0.5))
    error = TooManyRequests(429, "", "")
    waits = [retries.delay_s(WRITE, error, failed) for failed in range(5)]
    assert waits[4] is None
    for wait, base in zip(waits, (0.1, 0.2, 0.4, 0.5), strict=False):
        assert wait is not None
        assert base <= wait <= base * 1.5
    assert waits[0] != retries.delay_s(WRITE, error, 0)


def test_never_earlier_than_the_server_asked() -> None:
    error = TooManyRequests(429, "", "", None, 7.0)
    assert (Retries(Random(1)).delay_s(WRITE, error, 0) or 0) >= 7.0
