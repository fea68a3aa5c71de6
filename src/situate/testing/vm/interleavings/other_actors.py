"""Third parties in an interleaving: they bind, shrink, cordon, evict and delete."""

from __future__ import annotations

from dataclasses import replace

from situate.testing.vm.interleavings.agents import InterleavingAgents
from situate.testing.vm.interleavings.interleaving_world import IGNORED, equal_amounts
from situate.testing.vm.interleavings.ledger_run import LedgerRun
from situate.vm.model.events import NodeObserved, NodeRemoved, PodReserved
from situate.vm.model.pods_and_nodes import Evacuation


class OtherActorSteps:
    def __init__(self, course: LedgerRun, agents: InterleavingAgents) -> None:
        self._run = course
        self._agents = agents

    def place_pod(self) -> None:
        size = equal_amounts(self._run.rng.randint(1, 3))
        node = self._run.random_fitting_node(size) if self._run.state.started and len(self._run.world.pods) < 16 else ""
        if node in self._run.world.nodes:
            uid = f"p{self._run.world.created_count}"
            self._run.world.created_count += 1
            self._run.world.add_pod(uid, size, node)
            self._run.step(PodReserved(self._run.world.pod(uid), node))
            self._run.queue_events([self._run.world.pod_event(uid)])

    def bind_behind_our_back(self) -> None:
        if self._run.world.nodes:
            uid = f"{self._run.rng.choice(('q', 'q', IGNORED))}{self._run.world.created_count}"
            self._run.world.created_count += 1
            size, node = (equal_amounts(self._run.rng.randint(1, 3)), self._run.rng.choice(list(self._run.world.nodes)))
            self._run.queue_events([self._run.world.add_pod(uid, size, node)])

    def delete_something(self) -> None:
        uids = [uid for uid in self._run.world.pods if uid not in self._run.reserved_nodes]
        plain = [uid for uid in uids if not self._run.world.pods[uid].machine]
        if uids:
            uid = self._run.rng.choice(plain if plain and self._run.rng.random() < 0.7 else uids)
            self._run.queue_events(self._run.world.delete_pod(uid, self._run.now))

    def resize_a_node(self) -> None:
        if self._run.world.nodes:
            node = self._run.world.nodes[self._run.rng.choice(list(self._run.world.nodes))]
            total = equal_amounts(max(6, node.total.cpu + self._run.rng.choice((-2, 2))))
            self._run.queue_events([self._run.world.add_node(node.name, total, node.watermark.minimum(total))])

    def lose_a_node(self) -> None:
        """Remove a node for a moment."""
        if self._run.rng.random() < 0.3 and self._run.world.nodes:
            node = self._run.world.nodes[self._run.rng.choice(list(self._run.world.nodes))]
            self._run.queue_events([NodeRemoved(node.name), NodeObserved(node)])

    def cordon_a_node(self) -> None:
        """Cordon a node, or uncordon it."""
        if self._run.world.nodes:
            name = self._run.rng.choice(list(self._run.world.nodes))
            self.cordon(name, self._run.world.nodes[name].schedulable)

    def cordon(self, name: str, cordoned: bool) -> None:
        node = self._run.world.nodes[name] = replace(self._run.world.nodes[name], schedulable=not cordoned)
        self._run.queue_events([NodeObserved(node)])

    def evict_a_machine(self) -> None:
        """Request an eviction of a VM's pod. The VM is marked to leave its node instead (B48)."""
        agent = self._agents.random_agent()
        if agent is not None:
            runs_in = self._run.world.machines[agent.machine].runs_in
            self._run.world.evacuations[agent.machine] = Evacuation(self._run.world.pods[runs_in].node, self._run.now)
            self._run.queue_events([self._run.world.pod_event(runs_in)])
