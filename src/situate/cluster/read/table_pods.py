"""Build the row of a pod, which summarizes the states of its containers (printers.go, printPod)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Obj: TypeAlias = Mapping[str, Any]

_NONE: Final = "<none>"


def pod_cells(pod: Obj, since: Callable[[str | None], str]) -> list[Any]:
    """Return the cells of a pod's row. `since` formats the age of a time."""
    spec, status, metadata = pod.get("spec", {}), pod.get("status", {}), pod["metadata"]
    tally = _ContainerCounts(status.get("reason") or status.get("phase", ""), total=len(spec.get("containers") or ()))
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    if conditions.get("PodScheduled", {}).get("reason") == "SchedulingGated":
        tally.reason = "SchedulingGated"
    initializing = tally.count_init(spec, status)
    if not initializing or conditions.get("Initialized", {}).get("status") == "True":
        tally.count_containers(status, ready=conditions.get("Ready", {}).get("status") == "True")
    if "deletionTimestamp" in metadata:
        if status.get("reason") == "NodeLost":
            tally.reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            tally.reason = "Terminating"
    restarts = str(tally.restarts)
    if tally.restarts and tally.last_restart:
        restarts = f"{tally.restarts} ({since(tally.last_restart)} ago)"
    addresses = status.get("podIPs") or ({"ip": status.get("podIP", "")},)
    return [
        metadata["name"],
        f"{tally.ready}/{tally.total}",
        tally.reason,
        restarts,
        since(metadata.get("creationTimestamp")),
        addresses[0].get("ip") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        _gates(spec, conditions),
    ]


def _gates(spec: Obj, conditions: Mapping[str, Obj]) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return _NONE
    true = sum(conditions.get(gate["conditionType"], {}).get("status") == "True" for gate in gates)
    return f"{true}/{len(gates)}"


class _ContainerCounts:
    def __init__(self, reason: str, total: int) -> None:
        self.reason = reason
        self.total = total
        self.ready = 0
        self.restarts = 0
        self.last_restart = ""
        self._sidecar_restarts = 0
        self._sidecar_last = ""

    def count_init(self, spec: Obj, status: Obj) -> bool:
        """Count the init containers up to the first unfinished one; return whether there is one."""
        containers = spec.get("initContainers") or ()
        sidecars = {container["name"] for container in containers if container.get("restartPolicy") == "Always"}
        self.total += len(sidecars)
        for number, container in enumerate(status.get("initContainerStatuses") or ()):
            sidecar = container["name"] in sidecars
            last = _last_end_time(container)
            self.restarts += container.get("restartCount", 0)
            self.last_restart = max(self.last_restart, last)
            if sidecar:
                self._sidecar_restarts += container.get("restartCount", 0)
                self._sidecar_last = max(self._sidecar_last, last)
            state = container.get("state", {})
            ended, waiting = state.get("terminated"), state.get("waiting")
            if ended is not None and ended.get("exitCode", 0) == 0:
                continue
            if sidecar and container.get("started"):
                self.ready += bool(container.get("ready"))
                continue
            if ended is not None:
                self.reason = f"Init:{_end_reason(ended)}"
            elif waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
                self.reason = f"Init:{waiting['reason']}"
            else:
                self.reason = f"Init:{number}/{len(containers)}"
            return True
        return False

    def count_containers(self, status: Obj, *, ready: bool) -> None:
        """Count the containers from last to first, so that the problem of the first one is shown."""
        self.restarts, self.last_restart = self._sidecar_restarts, self._sidecar_last
        running = False
        error = ""
        for container in reversed(status.get("containerStatuses") or ()):
            self.restarts += container.get("restartCount", 0)
            self.last_restart = max(self.last_restart, _last_end_time(container))
            state = container.get("state", {})
            ended, waiting = state.get("terminated"), state.get("waiting")
            if waiting is not None and waiting.get("reason"):
                self.reason = waiting["reason"]
            elif ended is not None:
                self.reason = _end_reason(ended)
                if ended.get("exitCode", 0) != 0:
                    error = self.reason
            elif container.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and ready:
                self.reason = "Running"
            elif error:
                self.reason = error
            elif running:
                self.reason = "NotReady"


def _last_end_time(container: Obj) -> str:
    ended = (container.get("lastState") or {}).get("terminated") or {}
    return str(ended.get("finishedAt") or "")


def _end_reason(ended: Obj) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"
