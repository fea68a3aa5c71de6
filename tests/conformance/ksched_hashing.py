"""Runs ksched's hashing.json: hashes, ranges, what resizing moves, the ring, movement, lease states of the ring."""

from __future__ import annotations

import random
import re
import uuid
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import Any

from situate.sharding.partitions.hash_arrays import fnv1a64_many
from situate.sharding.partitions.hash_ring import HashRing, Rendezvous
from situate.sharding.partitions.hashing import SPACE, fnv1a64, xxhash64
from situate.sharding.partitions.partitions import (
    PartitionBy,
    partition_of,
    static_partition,
    static_ranges,
)
from situate.sharding.partitions.repartition import resize_owners, split_partition
from situate.sharding.partitions.slots import SLOTS, even_table, slot_of
from tests.conformance.outcome import PASSED, Case, Outcome, UnknownOperationError, UnknownPhraseError, compared, failed
from tests.sharding.leases.ring_leases import RingState, ring_state
from tests.sharding.partitions.many_hashes import hashes_of, partitions_of

Json = Any
_SEED = 20261122
_UIDS = 20_000
_ABOUT = {"format_version", "about", "source", "note"}
_OBSERVED = (
    re.compile(r"(?<!un)(?:changed|change|renewed|renewal)\b[^.;,]*? ([\d.]+) ?s(?:econds?)? ago"),
    re.compile(r"(?:unchanged|not changed|no change|has not moved)\b[^.;,]*? ([\d.]+) ?s(?:econds?)?\b"),
)


def cases(document: Json) -> list[Case]:
    """Every group of the file as cases of their own; one that is not known becomes a case that fails."""
    found: list[Case] = []
    for group, wire in document.items():
        if group in _ABOUT:
            continue
        layout = _LAYOUTS.get(group, lambda wire: [{"id": "all", "wire": wire}])
        basis = wire.get("basis", "required") if isinstance(wire, Mapping) else "required"
        for number, case in enumerate(layout(wire)):
            name = f"{group} {case.get('id', number)}"
            found.append({"basis": basis, **case, "group": group, "id": name})
    return found


def hashing(case: Case) -> Outcome:
    group = case["group"]
    if group not in _RUNNERS:
        raise UnknownOperationError(f"group {group!r}; known: {', '.join(_RUNNERS)}")
    return _RUNNERS[group](case)


_LAYOUTS: Mapping[str, Callable[[Json], list[dict[str, Json]]]] = {
    "fnv1a64": lambda wire: wire["vectors"],
    "ranges": lambda wire: [{"id": f"N={count}", "count": int(count), "of": of} for count, of in wire["by_n"].items()],
    "repartition_moved_fraction": lambda wire: [{"id": f"{row['from']} to {row['to']}", **row} for row in wire["rows"]],
    "namespace_skew": lambda wire: [{"id": "all", **wire}],
    "ring": lambda wire: [{"id": vector["key"], "ring": wire, **vector} for vector in wire["vectors"]],
    "ring_token_collision": lambda wire: [{"id": each["key"], "of": wire, **each} for each in wire["examples"]],
    "movement_properties": lambda wire: wire["cases"],
    "shard_lease_states": lambda wire: wire,
}


def _fnv1a64(case: Case) -> Outcome:
    hashed = fnv1a64(case["in"])
    if fnv1a64_many([case["in"], "another"]).tolist() != [hashed, fnv1a64("another")]:
        return failed("many at once hash differently from one")
    actual: dict[str, Json] = {"fnv1a64": f"{hashed:#018x}", "slot12": slot_of(hashed)}
    if "partition" in case:
        counts = [int(count) for count in case["partition"]]
        actual["partition"] = {str(count): partition_of(hashed, count) for count in counts}
        for count, index in zip(counts, actual["partition"].values(), strict=True):
            if not static_partition(index, count).holds_hash(hashed):
                return failed(f"partition {index}/{count} does not hold its own hash")
            if partitions_of(fnv1a64_many([case["in"]]), count).tolist() != [index]:
                return failed(f"many at once are in another partition of {count} than one")
    return compared(actual, {key: case[key] for key in ("fnv1a64", "slot12", "partition") if key in case})


def _ranges(case: Case) -> Outcome:
    ours = [
        {"partition": index, "start": each.start_hex, "end": each.end_hex, "shardSelector": each.selector}
        for index, each in enumerate(static_ranges(case["count"]))
    ]
    return PASSED if ours == case["of"] else failed(f"expected {case['of']}, got {ours}")


def _repartition(case: Case) -> Outcome:
    before, after = case["from"], case["to"]
    ideal = Fraction(abs(after - before), max(before, after))
    actual = {
        "ideal": ideal,
        "equal_ranges": _moved_by_ranges(before, after),
        "modulo": _moved_by_modulo(before, after),
    }
    wrong = [
        f"{name}: expected {case[name]}, got {float(share):.6f}"
        for name, share in actual.items()
        if name in case and abs(float(share) - case[name]) > 1e-6
    ]
    return failed("; ".join(wrong)) if wrong else _by_slots(before, after, ideal)


def _moved_by_ranges(before: int, after: int) -> Fraction:
    """The share of the hash space whose partition has another number."""
    old, new = static_ranges(before), static_ranges(after)
    bounds = sorted({each.start for each in (*old, *new)} | {SPACE})
    starts = [each.start for each in old], [each.start for each in new]
    moved = sum(
        end - start
        for start, end in pairwise(bounds)
        if bisect_right(starts[0], start) != bisect_right(starts[1], start)
    )
    return Fraction(moved, SPACE)


def _moved_by_modulo(before: int, after: int) -> Fraction:
    period = lcm(before, after)
    return Fraction(sum(number % before != number % after for number in range(period)), period)


def _by_slots(before: int, after: int, ideal: Fraction) -> Outcome:
    """A slot table reaches the ideal, for random UIDs too, and moves slots only to or from who comes or goes."""
    chance = random.Random(_SEED)
    uids = [str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(_UIDS)]
    load = Counter((hashes_of(uids, PartitionBy.UID) >> 52).tolist())
    owners = even_table(before).owners()
    for weights in (None, [load[slot] for slot in range(SLOTS)]):
        changed = resize_owners(owners, range(after), weights)
        moved = [slot for slot in range(SLOTS) if owners[slot] != changed[slot]]
        if after > before and any(changed[slot] < before for slot in moved):
            return failed("a slot moves between partitions that were there before")
        if after < before and any(owners[slot] < after for slot in moved):
            return failed("a slot of a partition that stays moves")
        share, most = len(moved) / SLOTS, 1.05 * ideal + Fraction(1, SLOTS)
        if weights is not None:
            share, most = sum(load[slot] for slot in moved) / _UIDS, 1.05 * ideal + Fraction(max(load.values()), _UIDS)
        if share > most:
            return failed(f"{share:.6f} moves with slots, at most {float(most):.6f} may")
    half = split_partition(owners, 0, before)
    mine = owners.count(0)
    if half.count(before) != mine // 2 or any(now not in (was, before) for was, now in zip(owners, half, strict=True)):
        return failed(f"a split of {mine} slots moves {half.count(before)}")
    return PASSED


def _namespace_skew(case: Case) -> Outcome:
    match = re.fullmatch(r"(.+?)(0*1) \.\.\. \1(\d+)", case["keys"])
    if match is None:
        raise UnknownPhraseError(case["keys"])
    keys = [f"{match[1]}{number:0{len(match[2])}d}" for number in range(1, int(match[3]) + 1)]
    for count, raw in case.get("fnv1a64_equal_ranges", {}).items():
        ours = _counts(partitions_of(fnv1a64_many(keys), int(count)).tolist(), int(count))
        if ours != raw:
            return failed(f"raw FNV-1a puts {ours} keys into {count} ranges, expected {raw}")
    mixed = _counts(partitions_of(hashes_of(keys, PartitionBy.NAMESPACE), 4).tolist(), 4)
    evenness = max(mixed) / (len(keys) / 4)
    return PASSED if evenness <= 1.6 else failed(f"max/mean is {evenness:.2f} in 4 partitions: {mixed}")


def _counts(partitions: Sequence[int], count: int) -> list[int]:
    return [partitions.count(index) for index in range(count)]


def _ring(case: Case) -> Outcome:
    actual: dict[str, Json] = {"xxh64": f"{xxhash64(case['key']):#018x}"}
    owners = [name for name in case if name.startswith("owner_")]
    for name in owners:
        nodes = _nodes(case["ring"], name.removeprefix("owner_"))
        actual[name] = HashRing(nodes).owner(case["key"])
        grown = HashRing()
        for node in reversed(nodes):
            grown = grown.with_member(node)
        if grown.owner(case["key"]) != actual[name]:
            return failed(f"{name}: a ring that grew says {grown.owner(case['key'])}, a whole one {actual[name]}")
    return compared(actual, {key: case[key] for key in ("xxh64", *owners) if key in case})


def _nodes(ring: Mapping[str, Json], count: str) -> list[str]:
    if f"nodes_{count}" in ring:
        return list(ring[f"nodes_{count}"])
    if f"added_for_{count}" in ring:
        return [*_nodes(ring, str(int(count) - 1)), ring[f"added_for_{count}"]]
    raise UnknownOperationError(f"owner_{count}, and neither nodes_{count} nor added_for_{count}")


def _collision(case: Case) -> Outcome:
    nodes = list(case["of"]["nodes"])
    rings = [HashRing(nodes), HashRing(reversed(nodes)), HashRing(random.Random(_SEED).sample(nodes, len(nodes)))]
    owners = {ring.owner(case["key"]) for ring in rings}
    if owners != {min(case["candidates"])}:
        return failed(f"owners by order of listing are {owners}, expected always {min(case['candidates'])}")
    if HashRing(nodes, separator=True).collisions():
        return failed("tokens collide although a separator stands before their numbers")
    return compared({"colliding_tokens": rings[0].collisions()}, {
        key: case["of"][key] for key in ("colliding_tokens",) if key in case["of"]
    })  # fmt: skip


def _movement(case: Case) -> Outcome:
    operations = {"add one node": 1, "remove one node": -1}
    if case["operation"] not in operations:
        raise UnknownPhraseError(case["operation"])
    nodes, keys = [f"executor-{number}" for number in range(case["nodes"])], [f"key-{n}" for n in range(case["keys"])]
    changed = [*nodes, "executor-new"] if operations[case["operation"]] > 0 else nodes[:-1]
    before, after = Rendezvous(nodes).owners_of(keys), Rendezvous(changed).owners_of(keys)
    moved = [(was, now) for was, now in zip(before, after, strict=True) if was != now]
    share = len(moved) / len(keys)
    for name, wanted in case["expect"].items():
        match name:
            case "moved_only_to_new_node":
                holds = all(now == "executor-new" for _, now in moved) is wanted
            case "only_keys_of_removed_node_move":
                holds = all(was == nodes[-1] for was, _ in moved) is wanted
            case "moved_fraction_between":
                holds = wanted[0] <= share <= wanted[1]
            case _:
                raise UnknownOperationError(f"expectation {name!r}")
        if not holds:
            return failed(f"{name}: expected {wanted}; {len(moved)} of {len(keys)} keys move, {share:.4f}")
    return PASSED


def _lease_state(case: Case) -> Outcome:
    lease = case["lease"]

    def state(age_s: float | None) -> RingState:
        acquired = bool(lease.get("acquired"))
        return ring_state(lease["name"], lease.get("holder"), age_s, lease.get("duration_s"), acquired)

    by_renewal = state(lease.get("renew_age_s"))
    actual = {
        "state": str(by_renewal),
        "available_upstream": by_renewal in (RingState.READY, RingState.EXPIRED, RingState.UNCERTAIN),
        "new_work_allowed_required": state(_seen_to_change(case)).takes_new_work,
    }
    return compared(actual, {key: case[key] for key in actual if key in case})


def _seen_to_change(case: Case) -> float | None:
    """How long ago the observer saw the Lease change; where the case does not say, when the shard says it renewed."""
    note = case.get("note", "")
    for pattern in _OBSERVED:
        if match := pattern.search(note):
            return float(match[1])
    if "clock" in note and case["basis"] == "required":
        raise UnknownPhraseError(f"when the Lease was seen to change: {note}")
    age: float | None = case["lease"].get("renew_age_s")
    return age


_RUNNERS: Mapping[str, Callable[[Case], Outcome]] = {
    "fnv1a64": _fnv1a64,
    "ranges": _ranges,
    "repartition_moved_fraction": _repartition,
    "namespace_skew": _namespace_skew,
    "ring": _ring,
    "ring_token_collision": _collision,
    "movement_properties": _movement,
    "shard_lease_states": _lease_state,
}
