"""Migrations in a simulation: NeonVM's controller and a hypervisor, as `situate.vm.emulator` models them (C34).

The VM freezes, and its target pod is placed and started. `situate.vm.emulator.hypervisor` copies the memory, and then
the source is deleted. With a claim, the source is deleted only when the scheduler has written the beneficiary (B10).
"""

from __future__ import annotations

from typing import Final

from situate.sim.timeline import Timeline
from situate.sim.vm.account import VMAccount
from situate.sim.vm.scheduler import PendingPod, SchedulerProcess
from situate.sim.vm.world import NAMESPACE, Migration, VMWorld
from situate.vm.emulator.hypervisor import Behaviour, MigrationInfo, Terms, progress
from situate.vm.emulator.settings import Settings
from situate.vm.model.pods_and_nodes import Phase
from situate.vm.model.policy import Rules

_STEP_S: Final = 0.1
START_S: Final = 2.0
"""Seconds from a pod's binding until it runs."""
STOP_S: Final = 1.0


class MigrationController:
    def __init__(
        self,
        timeline: Timeline,
        world: VMWorld,
        scheduling: SchedulerProcess,
        account: VMAccount,
        rules: Rules,
        pace: Settings,
    ) -> None:
        self._timeline, self._world, self._scheduler, self._account = timeline, world, scheduling, account
        self._rules, self._pace = rules, pace
        self._started_at: dict[str, float] = {}
        """By UID of the migration: when copying began."""
        self._copied_bytes: dict[str, int] = {}
        """By UID of the migration: bytes sent."""
        scheduling.migration_made = lambda name: self._schedule_step(_STEP_S, name, self._world.migrations[name].uid)

    @property
    def bytes_moved(self) -> int:
        return sum(self._copied_bytes.values())

    def _schedule_step(self, seconds: float, name: str, uid: str) -> None:
        self._timeline.call_after(seconds, lambda: self._advance(name, uid))

    def _advance(self, name: str, uid: str) -> None:
        """Advance a migration by one step. Do nothing if it is gone."""
        move = self._world.migrations.get(name)
        if move is None or move.uid != uid:
            return
        match move.phase:
            case "":
                self._freeze_machine(move)
            case "Running":
                self._copy_memory(move)
            case _:
                return

    def _freeze_machine(self, move: Migration) -> None:
        machine = self._world.machines.get(move.machine)
        if machine is None:
            self._scheduler.deliver_events(self._world.fail(move.name, self._timeline.now))
            return
        if machine.phase is not Phase.RUNNING:
            self._schedule_step(self._pace.wait_s, move.name, move.uid)
            return
        self._scheduler.deliver_events(self._world.freeze(move.name))
        pending = PendingPod(
            machine.affinity,
            excluded_node=move.source_node,
            move=f"{NAMESPACE}/{move.name}",
            bound=lambda: self._timeline.call_after(START_S, lambda: self._begin_copy(move)),
        )
        self._scheduler.place(move.target, pending)

    def _begin_copy(self, move: Migration) -> None:
        if self._world.migrations.get(move.name) is move and move.phase == "Pending":
            self._started_at[move.uid] = self._timeline.now
            self._copy_memory(move)

    def _copy_memory(self, move: Migration) -> None:
        now, found = self._timeline.now, self._progress(move)
        self._copied_bytes[move.uid] = found.transferred
        if found.status == "completed":
            self._account.result.completed += 1
            self._scheduler.deliver_events(self._world.succeed(move.name))
            wait_s = self._pace.handover_s if move.claim is not None else STOP_S
            self._timeline.call_after(wait_s, lambda: self._delete_source(move.source))
            return
        self._scheduler.deliver_events(self._world.copy(move.name, found.remaining, now))
        ends = self._pace.poll_s if found.ends_in_s is None else min(self._pace.poll_s, found.ends_in_s)
        self._schedule_step(max(ends, 0.001), move.name, move.uid)

    def _delete_source(self, source: str) -> None:
        """Delete the source pod if it still exists, even without its migration."""
        if source in self._world.pods:
            self._scheduler.deliver_events(self._world.delete_pod(source, self._timeline.now))

    def _progress(self, move: Migration) -> MigrationInfo:
        load = self._world.machines[move.machine].load
        behaviour = Behaviour(used=move.copied, dirty_rate=int(load.dirty_rate or 0))
        terms = Terms(memory=move.copied, max_bandwidth=self._rules.max_bytes_per_s)
        return progress(behaviour, terms, self._timeline.now - self._started_at[move.uid])
