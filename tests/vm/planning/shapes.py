"""Small clusters for tests of planning, in whole units of 1 CPU and 1 GiB: `node("n1", 10, vm("a", 4))`."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from situate.vm.model.migrations import Beneficiary, BeneficiaryKind, Claim, Move, Stage
from situate.vm.model.node_accounting import recount
from situate.vm.model.pods_and_nodes import Load, Machine, Node, Phase, Pod, Ref, Role
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState

UNIT = Amounts.from_values(1000, 2**30)
NOW = 1_000_000.0
RULES = Rules()


def units(cpu: int, memory: int | None = None) -> Amounts:
    return Amounts.from_values(cpu * 1000, (cpu if memory is None else memory) * 2**30)


def vm(
    name: str,
    held: int | Amounts,
    wants: int | Amounts | None = None,
    *,
    created: float = 0.0,
    priority: int = 0,
    migratable: bool = True,
    overcommit: int = 1000,
    load: Load | None = None,
    moved_at: tuple[float, ...] = (),
    role: Role = Role.IDLE,
    phase: Phase = Phase.RUNNING,
    own: bool = True,
) -> Pod:
    """Machine `name` of uid `vm-name` in a pod of uid `name`."""
    reserved = units(held) if isinstance(held, int) else held
    requested = reserved if wants is None else units(wants) if isinstance(wants, int) else wants
    about = Machine(
        Ref("shop", name, f"vm-{name}"),
        own=own,
        autoscaled=True,
        role=role,
        migratable=migratable,
        phase=phase,
        load=load or Load(),
        moved_at=moved_at,
    )
    return Pod(
        Ref("shop", name, name),
        reserved,
        requested,
        reserved,
        UNIT,
        Amounts.from_values(overcommit, overcommit),
        created_at=created,
        priority=priority,
        machine=about,
    )


def plain(name: str, held: int, *, priority: int = 0, created: float = 0.0) -> Pod:
    """A pod that is no machine."""
    pod = vm(name, held, priority=priority, created=created)
    return replace(pod, machine=None, factor=Amounts.zero())


def node(name: str, size: int | Amounts, *pods: Pod, watermark: float = 1.0) -> Node:
    total = units(size) if isinstance(size, int) else size
    below = Amounts(tuple(int(each * watermark) for each in total))
    nothing = Amounts.zero()
    return recount(Node(name, total, below, nothing, nothing, nothing, {pod.uid: pod for pod in pods}))


def state(*nodes: Node, moves: tuple[Move, ...] = (), claims: tuple[Claim, ...] = ()) -> LedgerState:
    return LedgerState(
        nodes={each.name: each for each in nodes},
        where={uid: each.name for each in nodes for uid in each.pods},
        moves={move.key: move for move in moves},
        claims={claim.id: claim for claim in claims},
        started=True,
    )


def move(
    name: str,
    source: str,
    target: str,
    held: int = 1,
    *,
    stage: Stage = Stage.COPYING,
    created: float = 0.0,
    claim: str = "",
) -> Move:
    """Of machine `name`, whose pod has that uid."""
    return Move(
        f"schedplugin-{name}",
        "plan",
        Ref("shop", name, f"vm-{name}"),
        Ref("shop", name, name),
        source,
        target,
        units(held),
        created,
        stage=stage,
        claim=claim,
        requested_at=None if stage is Stage.PLANNED else created,
    )


def cluster(rng: Random, nodes: int, on_first: int, *, asks: int | None = None, watermark: float = 0.9) -> LedgerState:
    """Machines of all shapes; `short` on the first node wants more than is free there."""
    size = 16
    made = []
    for number in range(nodes):
        pods, left = [], int(size * watermark) - (3 if number == 0 else 0)
        for index in range(on_first if number == 0 else rng.randint(0, 6)):
            held = min(left, rng.randint(1, 4))
            if held > 0:
                pods.append(_anybody(rng, f"p{number}-{index}", held))
                left -= held
        if number == 0:
            reserved = node("", size, *pods).reserved
            free = size - 3 - reserved.cpu // 1000, size - 3 - reserved.memory // 2**30
            wanted = rng.randint(1, 6) if asks is None else asks
            short = units(3 + free[0] + wanted, 3 + free[1] + rng.choice((wanted, wanted, 0)))
            pods.append(vm("short", units(3), short, priority=rng.choice((0, 0, 5)), migratable=rng.random() < 0.3))
        made.append(node(f"n{number:03}", size, *pods, watermark=watermark))
    return state(*made)


def _anybody(rng: Random, name: str, held: int) -> Pod:
    load = Load(
        load1=rng.choice((0.0, 0.5, 2.0)),
        dirty_rate=rng.choice((None, 10.0 * 2**20, 400.0 * 2**20, 2.0 * 2**30)),
        memory_used=rng.choice((0, held * 2**29)),
    )
    moved = rng.choice(((), (), (), (NOW - 7200.0,), (NOW - 60.0,)))
    return vm(
        name,
        Amounts.from_values(held * 1000, rng.randint(1, held) * 2**30),
        created=float(rng.randint(0, 5)),
        priority=rng.choice((0, 0, 0, 2, 9)),
        migratable=rng.random() < 0.9,
        overcommit=rng.choice((1000, 1000, 2000)),
        load=load,
        moved_at=moved,
    )


def claim(ident: str, where: str, whom: str, source: str, amount: Amounts) -> Claim:
    """For the machine whose pod has the uid `whom`."""
    beneficiary = Beneficiary(BeneficiaryKind.VM, Ref("shop", whom, whom))
    return Claim(ident, "plan", where, beneficiary, source, amount, NOW + 3600.0)
