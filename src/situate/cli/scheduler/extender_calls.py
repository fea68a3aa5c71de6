"""Call the extenders of a profile for a command: to filter, score and preempt, never to bind.

Extenders receive objects as read from the cluster. Hypothetical Pods and nodes are sent with their known fields only.
An extender that does not answer is named in a remark, and the result is without it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from situate.cli.scheduler.cluster_state import SchedulerClusterState
from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.configuration import Extender
from situate.framework.pod.pods import PodKey
from situate.framework.preemption.extenders import Steps, report_bad_replies, run_without_questions
from situate.kube.errors import KubeError
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.scheduler.extenders.client import Extenders

R = TypeVar("R")

_ENCODER: Final = msgspec.json.Encoder(enc_hook=str)


class ExtenderCalls:
    """Extenders for one question."""

    def __init__(
        self, extenders: Sequence[Extender], world: SchedulerClusterState, engine: Engine, made: Iterable[Pod] = ()
    ) -> None:
        """Prepare the calls.

        `extenders` are those of `read_only`. `engine` is the engine that decides. `made` are Pods that do not exist
        yet.
        """
        self._extenders = extenders
        self._documents = _Documents(world, engine, made)
        self._remarks = world.remarks

    def run_steps(self, steps: Steps[R]) -> R:
        """Return the result of a computation that may call extenders. Must not be called while an event loop runs."""
        if not self._extenders:
            return run_without_questions(steps)
        return asyncio.run(self._run_with_extenders(report_bad_replies(steps, self._add_remark)))

    def _add_remark(self, problem: str) -> None:
        self._remarks.add(f"{problem}; the answer ignores this extender")

    async def _run_with_extenders(self, steps: Steps[R]) -> R:
        extenders = Extenders.create(self._extenders, self._documents, os.environ)
        try:
            questions = next(steps)
            while True:
                questions = steps.send(await extenders.ask(questions))
        except StopIteration as end:
            result: R = end.value
            return result
        finally:
            await extenders.close()


class _Documents:
    """JSON of objects: complete if they were read, and with the known fields if they are hypothetical."""

    def __init__(self, world: SchedulerClusterState, engine: Engine, made: Iterable[Pod]) -> None:
        self._world = world
        self._engine = engine
        self._hypothetical_pods = {pod.metadata.uid: pod for pod in made}

    async def pod(self, key: PodKey, uid: str) -> bytes:
        namespace, name = key
        known = self._world.pod(namespace, name)
        pod = self._hypothetical_pods.get(uid, known)
        if pod is None or pod.metadata.uid != uid:
            raise KubeError(f"pod {namespace}/{name} with uid {uid} is not known here")
        whole = self._world.complete_json.get(("pods", namespace, name))
        return whole if pod is known and whole is not None else _encode_object("Pod", pod)

    def node(self, name: str) -> bytes | None:
        node = self._engine.cache.node(name)
        if node is None:
            return None
        whole = self._world.complete_json.get(("nodes", "", name))
        return (
            whole if self._world.stores.nodes.get(name) is node and whole is not None else _encode_object("Node", node)
        )


def _encode_object(kind: str, found: Pod | Node) -> bytes:
    fields = _ENCODER.encode(found).lstrip(b"{")
    return b'{"apiVersion":"v1","kind":"' + kind.encode() + b'",' + fields
