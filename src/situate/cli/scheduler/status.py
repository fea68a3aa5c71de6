"""Implement `situate scheduler status`: the requests on the nodes, and the reasons of pending Pods."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from situate.cli.read_cluster.cluster_source import listed_namespace
from situate.cli.read_cluster.other_namespaces import report_other_namespaces
from situate.cli.scheduler.cluster_state import SchedulerClusterState, UnreadablePod, observe
from situate.cli.scheduler.profiles import read_profiles
from situate.cli.terminal.failures import report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.options import ListedNamespaces, SourceOptions
from situate.cli.terminal.output import Column, print_answer, print_items
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_line
from situate.cli.terminal.watch import show_status
from situate.framework.cycle.cycle import PluginFailed
from situate.framework.engine.engine import Engine
from situate.framework.explain.compare import compare
from situate.framework.explain.explain import Question, gate_of
from situate.framework.pod.pods import BadPod
from situate.framework.pod.resources import CPU, EPHEMERAL, MEMORY
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.pods import Pod
from situate.objects.values.counts import format_count

_NODES: Final = (
    Column("node"),
    Column("state", lambda node: "cordoned" if node["cordoned"] else "tainted" if node["taints"] else "open"),
    Column("pods", lambda node: f"{node['pods']}/{node['podsAllowed']}", right=True),
    Column("cpu", lambda node: _share_text(node["requested"], CPU), right=True),
    Column("memory", lambda node: _share_text(node["requested"], MEMORY), right=True),
    Column("others", lambda node: _other_shares_text(node["requested"]), wide=True),
    Column("taints", lambda node: ", ".join(node["taints"]) or "-", wide=True),
)
_PODS: Final = (
    Column("pod"),
    Column("priority", right=True),
    Column("scheduler", "schedulerName", wide=True),
    Column("answer", lambda pod: f"gated by {pod['gate']}" if pod["gate"] else _answer_text(pod)),
)
_MAX_ROWS: Final = 40
"""Number of nodes, and of Pods, that a table shows; `-o wide` shows all. The fullest nodes come first."""


def show(
    profile: Path | None, where: SourceOptions, namespaces: ListedNamespaces, output: Format, *, watch: bool
) -> None:
    """Print the status, with `watch` again at each change."""

    def once() -> None:
        with report_failures():
            profiles = read_profiles(profile).without_extenders()
            listed = listed_namespace(where, namespaces)
            world = observe(where)
            pending = [each for each in world.pending_pods if listed in (None, each.metadata.namespace)]
            unread = [each for each in world.unreadable_pending_pods if listed in (None, each.namespace)]
            others = len(world.pending_pods) + len(world.unreadable_pending_pods) - len(pending) - len(unread)
            engine = world.engine(
                profiles, [pod for pod in pending if profiles.has_profile_for(pod.spec.scheduler_name)]
            )
            with progress("running the plugins"):
                nodes = _nodes_data(world, engine.snapshot)
                pods = [*_placement_answers(engine, pending), *map(_answer_for_unreadable, unread)]
        data = {"nodes": nodes, "pending": pods, "remarks": world.remarks.sentences}
        print_answer(output, lambda: data, lambda: _print(nodes, pods, others, listed, output), world.remarks.sentences)

    show_status(once, output, watch=watch)


def _nodes_data(world: SchedulerClusterState, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the nodes, the fullest first: sorted by the largest requested share of a resource."""
    names = snapshot.nodes.vocabulary.resources.names
    found = []
    for index, name in enumerate(snapshot.nodes.names):
        parts = {}
        for column, resource in enumerate(names):
            room = int(snapshot.allocatable(column)[index])
            if room:
                parts[resource] = round(int(snapshot.requested(column)[index]) / room, 4)
        node = world.stores.nodes.get(name)
        assert node is not None
        found.append(
            {
                "node": name,
                "cordoned": node.spec.unschedulable,
                "taints": [
                    f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}" for taint in node.spec.taints
                ],
                "pods": int(snapshot.pod_count[index]),
                "podsAllowed": int(snapshot.allowed_pods[index]),
                "requested": parts,
            }
        )
    return sorted(found, key=lambda each: (-max(each["requested"].values(), default=0.0), each["node"]))


def _placement_answers(engine: Engine, pods: Sequence[Pod]) -> list[dict[str, Any]]:
    """Return the node of each Pod alone, or the reason why it gets none.

    Pods that are equal for all plugins share an answer.
    """
    known: dict[tuple[object, ...], dict[str, str]] = {}
    answers = []
    for pod in pods:
        key = _equivalence_key(engine, pod)
        if key not in known:
            known[key] = _answer_for(engine, pod)
        answers.append(
            {
                "pod": f"{pod.metadata.namespace}/{pod.metadata.name}",
                "priority": pod.spec.priority or 0,
                "schedulerName": pod.spec.scheduler_name,
                "nominatedNode": pod.status.nominated_node_name,
                **known[key],
            }
        )
    return answers


def _equivalence_key(engine: Engine, pod: Pod) -> tuple[object, ...]:
    waiting = engine.queue.get(pod.metadata.uid)
    if waiting is None:  # the Pod cannot be read
        return (pod.metadata.uid,)
    info = waiting.info
    shared = id(info.template), id(info.labels), id(info.spread)
    return (*shared, info.volumes, info.priority, info.nominated, pod.spec.scheduling_gates)


def _answer_for_unreadable(pod: UnreadablePod) -> dict[str, Any]:
    return {
        "pod": f"{pod.namespace}/{pod.name}",
        "priority": 0,
        "schedulerName": "",
        "nominatedNode": "",
        "node": "",
        "gate": "",
        "message": pod.problem,
    }


def _answer_for(engine: Engine, pod: Pod) -> dict[str, str]:
    if pod.spec.scheduler_name not in engine.profiles:
        return {"node": "", "gate": "", "message": f"no profile for scheduler {pod.spec.scheduler_name}"}
    try:
        question = Question.of(engine, pod)
        gate, found = gate_of(question), compare(question, "")
    except (BadPod, PluginFailed) as problem:
        return {"node": "", "gate": "", "message": str(problem)}
    gated = "" if gate is None else f"{gate.plugin}: {gate.message}"
    return {"node": found.ours, "gate": gated, "message": found.message}


def _print(
    nodes: list[dict[str, Any]], pods: list[dict[str, Any]], others: int, listed: str | None, form: Format
) -> None:
    cordoned = sum(each["cordoned"] for each in nodes)
    print_line(f"{format_count(len(nodes), 'node')}, {cordoned} cordoned; {format_count(len(pods), 'pod')} pending")
    shown = nodes if form is Format.WIDE else nodes[:_MAX_ROWS]
    if shown:
        print_items(_NODES, shown, form)
    if len(shown) < len(nodes):
        print_line(f"and {format_count(len(nodes) - len(shown), 'node')} with less requested; -o wide shows all")
    waiting = pods if form is Format.WIDE else pods[:_MAX_ROWS]
    if waiting:
        print_line()
        print_items(_PODS, waiting, form)
    if len(waiting) < len(pods):
        print_line(f"and {format_count(len(pods) - len(waiting), 'pod')} more; -o wide shows all")
    report_other_namespaces(others, "pending Pod", listed)


def _share_text(parts: dict[str, float], resource: str) -> str:
    return f"{parts[resource]:.0%}" if resource in parts else "-"


def _other_shares_text(parts: dict[str, float]) -> str:
    return (
        ", ".join(f"{name} {part:.0%}" for name, part in parts.items() if name not in (CPU, MEMORY, EPHEMERAL)) or "-"
    )


def _answer_text(pod: dict[str, Any]) -> str:
    if pod["message"]:
        return f"waits for {pod['nominatedNode']}" if pod["nominatedNode"] else str(pod["message"])
    return f"would go to {pod['node']}"
