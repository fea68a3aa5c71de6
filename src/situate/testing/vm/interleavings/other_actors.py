"""Third parties in an interleaving: they bind, shrink, cordon, evict and delete."""

from __future__ import annotations

from dataclasses import replace

from situate.testing.vm.interleavings.agents import Agents
from situate.testing.vm.interleavings.interleaving_world import IGNORED, both
from situate.testing.vm.interleavings.ledger_run import Course
from situate.vm.model.events import NodeGone, NodeSeen, PodReserved
from situate.vm.model.pods_and_nodes import Evacuation


class Others:
    def __init__(self, course: Course, agents: Agents) -> None:
        self._course = course
        self._agents = agents

    def place(self) -> None:
        size = both(self._course.rng.randint(1, 3))
        node = self._course.room_for(size) if self._course.state.started and len(self._course.world.pods) < 16 else ""
        if node in self._course.world.nodes:
            uid = f"p{self._course.world.made}"
            self._course.world.made += 1
            self._course.world.add_pod(uid, size, node)
            self._course.step(PodReserved(self._course.world.pod(uid), node))
            self._course.seen([self._course.world.seen(uid)])

    def bind_behind_our_back(self) -> None:
        if self._course.world.nodes:
            uid = f"{self._course.rng.choice(('q', 'q', IGNORED))}{self._course.world.made}"
            self._course.world.made += 1
            size, node = both(self._course.rng.randint(1, 3)), self._course.rng.choice(list(self._course.world.nodes))
            self._course.seen([self._course.world.add_pod(uid, size, node)])

    def delete_something(self) -> None:
        uids = [uid for uid in self._course.world.pods if uid not in self._course.placed]
        plain = [uid for uid in uids if not self._course.world.pods[uid].machine]
        if uids:
            uid = self._course.rng.choice(plain if plain and self._course.rng.random() < 0.7 else uids)
            self._course.seen(self._course.world.delete_pod(uid, self._course.now))

    def resize_a_node(self) -> None:
        if self._course.world.nodes:
            node = self._course.world.nodes[self._course.rng.choice(list(self._course.world.nodes))]
            total = both(max(6, node.total.cpu + self._course.rng.choice((-2, 2))))
            self._course.seen([self._course.world.add_node(node.name, total, node.watermark.least(total))])

    def lose_a_node(self) -> None:
        """Remove a node for a moment."""
        if self._course.rng.random() < 0.3 and self._course.world.nodes:
            node = self._course.world.nodes[self._course.rng.choice(list(self._course.world.nodes))]
            self._course.seen([NodeGone(node.name), NodeSeen(node)])

    def cordon_a_node(self) -> None:
        """Cordon a node, or uncordon it."""
        if self._course.world.nodes:
            name = self._course.rng.choice(list(self._course.world.nodes))
            self.cordon(name, self._course.world.nodes[name].schedulable)

    def cordon(self, name: str, cordoned: bool) -> None:
        node = self._course.world.nodes[name] = replace(self._course.world.nodes[name], schedulable=not cordoned)
        self._course.seen([NodeSeen(node)])

    def evict_a_machine(self) -> None:
        """Request an eviction of a VM's pod. The VM is marked to leave its node instead (B48)."""
        agent = self._agents.agent()
        if agent is not None:
            runs_in = self._course.world.machines[agent.machine].runs_in
            self._course.world.evacuations[agent.machine] = Evacuation(
                self._course.world.pods[runs_in].node, self._course.now
            )
            self._course.seen([self._course.world.seen(runs_in)])
