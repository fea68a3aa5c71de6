"""Every plugin about volumes says the same as its plain twin, on random clusters with storage."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.framework.results.status import Code
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.storage import PersistentVolume, PersistentVolumeClaim, StorageObject
from situate.plugins.node_resources_fit import ShapePoint
from situate.plugins.node_volume_limits import NodeVolumeLimits
from situate.plugins.volume_binding import VolumeBinding
from situate.plugins.volume_binding_args import VolumeBindingArgs
from situate.plugins.volume_restrictions import VolumeRestrictions
from situate.plugins.volume_zone import VolumeZone
from tests.plugins.twins import node_volume_limits, volume_binding, volume_restrictions, volume_zone
from tests.plugins.twins.stored import claim_of, find_claim, is_owned
from tests.plugins.twins.world import PASS, Answer, World
from tests.plugins.vector import Vectors
from tests.plugins.volume_worlds import CLAIMS, VOLUMES, a_claim, a_pod, a_volume, volume_case, volume_worlds
from tests.plugins.worlds import Case

FilterTwin = Callable[[Pod, Node, World], Answer]
RefusalTwin = Callable[[Pod, World], str]
SCORING = VolumeBinding(VolumeBindingArgs(shape=(ShapePoint(0, 0), ShapePoint(100, 10))))

TWINS: dict[str, tuple[Any, RefusalTwin, FilterTwin]] = {
    "restrictions": (VolumeRestrictions(), volume_restrictions.refusal, volume_restrictions.filter_node),
    "limits": (NodeVolumeLimits(), lambda pod, world: "", node_volume_limits.filter_node),
    "binding": (VolumeBinding(), volume_binding.refusal, volume_binding.filter_node),
    "zone": (VolumeZone(), volume_zone.refusal, volume_zone.filter_node),
}


def readable(pod: Pod, world: World) -> bool:
    """Whether no volume of it raises: foreign claims have a test of their own."""
    for volume in pod.spec.volumes:
        name = claim_of(pod, volume)
        claim = find_claim(world, pod, name) if name is not None else None
        if volume.ephemeral is not None and claim is not None and not is_owned(claim, pod):
            return False
    return True


def check(vectors: Vectors, plugin: Any, refusal: RefusalTwin, twin: FilterTwin, pod: Pod, world: World) -> str:
    """The kind of answer that was compared."""
    info = vectors.read(pod)
    found = plugin.pre_filter(info, vectors.snapshot)
    wanted = refusal(pod, world)
    if wanted:
        assert found.status.code is Code.UNRESOLVABLE
        assert found.status.reasons == (wanted,)
        return "refused"
    nodes = {node.metadata.name: twin(pod, node, world) for node in world.nodes}
    if found.status.code is Code.SKIP:
        assert nodes == dict.fromkeys(nodes, PASS)
        return "skipped"
    assert found.status.ok, found.status
    assert vectors.filter_with(plugin, found.state, info) == nodes
    return "mixed" if len(set(nodes.values())) > 1 else next(iter(nodes.values())).code


@pytest.mark.parametrize("name", TWINS)
@given(volume_worlds())
@settings(max_examples=300, deadline=None)
def test_filters(name: str, case: Case) -> None:
    world, pod = case.made
    if name != "limits" or readable(pod, world):
        check(Vectors.of(world), *TWINS[name], pod, world)


def test_random_clusters_bring_every_kind_of_answer() -> None:
    kinds: dict[str, set[str]] = {name: set() for name in TWINS}
    for seed in range(150):
        world, pod = volume_case(seed, 4, 6)
        for name, twin in TWINS.items():
            if name != "limits" or readable(pod, world):
                kinds[name].add(check(Vectors.of(world), *twin, pod, world))
    assert {"mixed", "skipped", "Success"} <= kinds["restrictions"] & kinds["limits"] & kinds["binding"] & kinds["zone"]
    assert "refused" in kinds["restrictions"] & kinds["binding"] & kinds["zone"]


@given(volume_worlds())
@settings(max_examples=300, deadline=None)
def test_scores(case: Case) -> None:
    world, pod = case.made
    vectors = Vectors.of(world)
    info = vectors.read(pod)
    prepared = SCORING.pre_filter(info, vectors.snapshot)
    if not prepared.status.ok:
        assert SCORING.pre_score(None, info, vectors.snapshot).code is Code.SKIP
        return
    feasible = np.flatnonzero(SCORING.filter(prepared.state, info, vectors.snapshot).passes)
    view = vectors.snapshot.select_nodes(feasible)
    found = SCORING.score(SCORING.pre_score(prepared.state, info, view).state, info, view)
    assert found.tolist() == [volume_binding.score_node(pod, world.nodes[node], world) for node in feasible.tolist()]


@given(volume_worlds())
@settings(max_examples=300, deadline=None)
def test_what_is_reserved_is_what_the_node_was_chosen_for(case: Case) -> None:
    world, pod = case.made
    vectors = Vectors.of(world)
    info = vectors.read(pod)
    plugin = VolumeBinding()
    prepared = plugin.pre_filter(info, vectors.snapshot)
    if not prepared.status.ok:
        return
    passes = plugin.filter(prepared.state, info, vectors.snapshot).passes
    for index in np.flatnonzero(passes).tolist():
        node = world.nodes[index]
        reserved = plugin.reserve(info, node.metadata.name, vectors.snapshot)
        wanted = volume_binding.find(pod, node, world)
        given = [(each.claim, each.volume.metadata.name) for each in reserved.storage.given]
        assert given == [(claim, volume.metadata.name) for claim, volume in wanted.given]
        assert all(each.volume.is_for(each.claim) for each in reserved.storage.given)
        made = [each.claim.metadata.name for each in reserved.storage.wanted]
        assert made == [claim.metadata.name for claim in wanted.made]
        assert all(each.claim.selected_node == node.metadata.name for each in reserved.storage.wanted)


@given(volume_worlds(), st.lists(st.integers(0, 2**32 - 1), max_size=8))
@settings(max_examples=150, deadline=None)
def test_what_was_counted_follows_pods_and_storage_that_come_and_go(case: Case, seeds: list[int]) -> None:
    world, pod = case.made
    vectors = Vectors.of(world)
    names = [node.metadata.name for node in world.nodes]
    for number, seed in enumerate(seeds):
        for name, twin in TWINS.items():
            if name != "limits" or readable(pod, world):
                check(vectors, *twin, pod, world)
        random = Random(seed)
        snapshot = vectors.snapshot
        if random.random() < 0.4:
            stranger = a_pod(random, f"stranger-{number}", random.choice(names))
            world = world.with_pods(stranger)
            snapshot = snapshot.assume(vectors.read(stranger), snapshot.nodes.index[stranger.spec.node_name])
        elif random.random() < 0.4 and world.pods:
            gone = random.choice(world.pods)
            world = world.without(gone)
            snapshot = snapshot.forget(vectors.read(gone))
        else:
            storage = snapshot.catalog.storage
            each: StorageObject = (
                a_claim(random, random.choice(CLAIMS), names)
                if random.random() < 0.5
                else a_volume(random, random.choice(VOLUMES), names)
            )
            others = tuple(
                other
                for other in world.storage
                if type(other) is not type(each) or other.metadata.name != each.metadata.name
            )
            stays = random.random() < 0.8
            world = dataclasses.replace(world, storage=(*others, each) if stays else others)
            storage = storage.with_object(each) if stays else storage.without_object(each)
            snapshot = snapshot.with_catalog(dataclasses.replace(snapshot.catalog, storage=storage))
        vectors = Vectors(snapshot, vectors.reader)


@given(volume_worlds(pods=6), st.integers(0, 2**16))
@settings(max_examples=150, deadline=None)
def test_one_node_cut_off_from_the_others_answers_as_among_them(case: Case, draw: int) -> None:
    """As preemption asks: with a pod taken away."""
    world, pod = case.made
    if not world.pods or not readable(pod, world):
        return
    vectors = Vectors.of(world)
    info = vectors.read(pod)
    gone = world.pods[draw % len(world.pods)]
    index = vectors.snapshot.nodes.index[gone.spec.node_name]
    for plugin, _, twin in TWINS.values():
        found = plugin.pre_filter(info, vectors.snapshot)
        if not found.status.ok:
            continue
        state = found.state
        if hasattr(plugin, "remove_pod"):
            state = plugin.remove_pod(state, info, vectors.read(gone), index, vectors.snapshot)
            if not set(volume_restrictions.claims(gone)).isdisjoint(volume_restrictions.claims(pod)):
                continue  # others may use the claim as well, which it counts once
        alone = vectors.snapshot.single_node(index).forget(vectors.read(gone))
        wanted = twin(pod, world.nodes[index], world.without(gone))
        assert Vectors(alone, vectors.reader).filter_with(plugin, state, info) == {alone.name(0): wanted}


def test_kinds_of_storage_that_the_worlds_are_made_of() -> None:
    """All fields that a rule reads are set somewhere."""
    claims: list[PersistentVolumeClaim] = []
    volumes: list[PersistentVolume] = []
    for seed in range(60):
        world, _ = volume_case(seed, 3, 3)
        claims += [each for each in world.storage if isinstance(each, PersistentVolumeClaim)]
        volumes += [each for each in world.storage if isinstance(each, PersistentVolume)]
    for listed in ([each.spec for each in claims], [each.spec for each in volumes]):
        for name in listed[0].__struct_fields__:
            assert len({repr(getattr(each, name)) for each in listed}) > 1, name
