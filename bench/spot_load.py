"""Reviews as kube-apiserver sends them, at a steady rate: the load of `bench.spot`.

    python -m bench.spot_load WEBHOOK_PORT CA_FILE SERVER_NAME API_PORT [--rate N] [--workloads N] [--bursts]

HTTP/1.1 over TLS, no pipelining; an idle connection is used again, the one that was used last first, and at most 25
idle ones are kept: client-go's transport for webhooks. A review goes out when it is due, however late the answers to
others are, and its time runs from there until its answer is read, the handshake of a new connection included. What was
admitted is then created at the API server, so that the watch shows it. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gc
import json
import ssl
import sys
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, Final, cast

import msgspec
import uvloop

from bench.machine import pin, waited_s
from bench.spot_cluster import GROWING, ON_DEMAND, REPLICAS
from situate.kube.transport.http1 import AnswerParser
from situate.spot.admission.patch_check import apply_operations
from situate.spot.model.object_names import WEBHOOK_PATH
from situate.spot.model.pods_nodes_workloads import CLASS

_IDLE: Final = 25
_TIMEOUT_S: Final = 2.0
_WARM: Final = 200
"""Reviews that are not counted: connections are made, caches filled."""
_BATCHES: Final = (1, 2, 4, 8, 16, 19)
"""In which a ReplicaSet creates fifty pods, each when the one before is done (slow start)."""


class Exchange(asyncio.Protocol):
    """A connection that carries one question at a time."""

    def __init__(self) -> None:
        self._parser = AnswerParser()
        self._answered: asyncio.Future[tuple[int, bytes]] | None = None
        self.open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        self._parser = AnswerParser()
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answered

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        parser.feed(data)
        if parser.complete and self._answered is not None and not self._answered.done():
            self.open = self.open and parser.keep_alive
            self._answered.set_result((parser.status, b"".join(parser.pieces)))

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(exc or ConnectionError("the connection was closed before the answer"))

    def close(self) -> None:
        self._transport.close()


class Connections:
    """To one server, as Go's http.Transport keeps them."""

    def __init__(self, port: int, context: ssl.SSLContext | None, server_name: str | None) -> None:
        self._port = port
        self._context = context
        self._server_name = server_name
        self._idle: list[Exchange] = []
        self.made = 0

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        connection = await self._taken()
        answer = await connection.ask(request)
        if connection.open and len(self._idle) < _IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    async def _taken(self) -> Exchange:
        while self._idle:
            connection = self._idle.pop()
            if connection.open:
                return connection
        self.made += 1
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(
            Exchange, "127.0.0.1", self._port, ssl=self._context, server_hostname=self._server_name
        )
        return made


def post(path: str, host: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: kube-apiserver-admission\r\n"
        f"Content-Length: {len(body)}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n"
        "Accept-Encoding: gzip\r\n\r\n"
    )
    return head.encode() + body


class Pods:
    """New pods of one workload, as its ReplicaSet posts them and the API server shows them to webhooks."""

    def __init__(self, replica_set: dict[str, Any]) -> None:
        metadata, template = replica_set["metadata"], replica_set["spec"]["template"]
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": metadata["name"], "uid": metadata["uid"]}
        self._metadata = {
            "generateName": metadata["name"] + "-",
            "namespace": GROWING,
            "creationTimestamp": None,
            "labels": template["metadata"]["labels"],
            "ownerReferences": [{**reference, "controller": True, "blockOwnerDeletion": True}],
        }
        lasting = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        mount = {"name": "token", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
        (container,) = template["spec"]["containers"]
        self._spec = {
            **template["spec"],
            "containers": [{**container, "volumeMounts": [mount]}],
            "volumes": [
                {
                    "name": "token",
                    "projected": {
                        "defaultMode": 420,
                        "sources": [
                            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                            {
                                "configMap": {
                                    "name": "kube-root-ca.crt",
                                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                                }
                            },
                        ],
                    },
                }
            ],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", **lasting},
                {"key": "node.kubernetes.io/unreachable", **lasting},
            ],
        }
        self.classes: Counter[str] = Counter()

    def new(self) -> dict[str, Any]:
        return {"kind": "Pod", "apiVersion": "v1", "metadata": self._metadata, "spec": self._spec, "status": {}}


def review(pod: dict[str, Any], number: int) -> bytes:
    kind, resource = {"group": "", "version": "v1", "kind": "Pod"}, {"group": "", "version": "v1", "resource": "pods"}
    request = {
        "uid": f"{number:08x}-0000-4000-8000-000000000000",
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "namespace": GROWING,
        "operation": "CREATE",
        "userInfo": {
            "username": "system:serviceaccount:kube-system:replicaset-controller",
            "uid": "00000000-2222-4000-8000-000000000000",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
        },
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return msgspec.json.encode({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})


class Load:
    def __init__(self, webhook: Connections, api: Connections, host: str, workloads: list[Pods]) -> None:
        self._webhook, self._api, self._host = webhook, api, host
        self._workloads = workloads
        self._numbers = iter(range(1 << 30))
        self.seconds: list[float] = []
        self.late_s: list[float] = []

    async def create(self, pods: Pods, due: float) -> None:
        """As a create of the ReplicaSet's controller."""
        pod = pods.new()
        question = post(f"{WEBHOOK_PATH}?timeout=2s", self._host, review(pod, next(self._numbers)))
        sent = time.perf_counter()
        self.late_s.append(sent - due)
        async with asyncio.timeout(_TIMEOUT_S):
            status, body = await self._webhook.ask(question)
        self.seconds.append(time.perf_counter() - sent)
        if status != 200:
            raise SystemExit(f"a review was answered with {status}: {body[:300]!r}")
        response = msgspec.json.decode(body)["response"]
        if "patch" not in response:
            raise SystemExit(f"a pod was left as it is: {body[:300]!r}")
        patched = apply_operations(pod, msgspec.json.decode(base64.b64decode(response["patch"])))
        pods.classes[patched["metadata"]["labels"][CLASS]] += 1
        path = f"/api/v1/namespaces/{GROWING}/pods"
        status, body = await self._api.ask(post(path, "localhost", msgspec.json.encode(patched)))
        if status != 201:
            raise SystemExit(f"a creation was answered with {status}: {body[:300]!r}")

    async def steadily(self, rate: float, rng: Random) -> None:
        """Each pod at a moment of its own, independent of the others, of any workload."""
        turns = [pods for pods in self._workloads for _ in range(REPLICAS)]
        rng.shuffle(turns)
        due = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for pods in turns:
                due += rng.expovariate(rate)
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                group.create_task(self.create(pods, due))

    async def in_bursts(self, rate: float, rng: Random) -> None:
        """Each workload's fifty at once, as fast as its controller can; workloads begin independent of each other."""
        due = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for pods in self._workloads:
                due += rng.expovariate(rate / REPLICAS)
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                group.create_task(self._burst(pods))

    async def _burst(self, pods: Pods) -> None:
        for count in _BATCHES:
            now = time.perf_counter()
            await asyncio.gather(*(self.create(pods, now) for _ in range(count)))


async def _load(chosen: argparse.Namespace) -> dict[str, Any]:
    context = ssl.create_default_context(cafile=chosen.ca)
    context.set_alpn_protocols(["http/1.1"])
    webhook = Connections(chosen.webhook_port, context, chosen.server_name)
    api = Connections(chosen.api_port, None, None)
    wanted = range(chosen.first, chosen.first + chosen.workloads)
    workloads = [Pods(found) for found in await _replica_sets(api, {f"new-{number}" for number in wanted})]
    load = Load(webhook, api, f"{chosen.server_name}:443", workloads)
    gc.collect()
    gc.freeze()
    rng = Random(7)
    spent_s, waited = time.process_time(), waited_s("self")
    await (load.in_bursts if chosen.bursts else load.steadily)(chosen.rate, rng)
    spent_s, waited = time.process_time() - spent_s, waited_s("self") - waited
    counted = load.seconds[_WARM:] or load.seconds
    exact = sum(pods.classes == {"on-demand": ON_DEMAND, "spot": REPLICAS - ON_DEMAND} for pods in workloads)
    return {
        "reviews": len(load.seconds),
        "connections": webhook.made,
        "exact": exact,
        "workloads": len(workloads),
        "load_waited_share": waited / (waited + spent_s),
        "late_ms_p99": 1e3 * _percentile(load.late_s, 99),
        **{f"ms_p{percent}": 1e3 * _percentile(counted, percent) for percent in (50, 90, 99)},
        "ms_max": 1e3 * max(counted),
    }


async def _replica_sets(api: Connections, names: set[str]) -> Iterator[dict[str, Any]]:
    get = f"GET /apis/apps/v1/namespaces/{GROWING}/replicasets HTTP/1.1\r\nHost: localhost\r\n\r\n"
    status, body = await api.ask(get.encode())
    assert status == 200, body
    return (each for each in msgspec.json.decode(body)["items"] if each["metadata"]["labels"]["app"] in names)


def _percentile(values: list[float], percent: int) -> float:
    """The smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spot_load")
    parser.add_argument("webhook_port", type=int)
    parser.add_argument("ca")
    parser.add_argument("server_name")
    parser.add_argument("api_port", type=int)
    parser.add_argument("--rate", type=float, default=200.0, help="reviews a second")
    parser.add_argument("--first", type=int, default=0, help="of the workloads that grow")
    parser.add_argument("--workloads", type=int, default=80, help="of fifty pods each")
    parser.add_argument("--bursts", action="store_true", help="each workload at once, instead of pod by pod")
    parser.add_argument("--core", type=int, help="stay on this one")
    chosen = parser.parse_args()
    if chosen.core is not None:
        pin(0, chosen.core)
    try:
        result = uvloop.run(_load(chosen))
    except BaseExceptionGroup as failures:
        # one of many that fail together, for one reason
        raise SystemExit(f"{type(failures.exceptions[0]).__name__}: {failures.exceptions[0]}") from None
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
