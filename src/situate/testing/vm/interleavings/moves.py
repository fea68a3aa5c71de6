"""Migrations in an interleaving: acts of their controller, of the scheduler and of others on them."""

from __future__ import annotations

from situate.sim.vm.world import DEFAULT_COPIED_BYTES, Migration
from situate.testing.vm.interleavings.agents import InterleavingAgents
from situate.testing.vm.interleavings.ledger_run import LedgerRun
from situate.vm.model.events import PodReserved, PodUnreserved, TargetRefused
from situate.vm.model.pods_and_nodes import Phase, Role


class MigrationSteps:
    def __init__(self, course: LedgerRun, agents: InterleavingAgents) -> None:
        self._run = course
        self._agents = agents

    def _random_migration(self) -> Migration | None:
        return self._run.rng.choice(list(self._run.world.migrations.values())) if self._run.world.migrations else None

    def advance_random_migration(self) -> None:
        move = self._random_migration()
        if move is not None:
            self.advance_migration(move)

    def advance_migration(self, move: Migration) -> None:
        """Advance a migration by one step of its controller, if possible."""
        if move.phase == "" and move.machine in self._run.world.machines and move.source in self._run.world.pods:
            vm = self._run.world.machines[move.machine]
            if vm.phase is Phase.RUNNING and vm.runs_in == move.source:
                self._run.queue_events(self._run.world.freeze(move.name))
        elif move.phase == "Pending" and self._run.world.pods[move.target].node == move.source_node:
            self._run.queue_events(self._run.world.fail(move.name, self._run.now))  # as `situate.vm.emulator` does
        elif move.phase == "Pending" and self._run.world.pods[move.target].node:
            self._run.queue_events(self._run.world.copy(move.name, DEFAULT_COPIED_BYTES, self._run.now))
        elif move.phase == "Running" and move.remaining > 0:
            self._run.queue_events(
                self._run.world.copy(
                    move.name,
                    max(
                        0,
                        move.remaining
                        - self._run.rng.choice((0, DEFAULT_COPIED_BYTES * 2 // 5, DEFAULT_COPIED_BYTES * 3 // 5)),
                    ),
                    self._run.now,
                )
            )
        elif move.phase == "Running":
            self._run.queue_events(self._run.world.succeed(move.name))
        elif move.phase == "Succeeded":
            self._run.queue_events(self._run.world.delete_pod(move.source, self._run.now))

    def bind_target(self) -> None:
        """Reserve a node for a target pod.

        The plugin offers only the reserved node. For a foreign migration it offers any other node with capacity.
        """
        for move in self._run.world.migrations.values():
            pod = self._run.world.pods.get(move.target)
            known = self._run.state.moves.get(f"default/{move.name}")
            if pod is None or pod.node or pod.uid in self._run.reserved_nodes or pod.role is not Role.TARGET:
                continue
            if known is None or not known.alive or not self._run.state.started:
                continue
            source = self._run.state.pod(move.source)
            holds = self._run.world.pod(pod.uid).reserved
            if source is not None:
                holds = holds.maximum(source.reserved)
            node = known.target_node or self._run.random_fitting_node(holds, move.source_node)
            if not node or node not in self._run.state.nodes or node == known.source_node:
                continue
            seen = self._run.world.pod(pod.uid)
            room = self._run.state.margin(node, "")
            if known.target_node and not known.target_counted:
                room += known.amount
            if seen.counted_amount(holds).fits_within(room):
                self._run.reserved_nodes[pod.uid] = node
                self._run.step(PodReserved(seen, node))
                return
        self._bind_reserved_pods()

    def _bind_reserved_pods(self) -> None:
        """Bind a reserved pod, or drop its reservation."""
        for uid, node in list(self._run.reserved_nodes.items()):
            del self._run.reserved_nodes[uid]
            there = uid in self._run.world.pods and not self._run.world.pods[uid].node and node in self._run.world.nodes
            if there and self._run.rng.random() < 0.9:
                self._run.queue_events(self._run.world.bind(uid, node))
            else:
                self._run.step(PodUnreserved(uid))
            return

    def delete_a_migration(self) -> None:
        move = self._random_migration()
        if move is not None:
            self._run.queue_events(self._run.world.delete_migration(move.name, self._run.now))

    def fail_a_migration(self) -> None:
        move = self._random_migration()
        if move is not None and move.phase not in ("Succeeded", "Failed"):
            self._run.queue_events(self._run.world.fail(move.name, self._run.now))

    def migrate_by_hand(self) -> None:
        agent = self._agents.random_agent()
        if agent is not None and not any(move.machine == agent.machine for move in self._run.world.migrations.values()):
            self._run.queue_events(self._run.world.start_manual_migration(agent.machine, self._run.now))

    def refuse_a_target(self) -> None:
        """Let a scheduling cycle refuse the target node of a migration."""
        coming = [key for key, move in self._run.state.moves.items() if move.waits_for_its_target and move.target_node]
        if coming and self._run.state.started:
            key = self._run.rng.choice(coming)
            self._run.step(TargetRefused(key, self._run.state.moves[key].target_node, "it has a taint"))

    def bind_a_target_at_home(self) -> None:
        """Let another scheduler bind a target pod to the node that its VM should leave (N9)."""
        for move in self._run.world.migrations.values():
            pod = self._run.world.pods.get(move.target)
            if (
                pod is not None
                and not pod.node
                and pod.uid not in self._run.reserved_nodes
                and move.source_node in self._run.world.nodes
            ):
                self._run.happened["target bound at home"] += 1
                self._run.queue_events(self._run.world.bind(pod.uid, move.source_node))
                return
