"""Text of a ConfigMap with the last valid policy of each workload, which outlives the process that read it.

It records policies that annotations set, and those in force while an annotation cannot be read. A workload that is
gone, or whose annotation was removed, has no line. The controller writes and watches the object.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from situate.spot.workloads.on_demand_policy import Policy, decode_policy, encode_policy

KEY: Final = "policies"
"""Key of the ConfigMap's data."""
MOST_BYTES: Final = 1_000_000
"""Size of the text; API servers accept 1 MiB. The longest lines, of 82 bytes, fit for 12,000 workloads."""

_decode_cached = lru_cache(maxsize=4096)(decode_policy)  # a cluster has few different values


def to_text(policies: Mapping[str, Policy], before: Mapping[str, Policy] | None = None) -> tuple[str, int]:
    """Return one line for each workload, by uid, and the number of workloads that do not fit.

    A workload with a line in `before` keeps it, so that new workloads displace none.
    """
    known = before or {}
    lines: list[str] = []
    left = MOST_BYTES
    for uid in sorted(policies, key=lambda uid: (uid not in known, uid)):
        line = f"{uid} {encode_policy(policies[uid])}\n"
        if len(line) > left:
            break
        left -= len(line)
        lines.append(line)
    return "".join(sorted(lines)), len(policies) - len(lines)


def from_text(text: str) -> dict[str, Policy]:
    """Return the policies by uid of the workload. Unreadable lines are skipped."""
    found: dict[str, Policy] = {}
    for line in text.splitlines():
        uid, _, value = line.partition(" ")
        policy = _decode_cached(value) if value else None
        if policy is not None:
            found[uid] = policy
    return found
