"""Migrations in an interleaving: acts of their controller, of the scheduler and of others on them."""

from __future__ import annotations

from situate.sim.vm.world import COPIED, Migration
from situate.testing.vm.interleavings.agents import Agents
from situate.testing.vm.interleavings.ledger_run import Course
from situate.vm.model.events import PodReserved, PodUnreserved, TargetRefused
from situate.vm.model.pods_and_nodes import Phase, Role


class Moves:
    def __init__(self, course: Course, agents: Agents) -> None:
        self._course = course
        self._agents = agents

    def _migration(self) -> Migration | None:
        return (
            self._course.rng.choice(list(self._course.world.migrations.values()))
            if self._course.world.migrations
            else None
        )

    def migrate(self) -> None:
        move = self._migration()
        if move is not None:
            self.come_on(move)

    def come_on(self, move: Migration) -> None:
        """Advance a migration by one step of its controller, if possible."""
        if move.phase == "" and move.machine in self._course.world.machines and move.source in self._course.world.pods:
            vm = self._course.world.machines[move.machine]
            if vm.phase is Phase.RUNNING and vm.runs_in == move.source:
                self._course.seen(self._course.world.freeze(move.name))
        elif move.phase == "Pending" and self._course.world.pods[move.target].node == move.source_node:
            self._course.seen(self._course.world.fail(move.name, self._course.now))  # as `situate.vm.emulator` does
        elif move.phase == "Pending" and self._course.world.pods[move.target].node:
            self._course.seen(self._course.world.copy(move.name, COPIED, self._course.now))
        elif move.phase == "Running" and move.remaining > 0:
            self._course.seen(
                self._course.world.copy(
                    move.name,
                    max(0, move.remaining - self._course.rng.choice((0, COPIED * 2 // 5, COPIED * 3 // 5))),
                    self._course.now,
                )
            )
        elif move.phase == "Running":
            self._course.seen(self._course.world.succeed(move.name))
        elif move.phase == "Succeeded":
            self._course.seen(self._course.world.delete_pod(move.source, self._course.now))

    def bind_target(self) -> None:
        """Reserve a node for a target pod.

        The plugin offers only the reserved node. For a foreign migration it offers any other node with capacity.
        """
        for move in self._course.world.migrations.values():
            pod = self._course.world.pods.get(move.target)
            known = self._course.state.moves.get(f"default/{move.name}")
            if pod is None or pod.node or pod.uid in self._course.placed or pod.role is not Role.TARGET:
                continue
            if known is None or not known.alive or not self._course.state.started:
                continue
            source = self._course.state.pod(move.source)
            holds = self._course.world.pod(pod.uid).reserved
            if source is not None:
                holds = holds.most(source.reserved)
            node = known.target_node or self._course.room_for(holds, move.source_node)
            if not node or node not in self._course.state.nodes or node == known.source_node:
                continue
            seen = self._course.world.pod(pod.uid)
            room = self._course.state.margin(node, "")
            if known.target_node and not known.target_booked:
                room += known.amount
            if seen.counted(holds).within(room):
                self._course.placed[pod.uid] = node
                self._course.step(PodReserved(seen, node))
                return
        self._bind()

    def _bind(self) -> None:
        """Bind a reserved pod, or drop its reservation."""
        for uid, node in list(self._course.placed.items()):
            del self._course.placed[uid]
            there = (
                uid in self._course.world.pods
                and not self._course.world.pods[uid].node
                and node in self._course.world.nodes
            )
            if there and self._course.rng.random() < 0.9:
                self._course.seen(self._course.world.bind(uid, node))
            else:
                self._course.step(PodUnreserved(uid))
            return

    def delete_a_migration(self) -> None:
        move = self._migration()
        if move is not None:
            self._course.seen(self._course.world.delete_migration(move.name, self._course.now))

    def fail_a_migration(self) -> None:
        move = self._migration()
        if move is not None and move.phase not in ("Succeeded", "Failed"):
            self._course.seen(self._course.world.fail(move.name, self._course.now))

    def migrate_by_hand(self) -> None:
        agent = self._agents.agent()
        if agent is not None and not any(
            move.machine == agent.machine for move in self._course.world.migrations.values()
        ):
            self._course.seen(self._course.world.start_by_hand(agent.machine, self._course.now))

    def refuse_a_target(self) -> None:
        """Let a scheduling cycle refuse the target node of a migration."""
        coming = [
            key for key, move in self._course.state.moves.items() if move.waits_for_its_target and move.target_node
        ]
        if coming and self._course.state.started:
            key = self._course.rng.choice(coming)
            self._course.step(TargetRefused(key, self._course.state.moves[key].target_node, "it has a taint"))

    def bind_a_target_at_home(self) -> None:
        """Let another scheduler bind a target pod to the node that its VM should leave (N9)."""
        for move in self._course.world.migrations.values():
            pod = self._course.world.pods.get(move.target)
            if (
                pod is not None
                and not pod.node
                and pod.uid not in self._course.placed
                and move.source_node in self._course.world.nodes
            ):
                self._course.happened["target bound at home"] += 1
                self._course.seen(self._course.world.bind(pod.uid, move.source_node))
                return
