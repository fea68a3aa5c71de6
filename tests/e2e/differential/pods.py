"""Random pods. Each has a theme, what it is hard to please about, and a little of everything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from tests.e2e.differential.api import Object
from tests.e2e.differential.configuration import GPU, IGNORED, SCHEDULERS
from tests.e2e.differential.drawing import HOSTNAME, IMAGES, KEYS, ZONE, Draw
from tests.e2e.differential.extenders import ASKED, BREAKING, JUDGE, SURVEYOR, TASTER
from tests.e2e.differential.objects import NAMESPACES
from tests.e2e.differential.volumes import draw_volumes


class Theme(Enum):
    """What most of a pod is about."""

    PLAIN = "plain"
    UNEVEN = "uneven"
    ROOM = "room"
    TAINTS = "taints"
    NODES = "nodes"
    PREFERENCES = "preferences"
    NAMES = "names"
    PORTS = "ports"
    SPREAD = "spread"
    DEFAULT_SPREAD = "default spread"
    NEIGHBOURS = "neighbours"
    IMAGES = "images"
    FEATURES = "features"
    GATES = "gates"
    PRIORITY = "priority"
    VOLUMES = "volumes"
    ASKING = "asking"
    """Extenders."""
    IN_PLACE = "in place"
    """Pods that others meet on nodes."""
    PROMISED = "promised"
    """Pods that others meet among the promises."""


_OFTEN = {
    Theme.PLAIN: 1,
    Theme.UNEVEN: 24,
    Theme.ROOM: 2,
    Theme.TAINTS: 2,
    Theme.NODES: 2,
    Theme.PREFERENCES: 4,
    Theme.NAMES: 2,
    Theme.PORTS: 4,
    Theme.SPREAD: 9,
    Theme.DEFAULT_SPREAD: 3,
    Theme.NEIGHBOURS: 4,
    Theme.IMAGES: 1,
    Theme.FEATURES: 7,
    Theme.GATES: 2,
    Theme.PRIORITY: 9,
    Theme.VOLUMES: 22,  # four plugins share them
    Theme.ASKING: 20,
}
INCOMING = tuple(theme for theme, often in _OFTEN.items() for _ in range(often))
_CLAIMING = {Theme.VOLUMES: 1.0, Theme.PRIORITY: 0.2, Theme.IN_PLACE: 0.35, Theme.PROMISED: 0.0}
"""How many have volumes."""

_LONG_S = 3600
"""Longer than any test."""
_PRIORITIES = {Theme.PRIORITY: (50, 100, 1000), Theme.VOLUMES: (0, 10, 1000)}

_EASY = (
    Theme.UNEVEN,
    Theme.PREFERENCES,
    Theme.FEATURES,
    Theme.VOLUMES,
    Theme.SPREAD,
    Theme.DEFAULT_SPREAD,
    Theme.ASKING,
)
"""Most of these tolerate everything and ask for little, so that it is their theme that decides."""
_NARROW = (Theme.PORTS, Theme.SPREAD, Theme.NEIGHBOURS, Theme.FEATURES, Theme.VOLUMES, Theme.ASKING)
"""Some of these look at few nodes only, or one of all nodes would do nearly always."""

Claims = Sequence[tuple[str, str]]
"""Namespace and name of each in the cluster."""


def draw_pod(draw: Draw, name: str, theme: Theme, claims: Claims = ()) -> Object:
    """As a client posts it; the server takes all that is drawn here. `claims`: those that it may use."""
    scheduler = (
        draw.one((SCHEDULERS[0], *SCHEDULERS)) if theme not in (Theme.IN_PLACE, Theme.PROMISED) else SCHEDULERS[0]
    )
    spec: Object = {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": draw.one((0, _LONG_S)),
        "containers": [_container(draw, f"main-{number}", theme) for number in range(draw.one((1, 1, 2)))],
    }
    if draw.chance(0.25):
        spec["initContainers"] = [_init_container(draw, f"init-{number}", theme) for number in range(draw.number(1, 2))]
    spec |= draw.maybe(0.1, "overhead", lambda: _amounts(draw, {"cpu": ("50m",), "memory": ("1Mi",)}, 0.8))
    if draw.chance(0.12):
        _as_a_whole(draw, spec)
    spec["priority"] = draw.one(_PRIORITIES.get(theme, (0, 0, 10, 100)))
    spec |= draw.maybe(0.05, "preemptionPolicy", lambda: "Never")
    _about_nodes(draw, spec, theme)
    _about_pods(draw, spec, theme)
    _about_the_host(draw, spec, theme)
    if draw.chance({Theme.ASKING: 1.0, Theme.PRIORITY: 0.5}.get(theme, 0.0)):
        _ask_for_extenders(draw, spec)
    namespace = draw.one((*NAMESPACES, *NAMESPACES[:1] * 3))
    if claims and draw.chance(_CLAIMING.get(theme, 0.02)):
        namespace, _ = draw.one(claims)
        volumes = draw_volumes(draw, [claim for where, claim in claims if where == namespace])
        spec["volumes"] = volumes
    if theme is Theme.GATES:
        spec["schedulingGates"] = [{"name": f"example.com/gate-{number}"} for number in range(draw.number(1, 2))]
    labels = draw.labels() | ({"app": "a"} if theme is Theme.SPREAD else {})
    metadata: Object = {"name": name, "namespace": namespace, "labels": labels}
    if draw.chance(0.7 if theme is Theme.DEFAULT_SPREAD else 0.3):
        metadata["ownerReferences"] = [_owner(draw)]
    return {"metadata": metadata, "spec": spec}


def _owner(draw: Draw) -> Object:
    kind = draw.one(("ReplicationController", "ReplicaSet", "StatefulSet", "Job"))
    version = {"ReplicationController": "v1", "Job": "batch/v1"}.get(kind, "apps/v1")
    return {"apiVersion": version, "kind": kind, "name": "web", "uid": "u", "controller": True}


# What it asks for

_SMALL = {"cpu": ("0", "100m", "250m", "500m"), "memory": ("0", "64Mi", "300Mi", "1Gi"), "ephemeral-storage": ("1Mi",)}
_EVEN = {"cpu": ("100m", "250m", "500m", "1"), "memory": ("64Mi", "300Mi", "1Gi", "2Gi")}
_LARGE = {"cpu": ("1", "1900m", "3", "7"), "memory": ("1Gi", "3Gi", "15Gi"), "ephemeral-storage": ("2Gi", "10Gi")}
_SPECIAL = {GPU: ("1", "2", "4"), IGNORED: ("1", "2"), "hugepages-2Mi": ("4Mi", "32Mi")}


def _amounts(draw: Draw, choices: Mapping[str, Sequence[str]], chance: float) -> dict[str, str]:
    return {name: draw.one(texts) for name, texts in choices.items() if draw.chance(chance)}


def _container(draw: Draw, name: str, theme: Theme) -> Object:
    large = draw.chance({Theme.ROOM: 0.7, Theme.PRIORITY: 0.8}.get(theme, 0.05))
    choices = _LARGE if large else _EVEN if theme is Theme.PLAIN else _SMALL
    requests = _amounts(draw, choices, 0.9 if theme is Theme.PLAIN else 0.6 if large else 0.45)
    special = _amounts(
        draw, _SPECIAL, 0.3 if theme in (Theme.ROOM, Theme.PRIORITY) else 0.0 if theme in _EASY else 0.04
    )
    if theme is Theme.UNEVEN:
        requests = draw.one(({"cpu": draw.one(("500m", "1", "2"))}, {"memory": draw.one(("1Gi", "2Gi", "3Gi"))}))
    elif theme in _EASY:
        requests = _amounts(draw, {"cpu": ("0", "100m"), "memory": ("64Mi",)}, 0.4)
    if special:
        requests.setdefault("cpu", "100m")  # huge pages alone are refused
    container: Object = {
        "name": name,
        "image": draw.one((*(image.removesuffix(":latest") for image in IMAGES), "none")),
    }
    if theme is Theme.UNEVEN:
        container["image"] = "none"
    if theme is Theme.IMAGES:
        container["image"] = draw.one(list(IMAGES)).removesuffix(":latest")
    resources: Object = {}
    if requests or special:
        resources["requests"] = requests | special
    if special:
        resources["limits"] = special
    elif draw.chance(0.1):
        resources = {"limits": {"cpu": "7", "memory": "15Gi", **requests}, **resources}
    if resources:
        container["resources"] = resources
    ports = _ports(draw) if draw.chance(0.9 if theme is Theme.PORTS else 0.08) else []
    if ports:
        container["ports"] = ports
    return container


def _ask_for_extenders(draw: Draw, spec: Object) -> None:
    """By what one of its containers wants. No room is made for pods of those who might refuse it then."""
    asked = draw.some((JUDGE, JUDGE, TASTER, TASTER, *ASKED), 1, 2)
    container = draw.one(spec["containers"])
    resources = container.setdefault("resources", {})
    requests = resources.setdefault("requests", {"cpu": "100m"})
    limits = resources.setdefault("limits", {})
    for resource in asked:
        requests[resource] = limits[resource] = "1"
    if SURVEYOR in asked or BREAKING in asked:
        spec["preemptionPolicy"] = "Never"


def _init_container(draw: Draw, name: str, theme: Theme) -> Object:
    container = _container(draw, name, theme)
    container.pop("ports", None)
    if draw.chance(0.5):
        container["restartPolicy"] = "Always"
    return container


def _as_a_whole(draw: Draw, spec: Object) -> None:
    """Requests of the pod as a whole, which may not be less than those of its containers together."""
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        container.pop("resources", None)
        if draw.chance(0.5):
            container["resources"] = {"requests": _amounts(draw, {"cpu": ("0", "100m"), "memory": ("64Mi",)}, 0.7)}
    spec["resources"] = {"requests": _amounts(draw, {"cpu": ("1", "2500m"), "memory": ("1Gi", "3Gi")}, 0.8)}
    if not spec["resources"]["requests"]:
        del spec["resources"]


def _ports(draw: Draw) -> list[Object]:
    """Of one container; numbers are told apart by container, since a pod may not ask twice for the same."""
    wanted = [(port, protocol) for port in (8080, 8081) for protocol in ("TCP", "UDP")]
    found = []
    for port, protocol in draw.some(wanted, 1, 2):
        address = draw.one(("", "", "0.0.0.0", "10.0.0.1", "10.0.0.2"))
        found.append(
            {"containerPort": 80, "hostPort": port, "protocol": protocol, **({"hostIP": address} if address else {})}
        )
    return found


# What it says about nodes


def _about_nodes(draw: Draw, spec: Object, theme: Theme) -> None:
    on_theme = theme is Theme.NODES
    if theme in _EASY and draw.chance(0.7):
        spec["tolerations"] = [{"operator": "Exists"}]
    elif draw.chance(0.9 if theme is Theme.TAINTS else 0.3):
        spec["tolerations"] = draw.many(1, 3, lambda: _toleration(draw))
    if theme is Theme.NAMES:
        names = [f"node-{draw.number(0, 8)}" for _ in range(draw.number(1, 2))]
        terms = [_name_term(draw, name) for name in names]
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
        return
    if theme in _NARROW and draw.chance(0.5):
        spec["nodeSelector"] = {"kind": draw.one("abc")}
    elif draw.chance(0.35 if on_theme else 0.1):
        key, values = draw.one((("kind", "abc"), ("rack", ("r1", "r2", "r3")), (ZONE, ("z1", "z2", "z3"))))
        spec["nodeSelector"] = {key: draw.one(values)}
    affinity: Object = {}
    if draw.chance(0.35 if on_theme else 0.06):
        terms = draw.many(1, 2, lambda: _node_term(draw))
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if theme is Theme.PREFERENCES:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = draw.many(
            1, 3, lambda: {"weight": draw.number(1, 100), "preference": {"matchExpressions": [_choice(draw)]}}
        )
    elif draw.chance(0.8 if on_theme else 0.12):
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = draw.many(
            1, 3, lambda: {"weight": draw.number(1, 100), "preference": _node_term(draw)}
        )
    if affinity:
        spec["affinity"] = {"nodeAffinity": affinity}


def _toleration(draw: Draw) -> Object:
    key = draw.one(("k", "k", "l", "avoid", "", "node.kubernetes.io/unschedulable"))
    operator = "Exists" if not key else draw.one(("Exists", "Equal", ""))
    found: Object = {"key": key} if key else {}
    if operator:
        found["operator"] = operator
    if operator != "Exists":
        found["value"] = draw.one("vw")
    effect = draw.one(("", "NoSchedule", "PreferNoSchedule", "NoExecute"))
    return {**found, **({"effect": effect} if effect else {})}


def _name_term(draw: Draw, name: str) -> Object:
    """As a DaemonSet's pods have it, sometimes with more to it."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    if draw.chance(0.1):
        fields.append(
            {"key": "metadata.name", "operator": draw.one(("In", "NotIn")), "values": [f"node-{draw.number(0, 8)}"]}
        )
    return {"matchFields": fields, **draw.maybe(0.2, "matchExpressions", lambda: [_node_requirement(draw)])}


def _node_term(draw: Draw) -> Object:
    term: Object = {}
    if draw.chance(0.95):
        term["matchExpressions"] = draw.many(1, 2, lambda: _node_requirement(draw))
    if draw.chance(0.1):
        operator, name = draw.one(("In", "NotIn")), f"node-{draw.number(0, 6)}"
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [name]}]
    return term


def _node_requirement(draw: Draw) -> Object:
    operator = draw.one(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": draw.one(("rack", "gen", ZONE, HOSTNAME, "other")), "operator": operator}
    if operator in ("Gt", "Lt"):
        return {"key": draw.one(("gen", "gen", "kind")), "operator": operator, "values": [draw.one(("1", "2", "x"))]}
    return {**_choice(draw), "operator": operator}


def _choice(draw: Draw) -> Object:
    """Among the values that nodes have."""
    key, values = draw.one(
        (
            ("kind", ["a", "b", "c"]),
            ("gen", ["1", "2", "x"]),
            ("rack", ["r1", "r2"]),
            (ZONE, ["z1", "z2", "z3"]),
            (HOSTNAME, ["node-0", "node-1", "another"]),
        )
    )
    return {"key": key, "operator": "In", "values": draw.some(values, 1, 2)}


# What it says about other pods


def _about_pods(draw: Draw, spec: Object, theme: Theme) -> None:
    affinity = spec.setdefault("affinity", {})
    on_theme = theme in (Theme.NEIGHBOURS, Theme.IN_PLACE)
    for name, chance in (("podAffinity", 0.4), ("podAntiAffinity", 0.5)):
        terms: Object = {}
        required = chance if theme is Theme.NEIGHBOURS else {Theme.IN_PLACE: 0.05, Theme.PROMISED: 0.3}.get(theme, 0.03)
        if draw.chance(required):
            terms["requiredDuringSchedulingIgnoredDuringExecution"] = draw.many(1, 2, lambda: _pod_term(draw))
        if draw.chance({Theme.NEIGHBOURS: 0.6, Theme.IN_PLACE: 0.1}.get(theme, 0.06)):
            terms["preferredDuringSchedulingIgnoredDuringExecution"] = draw.many(
                1, 2, lambda: {"weight": draw.number(1, 100), "podAffinityTerm": _pod_term(draw)}
            )
        if terms:
            affinity[name] = terms
    if not affinity:
        del spec["affinity"]
    if theme is not Theme.DEFAULT_SPREAD and draw.chance(0.95 if theme is Theme.SPREAD else 0.0 if on_theme else 0.12):
        pairs = [(key, action) for key in KEYS for action in ("DoNotSchedule", "ScheduleAnyway")]
        spec["topologySpreadConstraints"] = [_constraint(draw, *pair) for pair in draw.some(pairs, 1, 3)]


def _pod_term(draw: Draw) -> Object:
    keyed = draw.chance(0.15)
    term: Object = {"topologyKey": draw.one(KEYS)}
    if keyed:
        term["labelSelector"] = draw.selector(without="tier")
        term[draw.one(("matchLabelKeys", "mismatchLabelKeys"))] = ["tier"]
    elif draw.chance(0.93):
        term["labelSelector"] = draw.selector()
    term |= draw.maybe(0.25, "namespaces", lambda: draw.some(NAMESPACES, 1, 2))
    term |= draw.maybe(
        0.25, "namespaceSelector", lambda: {"matchLabels": {"team": draw.one("xy")}} if draw.chance(0.7) else {}
    )
    return term


def _constraint(draw: Draw, key: str, action: str) -> Object:
    keyed = draw.chance(0.2)
    found: Object = {"maxSkew": draw.one((1, 1, 1, 1, 2, 3)), "topologyKey": key, "whenUnsatisfiable": action}
    if keyed:
        found |= {"labelSelector": draw.selector(without="tier"), "matchLabelKeys": ["tier"]}
    elif draw.chance(0.95):
        found["labelSelector"] = draw.selector()
    if action == "DoNotSchedule":
        found |= draw.maybe(0.5, "minDomains", lambda: draw.number(1, 5))
    found |= draw.maybe(0.4, "nodeAffinityPolicy", lambda: draw.one(("Honor", "Ignore")))
    found |= draw.maybe(0.4, "nodeTaintsPolicy", lambda: draw.one(("Honor", "Ignore")))
    return found


# What it says about the host itself


def _about_the_host(draw: Draw, spec: Object, theme: Theme) -> None:
    seen: set[tuple[Any, ...]] = set()
    for container in spec["containers"]:
        kept = []
        for port in container.get("ports", ()):
            what = (port["hostPort"], port["protocol"])
            if what not in seen:
                seen.add(what)
                kept.append(port)
        if "ports" in container:
            container["ports"] = kept
    if draw.chance(0.95 if theme is Theme.FEATURES else 0.02):
        if draw.chance(0.5):
            for container in spec["containers"]:
                container.pop("ports", None)
            spec |= {"hostNetwork": True, "hostUsers": False}
        else:
            rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
            spec["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
