"""End every fault of a history, and wait until the consequences are over."""

from __future__ import annotations

from typing import Any

from situate.kube.watch.reflector import Reflector
from situate.testing.vpod import history as steps
from situate.testing.vpod.invariants.rules import VpodWatchdog
from situate.testing.vpod.world.world import GROUPS, NAMESPACE, VPodMember, VPodWorld
from situate.vpod.model.pod_classes import Cause

RECOVERY_S = 60.0
"""Seconds after the last fault within which the timing of promises must begin, or it does not begin at all.

It begins when a leader knows the whole cluster again. A leader reads everything again after 30 s.
"""


def recover(world: VPodWorld, watchdog: VpodWatchdog) -> bool:
    """End every fault and wait for recovery. Return whether the promises are timed from now on."""
    end_faults(world)
    end = world.now + RECOVERY_S
    while not begin_timing_if_recovered(world, watchdog):
        if world.now > end:
            return False
        world.let_pass(2.0)
        watchdog.check()
    return True


def end_faults(world: VPodWorld) -> None:
    record_late_events(world)
    world.process_faults.heal()
    world.process_faults.cancel_acts_at_answers()
    set_nodes_full(world, held=False)
    restore_nodes(world)
    for pod in world.pod_objects():
        if pod["metadata"].get("annotations"):
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
            annotations = {"eventing.knative.dev/unschedulable": None}
            world.call("PATCH", path, {"metadata": {"annotations": annotations}}, patch=True)


def record_late_events(world: VPodWorld) -> None:
    """Record that a storm ends. Delayed events may still be on their way, with all later ones of their connection."""
    world.late_until = max(world.late_until, world.now + world.network.faults.event_delay_s)


def begin_timing_if_recovered(world: VPodWorld, watchdog: VpodWatchdog) -> bool:
    """Begin to time the promises if a leader knows the whole cluster, all pods accept and no write is being retried."""
    member = world.leader()
    state = member.controller.reconciler.state if member is not None else None
    if member is None or state is None or world.now <= world.late_until or state.causes[Cause.NONE] != state.replicas:
        return False
    if any(member.controller.queue.failures(key) for key in state.vpods) or not _knows_all(world, member):
        return False
    watchdog.liveness.begin_timing(member)
    return True


def _knows_all(world: VPodWorld, member: VPodMember) -> bool:
    """Return whether the process has seen all objects on the server and does not wait for a lost answer."""
    watched, store, wire = member.controller.informers, world.cluster.api.store, world.wires[member.identity]
    if wire.pending_calls or wire.watches < len([*watched.reflectors()]):
        return False
    tables: dict[str, Reflector[Any]] = {
        "statefulsets.apps": watched.statefulset,
        "pods": watched.pods,
        "nodes": watched.nodes,
        GROUPS: watched.sources[0].reflector,
    }
    for name, reflector in tables.items():
        objects = store.table(name).objects
        if len(reflector.store) != len(objects):
            return False
        for key, stored in objects.items():
            namespace, _, short = key.rpartition("/")
            known = reflector.store.get(short, namespace)
            if known is None or known.metadata.resource_version != str(stored.revision):
                return False
    return True


def set_nodes_full(world: VPodWorld, *, held: bool) -> bool:
    """Fill all nodes for new pods, or free them. Return whether that changed anything."""
    taints = [{"key": "test/full", "effect": "NoSchedule"}] if held else None
    news = False
    for number in range(steps.NODES):
        # other taints of the node come and go by themselves
        if world.node(number)["spec"].get("taints") != taints:
            world.call("PATCH", f"/api/v1/nodes/node-{number}", {"spec": {"taints": taints}}, patch=True)
            news = True
    return news


def restore_nodes(world: VPodWorld) -> bool:
    """Make every node healthy and schedulable. Return whether that changed any node."""
    news = bool(world.lost_nodes)
    for node in sorted(world.lost_nodes):
        world.cluster.machinery.start_kubelet(f"node-{node}")
    world.lost_nodes.clear()
    for number in range(steps.NODES):
        name = f"node-{number}"
        if world.node(number)["spec"].get("unschedulable"):
            world.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}}, patch=True)
            news = True
    world.plan_step()
    return news
