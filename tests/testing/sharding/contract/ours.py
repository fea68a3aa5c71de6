"""Our own executor, started as the contract's checker starts any: `python -m tests.testing.sharding.contract.ours`."""

from __future__ import annotations

import asyncio
import os

from situate.objects.resources import unstructured
from situate.runtime.process.manager import Manager, stop_on_signals
from situate.sharding import Executor, ExecutorConfig, ExecutorIdentity, Outcome, Work
from situate.sharding.leases.membership import LeaseTimes
from situate.sharding.model.field_paths import Content


async def work(obj: Content, at: Work) -> Outcome | None:
    count, steps = 0, obj["spec"].get("steps")
    while steps is None or count < steps:
        count += 1
        await at.patch_status({"by": os.environ["POD_UID"], "count": count})
        await asyncio.sleep(0.3)
    return Outcome.succeeded()


async def main() -> None:
    group, version, plural = os.environ["SITUATE_RESOURCE"].split("/")
    lease_s, renew_s, deadline_s, grace_s = (
        float(os.environ[f"SITUATE_{name}"].rstrip("s"))
        for name in ("LEASE_DURATION", "RENEW_INTERVAL", "RENEW_DEADLINE", "CANCEL_GRACE")
    )
    config = ExecutorConfig(
        unstructured(group, version, "Unit", plural),
        namespace=os.environ["SITUATE_NAMESPACE"],
        pool=os.environ["SITUATE_POOL"],
        times=LeaseTimes(lease_s, renew_s, min(1.0, renew_s), deadline_s, grace_s),
        stall_limit=deadline_s / 2,
    )
    pod, namespace, uid = (os.environ[f"POD_{name}"] for name in ("NAME", "NAMESPACE", "UID"))
    manager = Manager()
    Executor(ExecutorIdentity(pod, namespace, uid), work, config).setup(manager)
    stop_on_signals(manager)
    await manager.run()


if __name__ == "__main__":
    asyncio.run(main())
