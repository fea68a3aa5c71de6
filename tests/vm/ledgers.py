"""A scheduler's engine with the ledger's plugin, without any shell: what the watches would tell both, a test tells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from situate.framework.engine.decisions import Decision, Placed, PlacedRun
from situate.framework.engine.engine import Engine
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds import nodes, pods
from situate.vm.api.nodes import read_node
from situate.vm.api.pods import pod_from_requests, read_pod
from situate.vm.backends.systems import NEONVM
from situate.vm.controller.setup import VmSetup, scheduler_setup
from situate.vm.ledger.ledger import Ledger
from situate.vm.model.events import InitialListCompleted, NodeObserved, PodObserved, PodRemoved
from situate.vm.model.migrations import Claim, Move
from situate.vm.model.policy import Rules
from situate.vm.placement.plugin import VirtualMachines


class Bench:
    """Nodes and pods are told to the ledger first, as the shell does."""

    def __init__(self, rules: Rules, seed: int = 1) -> None:
        self.leads = True
        self.now = 1000.0
        self.rules = rules
        self.ledger = Ledger(rules, lambda: self.now, lambda: self.leads)
        self.plugin = VirtualMachines(self.ledger, NEONVM, lambda each: read_pod(each, rules), seed)
        self.engine = Engine(scheduler_setup(VmSetup(rules), self.plugin).profiles)

    def add(self, *objects: nodes.Node | pods.Pod) -> None:
        for each in objects:
            if isinstance(each, nodes.Node):
                seen = read_node(each, self.rules)
                if seen.value is not None:
                    self.ledger.apply(NodeObserved(seen.value))
                self.engine.set_node(each, self.now)
            else:
                node = each.spec.node_name
                if node and each.metadata.namespace not in self.rules.ignored_namespaces:
                    read = read_pod(each, self.rules).value or pod_from_requests(each, self.rules)
                    self.ledger.apply(PodObserved(read, node))
                self.engine.set_pod(each, self.now)

    def listed(self) -> None:
        self.ledger.apply(InitialListCompleted())

    def remove(self, pod: pods.Pod) -> None:
        self.ledger.apply(PodRemoved(pod.metadata.uid))
        self.engine.remove_pod(pod.metadata.uid, self.now)

    def hold(self, claims: Iterable[Claim] = (), moves: Iterable[Move] = ()) -> None:
        """Puts claims and moves into the ledger as they are."""
        self.ledger.state = replace(
            self.ledger.state,
            claims={**self.ledger.state.claims, **{each.id: each for each in claims}},
            moves={**self.ledger.state.moves, **{each.key: each for each in moves}},
        )

    def decide(self) -> list[Decision]:
        """Of every pod that waits; placements are not bound."""
        decisions: list[Decision] = []
        while found := self.engine.schedule_run(self.now, 100):
            for each in found:
                assert not isinstance(each, PlacedRun), "the ledger books one pod after the other"
                decisions.append(each)  # type: ignore[arg-type]  # there are no extenders to ask
        return decisions

    def place(self) -> dict[str, str]:
        """Where pods go, by name."""
        return {each.pod.info.name: each.node for each in self.decide() if isinstance(each, Placed)}

    @property
    def snapshot(self) -> Snapshot:
        return self.engine.cache.snapshot()
