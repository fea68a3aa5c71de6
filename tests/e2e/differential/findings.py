"""What long runs beside kube-scheduler have found: each the least cluster that shows it, with kube-scheduler's answer.

Both sides are asked: ours in every run of the tests, and kube-scheduler 1.36.3, so that the answers here are its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.e2e.differential.api import Object
from tests.e2e.differential.extenders import ASKED, JUDGE
from tests.e2e.differential.objects import NAMESPACES, Cluster
from tests.e2e.differential.theirs import Theirs

_NAMESPACE = NAMESPACES[0]


@dataclass(frozen=True, slots=True)
class Finding:
    """A question, and kube-scheduler's answer."""

    name: str
    nodes: tuple[Object, ...]
    pod: Object
    theirs: Theirs
    in_place: tuple[Object, ...] = ()
    """Pods."""
    others: Cluster = field(default_factory=dict)

    @property
    def cluster(self) -> Cluster:
        pods = [
            {**pod, "metadata": {**pod["metadata"], "uid": f"in-place-{number}"}}
            for number, pod in enumerate(self.in_place)
        ]
        return {
            "namespaces": [{"metadata": {"name": _NAMESPACE}}],
            "nodes": list(self.nodes),
            "pods": pods,
            **self.others,
        }


def _node(name: str, cpu: str = "4", memory: str = "4Gi", **labels: str) -> Object:
    """Every pod may ask extenders there."""
    room = {"cpu": cpu, "memory": memory, "pods": "10", **dict.fromkeys(ASKED, "10")}
    return {"metadata": {"name": name, "labels": labels}, "status": {"capacity": room, "allocatable": room}}


def _pod(
    name: str = "new", on: str = "", *, cpu: str = "", memory: str = "", status: Any = None, **spec: Any
) -> Object:
    """One container, with requests if any; `spec` may say more, or something else."""
    requests = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    container = {"name": "main", "image": "none", **({"resources": {"requests": requests}} if requests else {})}
    return {
        "metadata": {"name": name, "namespace": _NAMESPACE, "uid": name},
        "spec": {
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **({"nodeName": on} if on else {}),
            **spec,
        },
        "status": status or {},
    }


def _labelled(pod: Object, **metadata: Any) -> Object:
    return {**pod, "metadata": {**pod["metadata"], **metadata}}


def _named_thing(name: str, spec: Object) -> Object:
    return {"metadata": {"name": name, "namespace": _NAMESPACE}, "spec": spec}


def _named(*terms: list[str]) -> Object:
    """Required node affinity: one of the terms, each of which names all of these nodes."""
    wire = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]}
        for names in terms
    ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": wire}}}


def _preferring(operator: str, value: str) -> Object:
    expression = {"key": "size", "operator": operator, "values": [value]}
    wish = {"weight": 1, "preference": {"matchExpressions": [expression]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}


_JUDGED = "a"
"""A node that judge refuses for now."""
_ASKING: Object = {
    "name": "main",
    "image": "none",
    "resources": {"requests": {"cpu": "1", JUDGE: "1"}, "limits": {JUDGE: "1"}},
}
_OWNED: Object = {
    "labels": {"app": "a"},
    "ownerReferences": [
        {"apiVersion": "v1", "kind": "ReplicationController", "name": "web", "uid": "u", "controller": True}
    ],
}
_UNREADABLE = (
    "[0].matchExpressions[0].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"
)

FINDINGS = (
    Finding(
        "a node that a pod names and nobody knows leaves all others refused, one by one (RunPreFilterPlugins)",
        (_node("a"), _node("b")),
        _pod(affinity=_named(["nobody"])),
        Theirs(
            "",
            "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims to deallocate, "
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
        ),
    ),
    Finding(
        "terms that name two nodes at once refuse the pod as a whole (node_affinity.go PreFilter)",
        (_node("a"), _node("b")),
        _pod(affinity=_named(["a", "b"])),
        Theirs("", "0/2 nodes are available: pod affinity terms conflict. not found"),
    ),
    Finding(
        "a preference that cannot be read fails the pod where there is a choice (node_affinity.go PreScore)",
        (_node("a"), _node("b")),
        _pod(affinity=_preferring("Gt", "x")),
        Theirs("", f'running PreScore plugin "NodeAffinity": {_UNREADABLE}'),
    ),
    Finding(
        "and is not looked at where there is none",
        (_node("a"),),
        _pod(affinity=_preferring("Gt", "x")),
        Theirs("a", ""),
    ),
    Finding(
        "a node that the pod evens out is better than one that is even already (kubernetes#135573, since 1.36)",
        (_node("even"), _node("uneven")),
        _pod(cpu="1"),
        Theirs("uneven", ""),
        (_pod("there", "uneven", memory="2Gi"), _pod("here", "even", cpu="1", memory="1Gi")),
    ),
    Finding(
        "requests of a pod as a whole make room scarce, but NodeResourcesFit scores by its containers (fit.go NewFit)",
        (_node("full", cpu="4", memory="2Gi"), _node("empty", cpu="2", memory="4Gi")),
        _pod(resources={"requests": {"cpu": "2"}}),
        Theirs("full", ""),
        (_pod("there", "empty", cpu="0", memory="2Gi"),),
    ),
    Finding(
        "reasons of a promised node are those with the pod that it is promised to (RunFilterPluginsWithNominatedPods)",
        (_node("a", cpu="2", memory="2Gi"),),
        _pod(cpu="1", memory="3Gi", preemptionPolicy="Never"),
        Theirs(
            "",
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. no new claims to deallocate, "
            "preemption: not eligible due to preemptionPolicy=Never.",
        ),
        (
            _pod(
                "promised", cpu="2", status={"nominatedNodeName": "a"}, schedulingGates=[{"name": "example.com/later"}]
            ),
        ),
    ),
    Finding(
        "an empty selector of a spread constraint counts no pod but those of promises (filtering.go updateWithPod)",
        (_node("a", **{"kubernetes.io/hostname": "a"}),),
        _pod(
            preemptionPolicy="Never",
            topologySpreadConstraints=[
                {
                    "maxSkew": 1,
                    "minDomains": 2,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {},
                }
            ],
        ),
        Theirs(
            "",
            "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints. "
            "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.",
        ),
        (_pod("promised", status={"nominatedNodeName": "a"}, schedulingGates=[{"name": "example.com/later"}]),),
    ),
    Finding(
        "nobody is ended on a node that only an extender refused (DryRunPreemption)",
        (_node(_JUDGED),),
        _pod(priority=10, containers=[_ASKING]),
        Theirs(
            "",
            f"0/1 nodes are available: 1 judge: not today. "
            f'preemption: expected at least one victim pod on node "{_JUDGED}"',
        ),
        (_pod("there", _JUDGED, cpu="1"),),
    ),
    Finding(
        "labels of a ReplicationController go before those of services where pods are spread by default (spread.go)",
        (_node("a", **{"kubernetes.io/hostname": "a"}), _node("b", **{"kubernetes.io/hostname": "b"})),
        _labelled(_pod(), **_OWNED),
        Theirs("b", ""),
        (_labelled(_pod("like", "a"), labels={"app": "b"}), _pod("load", "b", cpu="1")),
        {
            "services": [
                _named_thing("web", {"clusterIP": "None", "ports": [{"port": 80}], "selector": {"app": "a"}}),
            ],
            "replicationcontrollers": [
                _named_thing(
                    "web",
                    {
                        "replicas": 0,
                        "selector": {"app": "b"},
                        "template": {
                            "metadata": {"labels": {"app": "b"}},
                            "spec": {"containers": [{"name": "main", "image": "none"}]},
                        },
                    },
                )
            ],
        },
    ),
)
