"""The peer's side of `bench.client`: lightkube's AsyncClient, and what an informer on top of it would keep.

Objects are decoded at once, as ours are (`lazy=False`; from 1.0 on lightkube has no other way). Also run by the
interpreter of another environment with an older lightkube, so nothing here imports situate.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from lightkube import AsyncClient, KubeConfig
from lightkube.resources.core_v1 import Pod
from lightkube.types import PatchType

from bench.client_task import Call, run
from bench.pods import to_create


class Lightkube:
    version = version("lightkube")

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def writes(self, kind: str) -> Call:
        client: Any = self._client  # its overloads cannot tell a pod from what is in one
        if kind == "create":
            return lambda number: client.create(Pod.from_dict(to_create(f"pod-{number}")), namespace="default")
        return lambda number: client.patch(
            Pod,
            "pod-1",
            {"metadata": {"annotations": {"count": str(number)}}},
            namespace="default",
            patch_type=PatchType.MERGE,
        )

    async def follow(self, events: int, keep: bool, begin: Callable[[], None]) -> int:
        listing = self._client.list(Pod, namespace="*", chunk_size=500)
        kept: dict[tuple[Any, Any], Pod] = {}
        async for pod in listing:
            if keep:
                kept[_key(pod)] = pod
        seen = 0
        async for type_, pod in self._client.watch(Pod, namespace="*", resource_version=listing.resourceVersion):
            if not seen:
                begin()
            if keep:
                key = _key(pod)
                if type_ == "DELETED":
                    kept.pop(key, None)
                else:
                    kept[key] = pod
            seen += 1
            if seen == events:
                break
        return len(kept)

    async def hold(self) -> dict[tuple[Any, Any], Pod]:
        listing = self._client.list(Pod, namespace="*", chunk_size=500)
        return {_key(pod): pod async for pod in listing}

    async def close(self) -> None:
        await self._client.close()


def _key(pod: Pod) -> tuple[Any, Any]:
    assert pod.metadata is not None
    return pod.metadata.namespace, pod.metadata.name


async def _make(url: str) -> Lightkube:
    config = {
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "users": [{"name": "bench", "user": {}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "current-context": "bench",
    }
    return Lightkube(AsyncClient(KubeConfig.from_dict(config), lazy=False, trust_env=False))


if __name__ == "__main__":
    run(_make)
