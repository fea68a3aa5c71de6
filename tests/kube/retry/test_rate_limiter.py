from __future__ import annotations

import asyncio

import pytest

from situate.kube.retry.rate_limiter import RateLimiter


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.looptime
async def test_a_burst_leaves_at_once_and_then_the_rate_holds() -> None:
    limiter = RateLimiter(qps=10, burst=3)
    left = []
    for _ in range(6):
        await limiter.wait()
        left.append(now())
    assert left == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3], abs=0.01)


@pytest.mark.looptime
async def test_a_pause_earns_a_burst_but_no_more() -> None:
    limiter = RateLimiter(qps=10, burst=3)
    for _ in range(3):
        await limiter.wait()
    await asyncio.sleep(60)
    left = []
    for _ in range(5):
        await limiter.wait()
        left.append(now())
    assert left == pytest.approx([60, 60, 60, 60.1, 60.2], abs=0.01)


@pytest.mark.looptime
async def test_those_who_wait_leave_in_order() -> None:
    limiter = RateLimiter(qps=10, burst=1)
    left: list[int] = []

    async def call(number: int) -> None:
        await limiter.wait()
        left.append(number)

    await asyncio.gather(*(call(number) for number in range(5)))
    assert left == [0, 1, 2, 3, 4]
    assert now() == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize(
    ("qps", "burst", "message"), [(0, 1, "qps: found 0, allowed: more than 0"), (1, 0, "burst: found 0")]
)
def test_impossible_settings_are_refused(qps: float, burst: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RateLimiter(qps, burst)
