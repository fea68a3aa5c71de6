"""Rows of `bench.shard` that ask whether a promise holds, not how fast: drains, herds, caches, an archive that is away,
and strategies under churn (B4, B7, B8, B9, section 16). All on virtual time, or by strategies alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from statistics import median
from typing import Any, Final

from tests.sharding.archive_outage import TTL_S, play_outage
from tests.sharding.herd import peak_to_mean
from tests.sharding.split_caches import measure_split_caches

from bench.shard_place import Bench
from bench.shard_placing import percentile
from bench.shard_table import Peer, heading, line, note
from situate.sharding.executor.controller.work import Work
from situate.sharding.leases.membership import LeaseTimes
from situate.sharding.model.executors import ExecutorStatus
from situate.sharding.model.field_paths import Content
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.sharding.partitions.hash_ring import HashRing, ring_key
from situate.sharding.strategies import ObjectFacts, RoundRobin
from situate.testing.sharding.world.executor_world import ExecutorProcess
from situate.testing.sharding.world.supervisor_world import SupervisorWorld
from situate.testing.virtual_time.isolation import disable_collector, suppress_logs

_LEASE_S: Final = LeaseTimes().lease_s
_DRAIN_S: Final = SupervisorConfig().drain_timeout
_RING_P95: Final = {3: (1.07, 1.18), 5: (1.11, 1.23), 10: (1.15, 1.27)}
_STARVED: Final = {1: 0.33, 10: 0.98}
"""Of KSched's runs, by flaps, those in which somebody gets nothing more."""
_REMOVED_CHOSEN: Final = {1: 0.11, 10: 0.49}


async def drain(bench: Bench) -> dict[str, Any]:
    """B4: one executor is cordoned whose handlers stop when they are asked to, and one whose handlers do not."""
    size = bench.size
    heading(f"B4 seconds until a cordoned executor has nothing, {size.played_each} objects")
    found: dict[str, Any] = {}
    for key, stubborn in (("stops", False), ("stubborn", True)):
        nothing_s, elsewhere_s, lost = drained(size.played_each, stubborn=stubborn)
        line(f"its handlers {'ignore that' if stubborn else 'stop'}", nothing_s, most=_DRAIN_S + _LEASE_S)
        line("  until all run elsewhere", elsewhere_s, most=_DRAIN_S + _LEASE_S + 2)
        line("  checkpoints that did not reach the next holder", lost, most=0)
        found[key] = {
            "nothing_s": round(nothing_s, 2),
            "elsewhere_s": round(elsewhere_s, 2),
            "checkpoints_lost": lost,
        }
    note("what runs twice, or is lost, ends the row")
    return {"drain": found}


def drained(objects: int, *, stubborn: bool) -> tuple[float, float, int]:
    """Seconds until the executor has nothing, and until all run elsewhere; how many next holders did not see the
    checkpoint of the one before."""
    found: dict[str, Any] = {}

    async def script(member: ExecutorProcess, obj: Content, work: Work) -> None:
        name = str(obj["metadata"]["name"])
        if member.pod == "b":
            found[name] = obj.get("status", {}).get("checkpoint")
        else:
            await work.checkpoint(name)
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError:
            if stubborn:
                await asyncio.sleep(1e9)
            raise

    with disable_collector(), suppress_logs():
        town = SupervisorWorld()
        try:
            first = town.create_executor("a", script, concurrency=objects)
            town.start_supervisor()
            for number in range(objects):
                town.create(f"r-{number}")
            if not town.run(60.0, lambda: len(first.running_names) == objects):
                raise SystemExit("not all objects were begun within 60 s of virtual time")
            second = town.create_executor("b", script, concurrency=objects)
            town.run(5.0)
            began = town.world.now
            town.cordon("a")
            town.run(600.0, lambda: all(view.executor != "a" for view in town.views()))
            nothing_s = town.world.now - began
            town.run(600.0, lambda: len(second.running_names) == objects)
            return nothing_s, town.world.now - began, sum(found.get(f"r-{n}") != f"r-{n}" for n in range(objects))
        finally:
            town.close()


async def herd(bench: Bench) -> dict[str, Any]:
    """B7: by the strategy alone, on a clock of its own."""
    steps = bench.size.herd_steps
    heading("B7 most open objects of an executor by the mean, 10 arrivals/s over 10 executors, samples every 15 s")
    raw = peak_to_mean({}, 0, steps)
    ours = max(peak_to_mean("auto", stagger, steps) for stagger in (0, 15))
    line("MinMetricScore", ours, most=1.5, peer=Peer(raw, "raw minimum, in this run"))
    return {"herd": {"ours": round(ours, 3), "raw_minimum": round(raw, 3)}}


async def caches(bench: Bench) -> dict[str, Any]:
    """B8: executors that watch their own objects, while these change and move."""
    executors, objects, changes = bench.size.split
    heading(f"B8 caches of {executors} executors, {objects} objects, {changes} changes, each drained once")
    found = measure_split_caches(executors, objects, changes)
    line("objects that an executor holds by its own, most", found.held_ratio, most=1.01)
    line("events that it is sent by those of its own, most", found.received_ratio, most=1.01)
    line("events that all are sent by those that all would be that watch everything", found.share, peer=None)
    note(f"{found.events} events, {found.moved} moves")
    return {
        "caches": {
            "held": round(found.held_ratio, 4),
            "events": round(found.received_ratio, 4),
            "share": round(found.share, 3),
        }
    }


async def away(bench: Bench) -> dict[str, Any]:
    """B9: objects that come and are done while the archive is away."""
    seconds = bench.size.away_s
    heading(f"B9 an archive that is away for {seconds:g} s, time to live {TTL_S:g} s")
    found = play_outage(seconds)
    line("seconds from completion to the archive while it is there", found.archived_s, most=TTL_S + 5)
    line("seconds from creation to assignment while it is not, most", found.assigned_s, most=1)
    line("objects that are gone without a record", found.missing, most=0)
    line("records beyond one each", found.doubled, most=0)
    note(f"{found.objects} objects; {found.recovered_s:.0f} s after it is back all are archived")
    return {
        "away": {
            "archived_s": round(found.archived_s, 2),
            "assigned_s": round(found.assigned_s, 3),
            "recovered_s": round(found.recovered_s, 1),
            "missing": found.missing,
            "doubled": found.doubled,
        }
    }


async def churn(bench: Bench) -> dict[str, Any]:
    """Section 16: what a ring and a round-robin are worth while members come and go."""
    size = bench.size
    heading(f"ring: most keys of a member by the mean, {size.ring_keys} keys, {size.rings} rings each")
    ring: dict[str, dict[str, float]] = {}
    for members, (half, most) in _RING_P95.items():
        found = [ring_imbalance(members, size.ring_keys, Random(number)) for number in range(size.rings)]
        p50, p95 = median(found), percentile(found, 95)
        line(f"{members} members, median", p50, peer=Peer(half, "ring, section 16"))
        line("  95 % within", p95, peer=Peer(most, "ring, section 16"))
        ring[str(members)] = {"p50": round(p50, 3), "p95": round(p95, 3)}
    heading(f"RoundRobin: share of {size.churns} runs, 3 executors that flap")
    robin: dict[str, dict[str, float]] = {}
    for flaps in _STARVED:
        runs = [round_robin_after(flaps, Random(number)) for number in range(size.churns)]
        starved, removed = (sum(each[which] for each in runs) / len(runs) for which in (0, 1))
        line(f"somebody healthy gets nothing after {flaps}", starved, most=0, peer=Peer(_STARVED[flaps], "KSched"))
        line("  somebody removed is chosen", removed, most=0, peer=Peer(_REMOVED_CHOSEN[flaps], "KSched"))
        robin[str(flaps)] = {"starved": starved, "removed_chosen": removed}
    return {"ring_imbalance": ring, "round_robin": robin}


def ring_imbalance(members: int, keys: int, chance: Random) -> float:
    """Of names as a Deployment's pods have."""
    ring = HashRing(f"operator-7c8bc4fc9d-{chance.getrandbits(25):05x}" for _ in range(members))
    names = [ring_key("example.com", "Job", "default", f"job-{number}") for number in range(keys)]
    return max(Counter(ring.owners_of(names)).values()) * members / keys


def round_robin_after(flaps: int, chance: Random) -> tuple[bool, bool]:
    """Whether afterwards somebody healthy gets nothing, and whether somebody was chosen while removed."""
    strategy, executors = RoundRobin(), ["e0", "e1", "e2"]
    for each in executors:
        strategy.observe_executor(each, ExecutorStatus.HEALTHY)
    removed = False
    for _ in range(flaps):
        for _ in range(chance.randrange(6)):
            strategy.choose_executor(ObjectFacts("o"))
        gone = chance.choice(executors)
        strategy.observe_executor(gone, None)
        removed |= gone in {strategy.choose_executor(ObjectFacts("o")) for _ in range(chance.randrange(6))}
        strategy.observe_executor(gone, ExecutorStatus.HEALTHY)
    chosen = {strategy.choose_executor(ObjectFacts("o")) for _ in executors}
    return chosen != set(executors), removed


ELSEWHERE: Final = {
    "B3": "`make soak-shard`: 100,000 histories, every kind of fault, no stale write accepted",
    "B11": "a matter of what is said, not of how fast: tests and the page of sharding",
    "B12": "`python -m situate.testing.sharding explore` goes through every order of events and says how many",
    "B16": "a figure for autoscalers, and shares: tests with exact values",
    "B17": "`python -m situate.testing.sharding.contract` checks an executor on the wire",
}
"""Rules of section 14 without a row, and where they are shown."""
