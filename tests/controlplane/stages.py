"""What kwok plays: nodes and pods become Ready, a resized pod gets its resources, a deleted pod goes.

kwok 0.8.0 has no stages of its own and ends without any. Annotations `notready`, `noresize` and `hold` on a pod keep
it from being Ready, from being resized and from going; `ready-after` says how long it takes, such as `2s`. One with
`succeeds-after` runs for so long, and all of its containers have ended well then. Without `podIP` a pod gets no
endpoint; without `resources` in its container statuses every resize is refused; a stage that writes lists writes all
of them, since lists are replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

_NODE_UP = """\
{{ if not .status.allocatable }}
capacity: {cpu: "32", memory: 256Gi, ephemeral-storage: 1Ti, pods: "110"}
allocatable: {cpu: "32", memory: 256Gi, ephemeral-storage: 1Ti, pods: "110"}
{{ end }}
conditions:
- type: Ready
  status: "True"
  reason: KubeletReady
  message: ok
  lastHeartbeatTime: {{ Now | Quote }}
  lastTransitionTime: {{ Now | Quote }}
"""
_POD_UP = """\
{{ $now := Now }}
{{ $ip := PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace }}
phase: Running
podIP: {{ $ip | Quote }}
podIPs: [{ip: {{ $ip | Quote }}}]
startTime: {{ $now | Quote }}
observedGeneration: {{ .metadata.generation }}
conditions:
{{ range $type := list "PodReadyToStartContainers" "Initialized" "ContainersReady" "Ready" }}
- {type: {{ $type }}, status: "True", lastTransitionTime: {{ $now | Quote }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
  allocatedResources: {{ (or .resources.requests dict) | toJson }}
  resources: {{ (or .resources dict) | toJson }}
{{ end }}
"""
_POD_RESIZED = """\
observedGeneration: {{ .metadata.generation }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ Now | Quote }}}}
  allocatedResources: {{ (or .resources.requests dict) | toJson }}
  resources: {{ (or .resources dict) | toJson }}
{{ end }}
"""

_POD_DONE = """\
{{ $now := Now }}
phase: Succeeded
conditions:
{{ range $type := list "PodReadyToStartContainers" "Initialized" "ContainersReady" "Ready" }}
- {type: {{ $type }}, status: {{ eq $type "Initialized" | ternary "True" "False" | Quote }},
   reason: PodCompleted, lastTransitionTime: {{ $now | Quote }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: {{ .image | Quote }}
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ $.status.startTime | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
"""

_ALIVE = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}


@dataclass(frozen=True, slots=True)
class Stages:
    """How long each change takes. A test of outages wants `ready_ms` above zero: replacements come up in 50 ms else."""

    ready_ms: int = 0  # from bound to Ready
    resized_ms: int = 0
    gone_ms: int = 500  # from deletionTimestamp to the object's end

    def text(self) -> str:
        """The file for kwok's `--config`."""
        documents = [
            _stage("node-up", "Node", 0, [_node_not_ready()], {"statusTemplate": _NODE_UP}),
            _stage(
                "pod-up",
                "Pod",
                self.ready_ms,
                [_ALIVE, {"key": ".status.phase", "operator": "In", "values": ["Pending"]}, _without("notready")],
                {"statusTemplate": _POD_UP},
                delay_from='.metadata.annotations["ready-after"]',
            ),
            _stage(
                "pod-done",
                "Pod",
                0,
                [
                    _ALIVE,
                    {"key": ".status.phase", "operator": "In", "values": ["Running"]},
                    {"key": '.metadata.annotations["succeeds-after"]', "operator": "Exists"},
                ],
                {"statusTemplate": _POD_DONE},
                delay_from='.metadata.annotations["succeeds-after"]',
            ),
            _stage(
                "pod-resized",
                "Pod",
                self.resized_ms,
                [
                    _ALIVE,
                    {"key": ".status.phase", "operator": "In", "values": ["Running"]},
                    {
                        "key": ".metadata.generation != .status.observedGeneration",
                        "operator": "In",
                        "values": ["true"],
                    },
                    _without("noresize"),
                ],
                {"statusTemplate": _POD_RESIZED},
            ),
            _stage(
                "pod-gone",
                "Pod",
                self.gone_ms,
                [{"key": ".metadata.deletionTimestamp", "operator": "Exists"}, _without("hold")],
                {"finalizers": {"empty": True}, "delete": True},
            ),
        ]
        return yaml.safe_dump_all(documents, sort_keys=False)


def _stage(
    name: str,
    kind: str,
    delay_ms: int,
    conditions: list[dict[str, Any]],
    following: dict[str, Any],
    delay_from: str = "",
) -> dict[str, Any]:
    """`delay_from`: where the object itself may say it; it says more than `delay_ms`."""
    delay: dict[str, Any] = {"durationMilliseconds": delay_ms}
    if delay_from:
        delay["durationFrom"] = {"expressionFrom": delay_from}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": conditions},
            "delay": delay,
            "next": following,
        },
    }


def _node_not_ready() -> dict[str, Any]:
    return {
        "key": '.status.conditions.[] | select(.type=="Ready") | .status',
        "operator": "NotIn",
        "values": ["True"],
    }


def _without(annotation: str) -> dict[str, Any]:
    return {"key": f'.metadata.annotations["{annotation}"]', "operator": "DoesNotExist"}
