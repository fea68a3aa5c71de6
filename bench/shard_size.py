"""How much of each `bench.shard` measures: all of it, or as little as shows that it still runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    one_server: bool
    """Whether all rows share an embedded server; each has its own else."""
    runs: int
    objects: int
    """That are placed."""
    with_real: bool
    """Whether they are placed before a real control plane as well."""
    arrivals: int
    arrivals_per_s: float
    held: int
    """That are assigned when a supervisor starts."""
    open: int
    """Of executors of which some go."""
    silence: bool
    """Whether to wait until Leases have run out."""
    lives: int
    members: int
    """Executors of those that live, and of those that change."""
    changing: int
    """Objects that stay and change."""
    changes_per_s: float
    settle_s: float
    """Before the first change, and after the last take-over."""
    changing_s: float
    creations: int
    """That are timed, in each of four turns."""
    executors: tuple[int, ...]
    """Numbers of processes, the smallest first."""
    units_each: int
    """For each process."""
    rollouts: tuple[int, ...]
    """Numbers of executors, on virtual time."""
    played_each: int
    """Objects of each of them."""
    ring_keys: int
    rings: int
    herd_steps: int
    """Tenths of a second, of which the first 1200 build up the load."""
    split: tuple[int, int, int]
    """Executors, objects and changes by users, where caches are counted."""
    away_s: float
    """How long the archive is away."""
    churns: int
    """Runs of executors that flap."""
    simulated: int
    """Objects that partitions place on virtual time."""
    completed: int
    """Objects with and without an archive."""
    units: int
    """Of work, beside as many Jobs."""


FULL = Size(
    one_server=False,
    runs=3,
    objects=9000,
    with_real=True,
    arrivals=2000,
    arrivals_per_s=100,
    held=10_000,
    open=300,
    silence=True,
    lives=1000,
    members=3,
    changing=9000,
    changes_per_s=155,
    settle_s=5,
    changing_s=60,
    creations=300,
    executors=(1, 2, 4, 8, 16),
    units_each=100,
    rollouts=(3, 5, 10),
    played_each=20,
    ring_keys=2000,
    rings=50,
    herd_steps=4000,
    split=(5, 200, 1000),
    away_s=3600,
    churns=1000,
    simulated=1200,
    completed=10_000,
    units=1000,
)
QUICK = Size(
    one_server=True,
    runs=1,
    objects=200,
    with_real=False,
    arrivals=30,
    arrivals_per_s=100,
    held=200,
    open=20,
    silence=False,
    lives=20,
    members=1,
    changing=500,
    changes_per_s=155,
    settle_s=0,
    changing_s=2,
    creations=5,
    executors=(1,),
    units_each=10,
    rollouts=(3,),
    played_each=5,
    ring_keys=200,
    rings=4,
    herd_steps=2000,
    split=(2, 6, 12),
    away_s=120,
    churns=20,
    simulated=60,
    completed=50,
    units=20,
)
