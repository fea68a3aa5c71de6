"""With and without shortcuts, pods with volumes go to the same nodes, and get the same volumes there."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import msgspec

from situate.framework.class_cache.switches import Shortcuts
from situate.framework.engine.decisions import Failed, Placed, PlacedRun
from situate.framework.engine.engine import Engine
from situate.framework.profile.profile import profile_of
from situate.framework.volumes.catalog import Catalog
from situate.framework.volumes.storage import Storage
from situate.objects.kinds.nodes import NodeStatus
from situate.objects.kinds.pods import Container, ResourceRequirements
from situate.objects.values.quantity import parse_quantity
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.node_volume_limits import NodeVolumeLimits
from situate.plugins.priority_sort import PrioritySort
from situate.plugins.volume_binding import VolumeBinding
from situate.plugins.volume_restrictions import VolumeRestrictions
from situate.plugins.volume_zone import VolumeZone
from tests.plugins.volume_worlds import CLAIMS, VOLUMES, a_claim, a_pod, a_volume, volume_case

MEMBERS = (PrioritySort, NodeResourcesFit, VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone)


def story(seed: int, shortcuts: Shortcuts) -> tuple[list[tuple[str, str, tuple[str, ...]]], int]:
    """What becomes of many pods, one time they wait together and another one by one; and pods placed in runs."""
    random = Random(seed)
    world, _ = volume_case(seed, 5, 4)
    engine = Engine([profile_of("here", [(make(), 1) for make in MEMBERS])], shortcuts=shortcuts)
    room = {"cpu": parse_quantity("4"), "memory": parse_quantity("8Gi"), "pods": parse_quantity("20")}
    for node in world.nodes:
        engine.set_node(msgspec.structs.replace(node, status=NodeStatus(allocatable=room)), 0)
    names = [node.metadata.name for node in world.nodes]
    engine.set_catalog(Catalog(storage=Storage.from_objects(world.storage)), (), 0)
    told: list[tuple[str, str, tuple[str, ...]]] = []
    in_runs = 0
    shapes = [a_pod(random, "shape", "").spec for _ in range(3)]
    for step in range(12):
        for number in range(random.choice((1, 1, 6))):
            pod = a_pod(random, f"p{step}-{number}", "")
            spec = random.choice(shapes) if random.random() < 0.6 else pod.spec
            asked = ResourceRequirements(requests={"cpu": parse_quantity("100m")})
            spec = msgspec.structs.replace(spec, scheduler_name="here", containers=(Container(resources=asked),))
            engine.set_pod(msgspec.structs.replace(pod, spec=spec), step)
        while decisions := engine.schedule_run(step, 10):
            for decision in decisions:
                for each in decision if isinstance(decision, PlacedRun) else (decision,):
                    assert not isinstance(each, PlacedRun)
                    info = each.pod.info
                    storage = engine.cache.catalog.storage
                    given = tuple(one.volume.metadata.name for one in storage.reservation(info.uid).given)
                    where = each.node if isinstance(each, Placed) else type(each).__name__
                    told.append((info.name, where, given))
                    if isinstance(each, Failed):
                        engine.remove_pod(info.uid, step)
                in_runs += len(decision) if isinstance(decision, PlacedRun) else 0
        catalog = engine.cache.catalog
        for _ in range(random.choice((0, 0, 2))):
            new = a_claim(random, random.choice(CLAIMS), names)
            catalog = replace(catalog, storage=catalog.storage.with_object(new))
            other = a_volume(random, random.choice(VOLUMES), names)
            catalog = replace(catalog, storage=catalog.storage.with_object(other))
        engine.set_catalog(catalog, (), step)
        if told and random.random() < 0.4:
            engine.remove_pod(random.choice(told)[0], step)
    return told, in_runs


def test_shortcuts_change_nothing_for_pods_with_volumes() -> None:
    outcomes: list[str] = []
    runs = 0
    for seed in range(40):
        plain, alone = story(seed, Shortcuts(classes=False, batches=False))
        quick, in_runs = story(seed, Shortcuts())
        assert quick == plain, f"seed {seed}"
        assert alone == 0
        runs += in_runs
        outcomes += [where for _, where, _ in plain]
    refused = outcomes.count("Refused") / len(outcomes)
    assert 0.1 < refused < 0.9, "both kinds of answer were compared"
    assert runs > 20, "pods without volumes, or with shared ones, went in runs"
