"""A ledger beside Kubernetes objects: pods and nodes are told as they read, and what is to be done is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from situate.objects.kinds import nodes, pods
from situate.vm.api.nodes import read_node
from situate.vm.api.pods import read_pod
from situate.vm.ledger.step import step
from situate.vm.model.actions import Action
from situate.vm.model.events import Event, InitialListCompleted, NodeObserved, PodObserved, WriteResult
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.policy import Rules
from situate.vm.model.state import LedgerState

A = TypeVar("A", bound=Action)


class Yard:
    """Started, with the objects that it is made with. Nothing is performed."""

    def __init__(self, *objects: nodes.Node | pods.Pod, rules: Rules = Rules()) -> None:  # noqa: B008  # frozen
        self.rules, self.now, self.state = rules, 1000.0, LedgerState()
        self.wake_at: float | None = None
        for each in objects:
            self.see(each)
        self.done = self.tell(InitialListCompleted())

    def tell(self, event: Event) -> list[Action]:
        decision = step(self.state, event, self.now, self.rules)
        self.state, self.wake_at, self.done = decision.state, decision.wake_at, list(decision.actions)
        return self.done

    def see(self, each: nodes.Node | pods.Pod) -> list[Action]:
        if isinstance(each, nodes.Node):
            node = read_node(each, self.rules).value
            assert node is not None
            return self.tell(NodeObserved(node))
        read = read_pod(each, self.rules).value
        assert read is not None
        return self.tell(PodObserved(read, each.spec.node_name))

    def answer(self, action: Action, outcome: str = "ok", reason: str = "") -> list[Action]:
        return self.tell(WriteResult(action, outcome, reason))

    def only(self, kind: type[A]) -> list[A]:
        """Of what the last event asked for."""
        return [each for each in self.done if isinstance(each, kind)]

    def pod(self, name: str) -> Pod:
        found = self.state.pod(f"uid-{name}")
        assert found is not None
        return found


def running(requests: Mapping[str, str], *conditions: Mapping[str, Any]) -> dict[str, Any]:
    """The status of a pod whose container `main` was allocated so much."""
    status = {"name": "main", "resources": {"requests": dict(requests)}, "allocatedResources": dict(requests)}
    return {"phase": "Running", "containerStatuses": [status], "conditions": list(conditions)}
