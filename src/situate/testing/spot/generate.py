"""Draw the history of a seed: half of its steps are faults."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from situate.testing.histories.process_faults import COMMON_STORMS
from situate.testing.histories.steps import (
    Calm,
    CutWatches,
    KillLeader,
    KillLeaderAt,
    KillStandby,
    Pass,
    PauseLeader,
    PauseLeaderAt,
    RestoreNodes,
    ServerDown,
    StopLeader,
    Storm,
)
from situate.testing.spot import steps
from situate.testing.spot.history import SpotHistory, SpotHistorySettings
from situate.testing.spot.steps import AnyStep
from situate.testing.spot.world.initial_objects import ON_DEMAND_NODES, POLICIES, SPOT_NODES, UNREADABLE_POLICIES
from situate.testing.spot.world.webhooks import ReviewFaults
from situate.testing.virtual_time.network import NetworkFaults

STORMS: Final = {
    **COMMON_STORMS,
    "late events": NetworkFaults(event_delay_s=1.0, event_jitter_s=1.0),
    "blind": NetworkFaults(lose_answer=0.3, event_delay_s=2.0),
}
REVIEW_FAULTS: Final = {
    "lost": ReviewFaults(lose_question=0.3),
    "answer lost": ReviewFaults(lose_answer=0.3),
    "repeated": ReviewFaults(repeat=0.5),
    "reordered": ReviewFaults(latency_s=(0.001, 0.8)),
    "all": ReviewFaults((0.001, 0.5), 0.1, 0.1, 0.3),
}
_STRICT: Final[tuple[Any, ...]] = ("", "", "", "webhook", "", "", "policy", "")
_MESSAGES: Final[tuple[Any, ...]] = ("review", "review", "eviction", "release", "delete", "mark")
_BY: Final[tuple[Any, ...]] = ("taint", "taint", "short taint", "condition", "past condition")


def generate(seed: int, length: int = 40) -> SpotHistory:
    """Generate the history of a seed, with `length` steps."""
    rng = Random(f"spot {seed}")
    settings = SpotHistorySettings(
        degrade=seed % 5 == 4,
        make_before_break=seed % 7 != 6,
        short_certificates=seed % 4 == 3,
        events=seed % 2 == 1,
        strict=_STRICT[seed % len(_STRICT)],
        windows=seed % 6 == 2,
        further=seed % 4 == 1,
    )
    workloads = len(settings.workloads)
    drawn = (_draw_fault(rng, workloads) if rng.random() < 0.5 else _draw_load(rng, workloads) for _ in range(length))
    return SpotHistory(seed, settings, tuple(drawn))


def _draw_wait(rng: Random) -> float:
    return round(rng.choice((0.0, 0.1, 0.5, 2.0, 8.0, 25.0)) * rng.uniform(0.5, 1.5), 3)


def _draw_load(rng: Random, workloads: int) -> AnyStep:
    wait, workload = _draw_wait(rng), rng.randrange(workloads)
    match rng.randrange(14):
        case 0 | 1 | 2 | 3 | 4:
            return steps.Scale(wait, workload, rng.choice((0, 1, 2, 3, 4, 5, 6, 8, 10)))
        case 5 | 6:
            return steps.SetPolicy(wait, workload, rng.choice(POLICIES))
        case 7:
            return steps.RollOut(wait, workload, rng.randrange(3))
        case 8:
            pod = rng.randrange(40)
            return rng.choice((steps.DeletePod(wait, pod), steps.Evict(wait, pod), steps.Elect(wait, workload, pod)))
        case 9:
            return rng.choice(
                (
                    steps.Recreate(wait, workload),
                    steps.OptOut(wait, workload, on=True),
                    steps.OptOut(wait, workload, on=False),
                    steps.SpoilPolicy(wait, workload, rng.choice(UNREADABLE_POLICIES)),
                )
            )
        case 10:
            return steps.Pause(wait, workload, on=rng.random() < 0.5)
        case _:
            return Pass(rng.uniform(5.0, 60.0))


def _draw_fault(rng: Random, workloads: int) -> AnyStep:
    wait, node = _draw_wait(rng), rng.randrange(SPOT_NODES + ON_DEMAND_NODES)
    workload, pod = rng.randrange(workloads), rng.randrange(40)
    half = rng.random() < 0.5
    match rng.randrange(33):
        case 0:
            return KillLeader(wait)
        case 1 | 2 | 3:
            return KillLeaderAt(wait, rng.choice(_MESSAGES), answered=half)
        case 4:
            return PauseLeaderAt(wait, rng.choice(_MESSAGES), half, rng.choice((2.0, 12.0, 40.0)))
        case 5:
            return PauseLeader(wait, rng.choice((2.0, 12.0, 40.0)))
        case 6:
            return rng.choice((StopLeader(wait), KillStandby(wait)))
        case 7:
            return steps.BothDown(wait, rng.choice((3.0, 20.0)))
        case 8 | 9:
            return steps.Notice(wait, node, rng.choice(_BY), rng.choice((None, 10.0, 40.0, 120.0)), silent=half)
        case 10:
            return steps.EndNode(wait, node, silent=half)
        case 11:
            return steps.Wave(wait, rng.choice((0.0, 0.0, 30.0, 120.0)), silent=half)
        case 12 | 13:
            return steps.AddSpot(wait, rng.choice((1, 2, SPOT_NODES)))
        case 14:
            return rng.choice((steps.AtRisk(wait, node), steps.Cordon(wait, node)))
        case 15:
            return steps.LoseLabel(wait, node, swapped=half)
        case 16:
            return steps.Fill(wait, rng.choice(("on-demand", "on-demand", "spot", "both")))
        case 17 | 18 | 19:
            return RestoreNodes(wait)
        case 20:
            return rng.choice(
                (steps.UnreadyPod(wait, pod, on=True), steps.UnreadyPod(wait, pod, on=False), steps.StickPod(wait, pod))
            )
        case 21:
            return steps.Guard(wait, workload, on=rng.random() < 0.7)
        case 22:
            return steps.RefuseCreations(wait, rng.choice((0, 2, 3, 5)))
        case 23:
            return steps.Meddle(wait, rng.choice(("affinity", "slow", "")))
        case 24:
            return Storm(wait, rng.choice([*STORMS]))
        case 25:
            return steps.LoseReviews(wait, rng.choice([*REVIEW_FAULTS]))
        case 26:
            return Calm(wait)
        case 27:
            return CutWatches(wait, compact=half)
        case 28:
            return ServerDown(wait, rng.choice((1.0, 8.0, 20.0)))
        case 29:
            return steps.Rival(wait, rng.choice(("on-demand", "spot", "prefers", "")), first=half)
        case 30:
            return steps.Upgrade(wait, rng.randrange(2))
        case 31:
            return rng.choice((steps.ReadOnly(wait, on=True), steps.ReadOnly(wait, on=False), steps.Ungate(wait)))
        case _:
            return rng.choice(
                (steps.SetClock(wait, rng.randrange(2), rng.choice((-60.0, 60.0, 100_000.0))), steps.LoseSecret(wait))
            )
