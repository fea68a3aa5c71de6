"""Permits at 2,000 machines on 100 nodes: how long a decision takes, and how long its answer over a live server.

    python -m bench.vm_permits [--machines N] [--nodes N] [--requests N] [--per-second N] [--seed S]

`decision_ms_p99`: the step of one request that is granted from free room, on the ledger alone; where it is far above
`decision_cpu_ms_p99` the machine was busy with other things. `answer_ms_p99`: from
the request to its answer, over TLS and by token: an embedded API server with machines and the shipped scheduler are
processes of their own, and every one of `--requests` grows or shrinks a machine, so that each is written before it is
answered. `explain_ms_p99` is a pod's explanation over the same port, `explain_node_ms_p99` a node's, `what_if_ms_p99`
what would be if a pod wanted more than its node has (B41). The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import random
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml
from tests.cli.processes import process
from tests.controlplane.certificates import Authority

from bench.processes import server
from situate.cluster.controllers import KubeletSettings, MachinerySettings
from situate.cluster.controllers.node.nodes import node as node_object
from situate.cluster.storage.effects import Identity
from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.embedded.kubeconfig import kubeconfig, write_kubeconfig
from situate.embedded.virtual_machines import VirtualMachineController
from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.login.connection import Connection
from situate.objects.resources import CUSTOMRESOURCEDEFINITIONS, NODES
from situate.runtime.process.startup import pause_collector
from situate.vm.api.well_known import ENABLED_LABEL
from situate.vm.backends.neonvm import MACHINES
from situate.vm.emulator import Settings as Pace
from situate.vm.emulator.crds import definitions
from situate.vm.ledger.step import step
from situate.vm.model.events import InitialListCompleted, ResourcesRequested, WriteResult
from situate.vm.model.node_accounting import recount
from situate.vm.model.pods_and_nodes import Machine, Node, Pod, Ref
from situate.vm.model.policy import GIB, Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState

NODE_CPUS: Final = 64
NAMESPACE: Final = "default"
TOKEN: Final = "bench"
UNIT: Final = Amounts.from_values(250, GIB)
NOW: Final = 1_000_000.0
_SETTLING_S: Final = 15.0
"""For Events and statuses of machines that have only just begun to run."""
_LOOKS: Final = 200
"""Explanations of each kind."""
_UNIT_BODY: Final = {"vCPUs": "250m", "mem": "1Gi"}


def ledger(nodes: int, machines: int) -> LedgerState:
    """As many machines of one CPU on each node, all with room to grow."""
    pods: list[list[Pod]] = [[] for _ in range(nodes)]
    for number in range(machines):
        name = f"m{number}"
        machine = Machine(Ref(NAMESPACE, name, f"vm-{name}"), autoscaled=True, migratable=True)
        held, none = Amounts.from_values(1000, 4 * GIB), Amounts.from_values(1000, 1000)
        pods[number % nodes].append(
            Pod(Ref(NAMESPACE, f"{name}-x", name), held, held, held, UNIT, none, machine=machine, approved=True)
        )
    made = [_node(f"n{number}", each) for number, each in enumerate(pods)]
    where = {uid: node.name for node in made for uid in node.pods}
    return LedgerState(nodes={node.name: node for node in made}, where=where)


def _node(name: str, pods: Iterable[Pod]) -> Node:
    total, nothing = Amounts.from_values(NODE_CPUS * 1000, 4 * NODE_CPUS * GIB), Amounts.zero()
    below = Amounts(tuple(int(each * 0.9) for each in total))
    return recount(Node(name, total, below, nothing, nothing, nothing, {pod.uid: pod for pod in pods}))


def decisions(nodes: int, machines: int) -> int:
    """So many that all are granted: they take half of the room there is, or less."""
    return min(5000, (NODE_CPUS * nodes - machines) * 1000 // UNIT.cpu // 2)


def decision_times(nodes: int, machines: int, requests: int, seed: int) -> dict[str, float]:
    rng, rules = random.Random(seed), Rules()
    with pause_collector():  # as the shipped process makes its ledger
        state = step(ledger(nodes, machines), InitialListCompleted(), NOW, rules).state
    times, used = [], []
    for number in range(requests):
        uid, now = f"m{rng.randrange(machines)}", NOW + number * 0.01
        pod = state.pod(uid)
        assert pod is not None
        wanted = pod.reserved + UNIT
        asked = ResourcesRequested(uid, UNIT, wanted, pod.reserved, lowers_at_once=True)
        begun, busy = time.perf_counter(), time.thread_time()
        decision = step(state, asked, now, rules)
        times.append(time.perf_counter() - begun)
        used.append(time.thread_time() - busy)
        state = decision.state
        granted = state.pod(uid)
        assert granted is not None
        assert granted.reserved == wanted, "there is room for all that is asked for"
        for action in decision.actions:
            state = step(state, WriteResult(action, "ok"), now, rules).state
    return {
        "decision_ms_p50": _ms(times, 0.5),
        "decision_ms_p99": _ms(times, 0.99),
        "decision_cpu_ms_p99": _ms(used, 0.99),
    }


def _ms(times: Sequence[float], share: float) -> float:
    return round(sorted(times)[int(len(times) * share)] * 1e3, 3)


AGENT = {"agentAccounts": ["kube-system/agent"], "agentNode": "any"}
"""One agent asks for the VMs of all nodes."""


async def serve() -> None:
    """The API server, with machines, until it is ended."""
    pace = Pace(poll_s=1.0, wait_s=1.0)
    settings = Settings(
        tokens={TOKEN: Identity("system:serviceaccount:kube-system:agent", ("system:serviceaccounts",))},
        machinery=MachinerySettings(kubelet=KubeletSettings(start_delay=0.1, stop_delay=0.1, lease_renewal=0.0)),
        further=(lambda each: VirtualMachineController(each, pace),),
    )
    async with EmbeddedServer(settings) as running:
        sys.stdout.write(f"listens on {running.url}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().create_future()


async def answer_times(options: argparse.Namespace, url: str, folder: Path) -> dict[str, float]:
    client = connect(Connection(url, "bench"), random.Random(options.seed), qps=100_000, burst=100_000)
    try:
        for definition in definitions():
            await client.create(CUSTOMRESOURCEDEFINITIONS, definition)
        await _create_nodes(client, options.nodes, options.machines)
        authority = _write_files(folder, url)
        running = process(
            folder, "run", "run", "-f", str(folder / "situate.yaml"), "--kubeconfig", str(folder / "kube")
        )
        running.start()
        try:
            await _together(16, [_create_machine(client, f"m{number}") for number in range(options.machines)])
            runners = await _runners(client, options.machines)
            await asyncio.sleep(_SETTLING_S)
            port = _port(running.log)
            async with asking(authority, port) as session:
                return await _asked(session, port, runners, options)
        finally:
            await asyncio.to_thread(running.stop)
    finally:
        await client.close()


async def _asked(
    session: aiohttp.ClientSession, port: int, runners: dict[str, str], options: argparse.Namespace
) -> dict[str, float]:
    """Evenly spread in time, whatever the answers take."""
    rng, url = random.Random(options.seed), f"https://localhost:{port}/"
    held = dict.fromkeys(runners.values(), 1)
    times: list[float] = []
    refused: list[str] = []

    async def one(pod: str, at: float) -> None:
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        wanted = 3 - held[pod]
        body = _body(pod, wanted, held[pod])
        begun = time.perf_counter()
        async with session.post(url, json=body) as answer:
            text = await answer.text()
        times.append(time.perf_counter() - begun)
        if answer.status != 200 or json.loads(text).get("reason") != "granted":
            refused.append(f"{answer.status}: {text}")
        held[pod] = wanted

    began = time.perf_counter() + 1.0
    chosen = rng.sample(sorted(held), min(options.requests, len(held)))
    await asyncio.gather(*(one(pod, began + number / options.per_second) for number, pod in enumerate(chosen)))
    if refused:
        raise SystemExit(f"{len(refused)} of {len(chosen)} were not granted, such as {refused[0]}")
    looks = chosen[:_LOOKS]
    explained = [await _took(session.get(f"{url}explain/pod/{NAMESPACE}/{pod}")) for pod in looks]
    of_nodes = [await _took(session.get(f"{url}explain/node/n{at % options.nodes}")) for at in range(len(looks))]
    tried = [await _took(session.post(f"{url}whatif", json=_what_if(pod))) for pod in looks]
    return {
        "answer_ms_p50": _ms(times, 0.5),
        "answer_ms_p99": _ms(times, 0.99),
        "explain_ms_p99": _ms(explained, 0.99),
        "explain_node_ms_p99": _ms(of_nodes, 0.99),
        "what_if_ms_p99": _ms(tried, 0.99),
    }


async def _took(request: AbstractAsyncContextManager[aiohttp.ClientResponse]) -> float:
    begun = time.perf_counter()
    async with request as answer:
        assert answer.status == 200, await answer.text()
        await answer.read()
    return time.perf_counter() - begun


def _what_if(pod: str) -> dict[str, Any]:
    """A neighbour would have to move."""
    wanted = {"namespace": NAMESPACE, "name": pod, "cpu": str(NODE_CPUS), "memory": f"{4 * NODE_CPUS}Gi"}
    return {"pods": [wanted], "forSeconds": 10}


def _body(pod: str, wanted: int, held: int) -> dict[str, Any]:
    return {
        "protoVersion": 7,
        "pod": {"namespace": NAMESPACE, "name": pod},
        "computeUnit": _UNIT_BODY,
        "resources": {"vCPUs": wanted, "mem": f"{4 * wanted}Gi"},
        "lastPermit": {"vCPUs": min(wanted, held), "mem": f"{4 * min(wanted, held)}Gi"},
        "metrics": None,
        "lowersAtOnce": True,
    }


@asynccontextmanager
async def asking(authority: bytes, port: int) -> AsyncIterator[aiohttp.ClientSession]:
    tls = ssl.create_default_context(cadata=authority.decode())
    connector = aiohttp.TCPConnector(limit=0, ssl=tls)
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield session


def _write_files(folder: Path, url: str) -> bytes:
    """For the scheduler; the authority of its certificate."""
    authority = Authority("bench", datetime.datetime.now(datetime.UTC))
    pair = authority.server(names=("localhost",), addresses=("127.0.0.1",))
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    write_kubeconfig(folder / "kube", kubeconfig(url))
    settings = {
        "apiVersion": "situate.dev/v1alpha1",
        "kind": "Situate",
        "health": {"address": None},
        "leaderElection": {"namespace": NAMESPACE},
        "vm": {"permits": {"address": "127.0.0.1:0", "certificate": "tls.crt", "key": "tls.key", **AGENT}},
    }
    (folder / "situate.yaml").write_text(yaml.safe_dump(settings))
    return authority.certificate


def _port(log: Path) -> int:
    """Of the permit server, as the scheduler's log says."""
    lines = (json.loads(line) for line in log.read_text().splitlines() if "server listens" in line)
    return int(next(lines)["port"])


async def _create_nodes(client: Client, nodes: int, machines: int) -> None:
    """None takes many more machines than another, so that all have room to grow."""
    most = -(-3 * machines // (2 * nodes))
    for number in range(nodes):
        cpus, memory = str(NODE_CPUS), f"{4 * NODE_CPUS}Gi"
        await client.create(NODES, node_object(f"n{number}", cpu=cpus, memory=memory, pods=most))


async def _create_machine(client: Client, name: str) -> None:
    guest = {
        "cpus": {"min": 1, "use": 1, "max": 4},
        "memorySlots": {"min": 1, "use": 4, "max": 16},
        "memorySlotSize": "1Gi",
    }
    metadata = {"name": name, "labels": {ENABLED_LABEL: "true"}}
    await client.create(
        MACHINES, {"metadata": metadata, "spec": {"schedulerName": "situate-vm", "guest": guest}}, NAMESPACE
    )


async def _runners(client: Client, machines: int) -> dict[str, str]:
    """The pods of all machines, once all of them run, by the machines' names."""
    while True:
        found = (await client.list_all(MACHINES, NAMESPACE)).items
        statuses = {each.metadata.name: each.content.get("status", {}) for each in found}
        running = {
            name: str(status["podName"]) for name, status in statuses.items() if status.get("phase") == "Running"
        }
        if len(running) == machines:
            return running
        print(f"{len(running)} of {machines} machines run", file=sys.stderr)
        await asyncio.sleep(2.0)


async def _together(at_once: int, calls: Sequence[Awaitable[None]]) -> None:
    lane = asyncio.Semaphore(at_once)

    async def one(call: Awaitable[None]) -> None:
        async with lane:
            await call

    await asyncio.gather(*map(one, calls))


def measure(options: argparse.Namespace) -> dict[str, float]:
    """What `bench.vm` asks for as well."""
    found = decision_times(options.nodes, options.machines, decisions(options.nodes, options.machines), options.seed)
    with server("bench.vm_permits", "--serve") as cluster, tempfile.TemporaryDirectory() as folder:
        return found | asyncio.run(answer_times(options, cluster.url, Path(folder)))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--machines", type=int, default=2000)
    made.add_argument("--nodes", type=int, default=100)
    made.add_argument("--requests", type=int, default=400)
    made.add_argument("--per-second", type=float, default=20.0)
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    if options.serve:
        asyncio.run(serve())
    else:
        print(json.dumps(measure(options)))


if __name__ == "__main__":
    main()
