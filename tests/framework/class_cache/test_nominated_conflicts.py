from __future__ import annotations

from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.framework.class_cache.switches import Shortcuts
from situate.framework.engine.decisions import Placed
from situate.framework.engine.engine import Engine
from situate.objects.kinds.pods import Pod
from tests.framework.clusters import a_node, a_pod, default_profile, read

NODES = [f"node-{number}" for number in range(4)]


def important(name: str, cpu: str) -> Pod:
    pod = a_pod(name, cpu)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=5))


def story(seed: int, steps: int, shortcuts: Shortcuts) -> list[str]:
    """Pods of two kinds find their nodes, and others go, while promises are made and taken back."""
    random = Random(seed)
    engine = Engine([default_profile()], shortcuts=shortcuts)
    for name in NODES:
        engine.set_node(a_node(name, pods="8"), 0.0)
    told: list[str] = []
    placed: list[str] = []
    promised: list[str] = []
    for number in range(steps):
        match random.randrange(5):
            case 0:
                promised.append(f"important-{number}")
                other = read(engine, important(promised[-1], random.choice(("1", "3500m"))))
                engine.nominations.nominate(other, random.choice(NODES))
            case 1 if promised:
                engine.nominations.remove(promised.pop(random.randrange(len(promised))))
            case 2 if placed:
                engine.remove_pod(placed.pop(random.randrange(len(placed))), float(number))
            case _:
                name = f"pod-{number}"
                engine.set_pod(a_pod(name, random.choice(("250m", "1"))), float(number))
                decision = engine.schedule(float(number))
                told.append(decision.node if isinstance(decision, Placed) else "none")
                if isinstance(decision, Placed):
                    placed.append(name)
                else:
                    engine.remove_pod(name, float(number))
    return told


@given(st.integers(0, 2**32 - 1), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_what_is_remembered_of_promises_changes_no_placement(seed: int, steps: int) -> None:
    assert story(seed, steps, Shortcuts()) == story(seed, steps, Shortcuts(classes=False))
