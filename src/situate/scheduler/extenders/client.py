"""Calls extenders over HTTP, as kube-scheduler does (upstream pkg/scheduler/extender.go).

A question is a POST of JSON to `urlPrefix/verb`. Any answer but a 200 in time with a valid body counts as no reply.
`situate.framework.preemption.extenders` decides the effect of a missing reply; nothing is retried here.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from situate.framework.plugin_api.actions import BindByExtender
from situate.framework.plugin_api.configuration import Extender, ExtenderTLS
from situate.framework.pod.pods import PodKey
from situate.framework.preemption.extenders import (
    ExtenderQuestion,
    ExtenderReply,
    FilterNodes,
    NoReply,
    PrioritizeNodes,
    ProcessPreemption,
)
from situate.kube.client import Client
from situate.kube.connect import add_proxy
from situate.kube.errors import KubeError, Unreachable
from situate.kube.login.connection import Connection, Pem
from situate.kube.login.credentials import Credentials
from situate.kube.transport.http import HttpTransport
from situate.kube.transport.protocol import Transport
from situate.kube.watch.store import Store
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.messages import Request, Response
from situate.objects.resources import unstructured
from situate.scheduler.extenders.messages import (
    BadReply,
    binding_arguments,
    binding_problem,
    node_arguments,
    preemption_arguments,
    reply_of,
)

WHOLE_PODS: Final = unstructured("", "v1", "Pod", "pods")
WHOLE_NODES: Final = unstructured("", "v1", "Node", "nodes", namespaced=False)
_DEFAULT_TIMEOUT_S: Final = 5.0
"""The time-out for httpTimeout 0."""
_CONCURRENT_READS: Final = 16
"""Pods read from the API server at a time, for an extender that needs whole victims."""
_QUOTED_CHARACTERS: Final = 200
"""Characters of a refusal's body that are quoted."""


class BindingFailed(Exception):
    """The extender did not report that it has bound the pod."""

    def __init__(self, action: BindByExtender, problem: str, *, outcome_unknown: bool) -> None:
        """`outcome_unknown`: it may have bound the pod all the same; only the pod itself shows that."""
        super().__init__(f"extender {action.extender.url_prefix} at {action.extender.bind_verb}: {problem}")
        self.outcome_unknown = outcome_unknown


class Documents(Protocol):
    """Whole objects: extenders may read fields that the framework's values lack."""

    async def pod(self, key: PodKey, uid: str) -> bytes:
        """Return a pod's JSON; `KubeError` if it cannot be read."""
        ...

    def node(self, name: str) -> bytes | None:
        """Return a node's JSON; None if no node has that name any more."""
        ...


class ApiDocuments:
    """Reads each pod from the API server when it is needed; nodes come from a watch of whole nodes."""

    def __init__(self, client: Client, nodes: Store[Unstructured]) -> None:
        self._client = client
        self._nodes = nodes

    async def pod(self, key: PodKey, uid: str) -> bytes:
        namespace, name = key
        found = await self._client.get(WHOLE_PODS, name, namespace)
        if found.metadata.uid != uid:
            raise KubeError(f"pod {namespace}/{name} was replaced: found uid {found.metadata.uid}, expected {uid}")
        return found.raw

    def node(self, name: str) -> bytes | None:
        found = self._nodes.get(name)
        return None if found is None else found.raw


def wants_whole_nodes(extenders: Sequence[Extender]) -> bool:
    """Whether an extender receives whole nodes, which then have to be watched."""
    return any((each.filter_verb or each.prioritize_verb) and not each.node_cache_capable for each in extenders)


class Extenders:
    """All extenders of one scheduler; usable in one event loop."""

    def __init__(self, transports: Mapping[Extender, Transport], documents: Documents) -> None:
        """Take one transport for each extender; `close` closes them."""
        self._transports = transports
        self._documents = documents

    @classmethod
    def create(cls, extenders: Sequence[Extender], documents: Documents, environ: Mapping[str, str]) -> Extenders:
        """Create the configured extenders; `environ` may name a proxy. Needs a running event loop."""
        clock = asyncio.get_running_loop().time
        transports: dict[Extender, Transport] = {}
        for number, extender in enumerate(extenders):
            connection = add_proxy(connection_of(extender, f"extenders[{number}]"), environ)
            credentials = Credentials(connection, monotonic=clock, now=lambda: datetime.now(UTC))
            transports[extender] = HttpTransport(connection, credentials)
        return cls(transports, documents)

    async def ask(self, questions: Sequence[ExtenderQuestion]) -> list[ExtenderReply]:
        """Ask all questions at the same time; return one reply for each, in order."""
        return list(await asyncio.gather(*map(self._ask_extender, questions)))

    async def bind(self, action: BindByExtender) -> None:
        """Let the extender bind the pod; `BindingFailed` unless it reports success."""
        try:
            response = await self._post(action.extender, action.extender.bind_verb, binding_arguments(action))
            problem = binding_problem(response.body)
        except TimeoutError:
            raise BindingFailed(action, _timeout_message(action.extender), outcome_unknown=True) from None
        except Unreachable as error:
            raise BindingFailed(action, str(error), outcome_unknown=error.outcome_unknown) from error
        except (KubeError, BadReply) as error:
            raise BindingFailed(action, str(error), outcome_unknown=True) from error
        if problem:
            raise BindingFailed(action, problem, outcome_unknown=False)

    async def close(self) -> None:
        for transport in self._transports.values():
            await transport.close()

    async def _ask_extender(self, question: ExtenderQuestion) -> ExtenderReply:
        extender = question.extender
        try:
            arguments = await self._arguments(question)
            response = await self._post(extender, _verb(question), arguments)
        except TimeoutError:
            return NoReply(_timeout_message(extender))
        except (KubeError, BadReply) as error:
            return NoReply(str(error))
        return reply_of(question, response.body)

    async def _arguments(self, question: ExtenderQuestion) -> dict[str, Any]:
        pod = await self._documents.pod(question.pod.key, question.pod.uid)
        capable = question.extender.node_cache_capable
        if isinstance(question, ProcessPreemption):
            return preemption_arguments(question, pod, None if capable else await self._victims(question))
        return node_arguments(question, pod, None if capable else self._nodes(question))

    def _nodes(self, question: FilterNodes | PrioritizeNodes) -> list[bytes]:
        found = [(name, self._documents.node(name)) for name in question.nodes]
        gone = [name for name, node in found if node is None]
        if gone:
            raise BadReply(f"no request was sent because node {gone[0]} no longer exists")
        return [node for _, node in found if node is not None]

    async def _victims(self, question: ProcessPreemption) -> dict[str, bytes]:
        keys = {each.uid: each.key for found in question.victims.values() for each in found.pods}
        slots = asyncio.Semaphore(_CONCURRENT_READS)

        async def read(uid: str) -> bytes:
            async with slots:
                return await self._documents.pod(keys[uid], uid)

        return dict(zip(keys, await asyncio.gather(*map(read, keys)), strict=True))

    async def _post(self, extender: Extender, verb: str, arguments: Mapping[str, Any]) -> Response:
        """Send a request and return a 200 answer; else raise `TimeoutError`, `KubeError` or `BadReply`."""
        timeout_s = extender.http_timeout or _DEFAULT_TIMEOUT_S
        body = msgspec.json.encode(arguments)
        request = Request("POST", f"/{verb}", (), {"content-type": "application/json"}, body)
        async with asyncio.timeout(timeout_s):
            response = await self._transports[extender].send(request, timeout_s=timeout_s)
        if response.status != 200:
            said = response.body[:_QUOTED_CHARACTERS].decode("utf-8", "replace").strip()
            raise BadReply(f"answered {response.status}{': ' + said if said else ''}")
        return response


def connection_of(extender: Extender, source: str) -> Connection:
    """Build the connection to an extender. Without an authority, enableHTTPS verifies nothing, as upstream."""
    tls = extender.tls_config or ExtenderTLS()
    ca = _pem(tls.ca_data, tls.ca_file, "caData", "caFile")
    return Connection(
        server=extender.url_prefix.rstrip("/"),
        source=source,
        ca=ca,
        insecure_skip_tls_verify=tls.insecure or (extender.enable_https and ca is None),
        tls_server_name=tls.server_name,
        certificate=_pem(tls.cert_data, tls.cert_file, "certData", "certFile"),
        key=_pem(tls.key_data, tls.key_file, "keyData", "keyFile"),
    )


def _pem(data: str, path: str, data_field: str, path_field: str) -> Pem | None:
    """Read PEM data or a file; data, in base64, takes precedence."""
    if data:
        return Pem(base64.b64decode(data), field=f"tlsConfig.{data_field}")
    return Pem(path=Path(path), field=f"tlsConfig.{path_field}") if path else None


def _verb(question: ExtenderQuestion) -> str:
    match question:
        case FilterNodes(extender):
            return extender.filter_verb
        case PrioritizeNodes(extender):
            return extender.prioritize_verb
        case ProcessPreemption(extender):
            return extender.preempt_verb


def _timeout_message(extender: Extender) -> str:
    return f"no answer within {extender.http_timeout or _DEFAULT_TIMEOUT_S:g} s (httpTimeout)"
