"""A kubelet for API servers with nothing else at work: when it is told to look, it allocates, puts off or refuses.

kwok takes every resize; what kubelets make of one is `situate.cluster.controllers.node.allocations`, on both servers
alike.
"""

from __future__ import annotations

from http import HTTPStatus

from situate.cluster.controllers.node import allocations
from tests.contract.api import Api, Json
from tests.contract.things import bound, core

_AT = "2026-01-01T00:00:01Z"


async def look(api: Api, namespace: str, node: str, *, only: str = "") -> None:
    """Reports every pod of the namespace on the node as it runs from now on, the oldest first.

    `only`: the pod of this name alone, where another kubelet reports the others; annotated `noresize` it is ours.
    """
    allocatable = (await api.get(f"/api/v1/nodes/{node}")).ok()["status"]["allocatable"]
    pods = (await api.get(core(namespace, "pods"))).ok()["items"]
    here = {each["metadata"]["name"]: each for each in pods if each["spec"].get("nodeName") == node}
    mine = [only] if only else sorted(here, key=lambda each: (here[each]["metadata"]["creationTimestamp"], each))
    for name in mine:
        others = [each for each in here.values() if each["metadata"]["name"] != name]
        here[name] = await _report(api, namespace, here[name], others, allocatable)


async def _report(api: Api, namespace: str, pod: Json, others: list[Json], allocatable: Json) -> Json:
    asks = allocations.needs_resize(pod)
    pending = allocations.check_resize(pod, others, allocatable) if asks else None
    running = bound(pod)["status"]
    if pod["spec"].get("initContainers"):
        running["initContainerStatuses"] = bound({"spec": {"containers": pod["spec"]["initContainers"]}})["status"][
            "containerStatuses"
        ]
    for kind, statuses in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        for status, container in zip(running.get(statuses, ()), pod["spec"].get(kind, ()), strict=True):
            status["allocatedResources"] = container.get("resources", {}).get("requests", {})
    running["observedGeneration"] = pod["metadata"]["generation"]
    running["qosClass"] = pod["status"]["qosClass"]
    known = [each for each in pod["status"].get("conditions", ()) if each["type"] == allocations.PENDING]
    running["conditions"] = [*running["conditions"], *known]
    status = allocations.with_resize_state(pod, running, pending, acting=False, at=_AT)
    path = core(namespace, "pods", pod["metadata"]["name"], "status")
    answer = await api.put(path, {**pod, "status": status})
    if answer.status == HTTPStatus.CONFLICT:  # the other kubelet was quicker
        pod = (await api.get(core(namespace, "pods", pod["metadata"]["name"]))).ok()
        return await _report(api, namespace, pod, others, allocatable)
    written: Json = answer.ok()
    return written
