"""Pods with volumes in the engine: what is promised to whom, what is to be written, and what comes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from situate.framework.engine.decisions import Failed, Placed, PlacedRun, Refused
from situate.framework.engine.engine import Engine
from situate.framework.engine.messages import no_node_message
from situate.framework.explain.what_if import settle
from situate.framework.plugin_api.actions import AwaitedClaim, AwaitedVolume, AwaitVolumes, Bind, Patch
from situate.framework.plugin_api.changes import discard, store
from situate.framework.profile.profile import profile_of
from situate.framework.queue.scheduling_queue import QueueSettings
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeStatus
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    StorageObject,
    VolumeNodeResources,
)
from situate.objects.values.quantity import parse_quantity
from situate.plugins.default_binder import DefaultBinder
from situate.plugins.default_preemption import DefaultPreemption
from situate.plugins.dynamic_resources import DynamicResources
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.node_volume_limits import NodeVolumeLimits
from situate.plugins.priority_sort import PrioritySort
from situate.plugins.volume_binding import StorageChanged, VolumeBinding
from situate.plugins.volume_binding_args import VolumeBindingArgs
from situate.plugins.volume_binding_progress import TIMED_OUT, Wait, progress
from situate.plugins.volume_restrictions import VolumeRestrictions
from situate.plugins.volume_zone import VolumeZone
from tests.framework.volumes.objects import HOSTNAME, NAMESPACE, claim, ephemeral, pod, storage_class, using, volume


def engine_of(*stored: StorageObject, nodes: tuple[str, ...] = ("a", "b"), timeout_s: int = 600) -> Engine:
    members: list[Any] = [
        PrioritySort(),
        NodeResourcesFit(),
        VolumeRestrictions(),
        NodeVolumeLimits(),
        VolumeBinding(VolumeBindingArgs(timeout_s)),
        VolumeZone(),
        DynamicResources(),
        DefaultPreemption(),
        DefaultBinder(),
    ]
    engine = Engine([profile_of("here", [(each, 1) for each in members])], QueueSettings(pop_from_backoff=False))
    for name in nodes:
        engine.set_node(node(name), 0)
    for each in stored:
        tell(engine, each)
    return engine


def node(name: str) -> Node:
    room = {"cpu": parse_quantity("8"), "memory": parse_quantity("8Gi"), "pods": parse_quantity("10")}
    return Node(ObjectMeta(name=name, labels={HOSTNAME: name}), status=NodeStatus(allocatable=room))


def tell(engine: Engine, stored: StorageObject, now: float = 0) -> None:
    """The watch shows an object."""
    catalog = engine.cache.catalog
    storage, events = store(catalog.storage, stored)
    engine.set_catalog(replace(catalog, storage=storage), events, now)


def tell_gone(engine: Engine, stored: StorageObject, now: float = 0) -> None:
    catalog = engine.cache.catalog
    storage, events = discard(catalog.storage, stored)
    engine.set_catalog(replace(catalog, storage=storage), events, now)


def placed(engine: Engine, waiting: Pod, now: float = 0) -> Placed:
    engine.set_pod(waiting, now)
    decision = engine.schedule(now)
    assert isinstance(decision, Placed), decision
    return decision


def refused(engine: Engine, waiting: Pod, now: float = 0) -> str:
    """Why no node will do."""
    engine.set_pod(waiting, now)
    decision = engine.schedule(now)
    assert isinstance(decision, Refused), decision
    return no_node_message(decision.diagnosis)


LOCAL = storage_class()
NFS = storage_class("nfs", provisioner="nfs")


def test_two_pods_do_not_get_the_same_volume() -> None:
    engine = engine_of(LOCAL, claim("one"), claim("two"), volume("disk", on=("a",)))
    first = placed(engine, pod("first", using("one")))
    assert first.node == "a"
    text = refused(engine, pod("second", using("two")))
    assert text == "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."


def test_a_volume_that_is_not_bound_after_all_is_free_for_the_next_pod() -> None:
    engine = engine_of(LOCAL, claim("one"), claim("two"), volume("disk", on=("a",)))
    first = placed(engine, pod("first", using("one")))
    refused(engine, pod("second", using("two")))
    engine.binding_failed(first, 50)  # it backs off; the second pod hears of the volume
    second = engine.schedule(50)
    assert isinstance(second, Placed)
    assert (second.pod.info.name, second.node) == ("second", "a")


def test_a_pod_that_is_deleted_while_it_is_bound_gives_its_volume_back_once() -> None:
    engine = engine_of(LOCAL, claim("one"), claim("two"), volume("disk", on=("a",)))
    first = placed(engine, pod("first", using("one")))
    engine.remove_pod("first", 1)
    second = placed(engine, pod("second", using("two")), 1)
    engine.binding_failed(first, 2)  # the action fails only now
    assert engine.cache.catalog.storage.reservation("second")
    assert second.node == "a"


def test_what_is_written_before_the_pod_is_bound() -> None:
    engine = engine_of(LOCAL, NFS, claim("old"), claim("new", storage_class="nfs"), volume("disk", on=("b",)))
    binding = engine.binding(placed(engine, pod("p", using("old"), using("new"))))
    assert binding.before == (
        Patch(
            "persistentvolumes",
            ("", "disk"),
            {
                "metadata": {"resourceVersion": "1", "annotations": {BOUND_BY_CONTROLLER: "yes"}},
                "spec": {
                    "claimRef": {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "namespace": NAMESPACE,
                        "name": "old",
                        "uid": "old",
                        "resourceVersion": "1",
                    }
                },
            },
        ),
        Patch(
            "persistentvolumeclaims",
            (NAMESPACE, "new"),
            {"metadata": {"resourceVersion": "1", "annotations": {SELECTED_NODE: "b"}}},
        ),
        AwaitVolumes(
            (NAMESPACE, "p"),
            "p",
            "b",
            (AwaitedVolume("disk", (NAMESPACE, "old"), "old", "1"),),
            (AwaitedClaim((NAMESPACE, "new"), "1"),),
            600.0,
        ),
    )
    assert binding.bind == (Bind((NAMESPACE, "p"), "p", "b"),)


def test_a_volume_that_its_owner_meant_for_the_claim_is_not_marked_as_chosen_by_a_controller() -> None:
    engine = engine_of(LOCAL, claim("mine"), volume("disk", on=("a",), claimed_by="mine", claim_uid=""))
    binding = engine.binding(placed(engine, pod("p", using("mine"))))
    patch = binding.before[0]
    assert isinstance(patch, Patch)
    assert patch.body["metadata"] == {"resourceVersion": "1"}
    assert patch.body["spec"]["claimRef"]["uid"] == "mine"


def test_what_the_server_knows_already_is_only_waited_for() -> None:
    engine = engine_of(
        LOCAL,
        NFS,
        claim("mine"),
        claim("new", storage_class="nfs", selected="a"),
        volume("disk", on=("a",), claimed_by="mine"),
    )
    binding = engine.binding(placed(engine, pod("p", using("mine"), using("new"))))
    (awaited,) = binding.before
    assert isinstance(awaited, AwaitVolumes)
    assert [each.before for each in awaited.given] == [each.before for each in awaited.wanted] == [""]


@pytest.mark.parametrize("volumes", [pytest.param((), id="none"), pytest.param((using("mine"),), id="a bound one")])
def test_a_pod_whose_volumes_are_bound_is_bound_at_once(volumes: Any) -> None:
    engine = engine_of(claim("mine", volume="disk", bound=True), volume("disk", claimed_by="mine"))
    binding = engine.binding(placed(engine, pod("p", *volumes)))
    assert binding.before == ()


def awaited_of(engine: Engine, waiting: Placed) -> AwaitVolumes:
    awaited = engine.binding(waiting).before[-1]
    assert isinstance(awaited, AwaitVolumes)
    return awaited


def test_storage_becomes_ready_as_the_watch_shows_it() -> None:
    engine = engine_of(LOCAL, claim("mine"), volume("disk", on=("a",)))
    first = placed(engine, pod("p", using("mine")))
    awaited = awaited_of(engine, first)
    assert progress(awaited, engine.snapshot) is Wait.NOT_YET  # a promise is not the real thing
    tell(engine, volume("disk", on=("a",), claimed_by="mine", version="2"))
    assert progress(awaited, engine.snapshot) is Wait.NOT_YET
    tell(engine, claim("mine", volume="disk", bound=True, version="2"))
    assert progress(awaited, engine.snapshot) is Wait.READY
    engine.binding_succeeded(first)
    engine.set_pod(msgspec.structs.replace(first.pod.info.pod, spec=on(first, "a")), 1)
    assert not engine.cache.catalog.storage.promises.by_pod


def on(waiting: Placed, name: str) -> Any:
    return msgspec.structs.replace(waiting.pod.info.pod.spec, node_name=name)


def test_a_volume_is_made_where_the_pod_goes() -> None:
    engine = engine_of(NFS, claim("mine", storage_class="nfs"))
    first = placed(engine, pod("p", using("mine")))
    awaited = awaited_of(engine, first)
    tell(engine, claim("mine", storage_class="nfs", selected=first.node, version="2"))
    assert progress(awaited, engine.snapshot) is Wait.NOT_YET
    tell(engine, claim("mine", storage_class="nfs", selected=first.node, volume="new", bound=True, version="3"))
    assert progress(awaited, engine.snapshot) is Wait.NOT_YET  # its volume has not been shown
    tell(engine, volume("new", storage_class="nfs", claimed_by="mine"))
    assert progress(awaited, engine.snapshot) is Wait.READY


MADE = claim("mine", storage_class="nfs", selected="a", version="2")


@pytest.mark.parametrize(
    ("news", "text"),
    [
        pytest.param(
            [claim("mine", storage_class="nfs", version="3")],
            'binding volumes: provisioning failed for PVC "mine"',
            id="the provisioner asks for another node",
        ),
        pytest.param(
            [
                claim("mine", storage_class="nfs", selected="a", volume="new", version="3"),
                volume("new", storage_class="nfs", claimed_by="mine", on=("b",)),
            ],
            'binding volumes: pv "new" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            id="it was made elsewhere",
        ),
        pytest.param(
            [volume("disk", on=("a",), version="3")], 'binding volumes: ClaimRef got reset for pv "disk"', id="unbound"
        ),
        pytest.param(
            [volume("disk", on=("a",), claimed_by="other", version="3")],
            'binding volumes: ClaimRef got reset for pv "disk"',
            id="somebody else's",
        ),
        pytest.param(
            [volume("disk", on=("b",), claimed_by="old", version="3")],
            'binding volumes: pv "disk" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            id="moved",
        ),
    ],
)
def test_storage_that_cannot_become_ready_any_more_fails_the_binding(news: list[StorageObject], text: str) -> None:
    engine = engine_of(
        LOCAL, NFS, claim("old"), claim("mine", storage_class="nfs"), volume("disk", on=("a",)), nodes=("a",)
    )
    first = placed(engine, pod("p", using("old"), using("mine")))
    awaited = awaited_of(engine, first)
    tell(engine, volume("disk", on=("a",), claimed_by="old", version="2"))
    tell(engine, MADE)
    for each in news:
        tell(engine, each)
    assert progress(awaited, engine.snapshot) == text
    engine.binding_failed(first, 1)
    engine.tick(10)
    again = engine.schedule(10)
    assert again is not None, "it is tried again without an event"


@pytest.mark.parametrize(
    ("gone", "text"),
    [
        pytest.param(volume("disk"), 'failed to check binding: persistentvolume "disk" not found', id="the volume"),
        pytest.param(
            claim("old"), 'failed to check binding: persistentvolumeclaim "default/old" not found', id="the claim"
        ),
        pytest.param(
            claim("mine"),
            'failed to check provisioning pvc: persistentvolumeclaim "default/mine" not found',
            id="the claim to make one for",
        ),
    ],
)
def test_storage_that_is_gone_fails_the_binding(gone: StorageObject, text: str) -> None:
    engine = engine_of(LOCAL, NFS, claim("old"), claim("mine", storage_class="nfs"), volume("disk", on=("a",)))
    awaited = awaited_of(engine, placed(engine, pod("p", using("old"), using("mine"))))
    tell_gone(engine, gone)
    assert progress(awaited, engine.snapshot) == f"binding volumes: {text}"


def test_a_node_that_is_gone_fails_the_binding() -> None:
    engine = engine_of(LOCAL, claim("mine"), volume("disk", on=("a",)))
    awaited = awaited_of(engine, placed(engine, pod("p", using("mine"))))
    engine.remove_node("a", 1)
    assert progress(awaited, engine.snapshot) == 'binding volumes: failed to get node "a": node "a" not found'


def test_nobody_waits_for_the_storage_of_a_pod_that_is_gone() -> None:
    engine = engine_of(LOCAL, claim("mine"), volume("disk", on=("a",)))
    awaited = awaited_of(engine, placed(engine, pod("p", using("mine"))))
    engine.remove_pod("p", 1)
    text = 'binding volumes: pod does not exist any more: pod "p" not found'
    assert progress(awaited, engine.snapshot) == text


@pytest.mark.parametrize("timeout_s", [600, 0])
def test_how_long_to_wait_is_a_value(timeout_s: int) -> None:
    engine = engine_of(LOCAL, claim("mine"), volume("disk", on=("a",)), timeout_s=timeout_s)
    first = placed(engine, pod("p", using("mine")))
    assert awaited_of(engine, first).timeout_s == timeout_s
    assert TIMED_OUT.startswith("binding volumes: ")
    engine.binding_failed(first, timeout_s)
    assert not engine.cache.catalog.storage.promises.by_pod
    engine.tick(timeout_s + 10)
    assert isinstance(engine.schedule(timeout_s + 10), Placed)


def test_a_claim_whose_node_has_been_chosen_keeps_other_pods_of_it_there() -> None:
    engine = engine_of(NFS, claim("shared", storage_class="nfs"))
    first = placed(engine, pod("first", using("shared")))
    second = placed(engine, pod("second", using("shared")))
    assert first.node == second.node


def test_a_pod_waits_for_its_claim_and_takes_its_turn_when_it_comes() -> None:
    engine = engine_of(NFS)
    waiting = pod("p", ephemeral("scratch"))
    text = refused(engine, waiting)
    assert text == (
        "0/2 nodes are available: "
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch".'
    )
    tell(engine, claim("other", storage_class="nfs"), 50)
    assert engine.schedule(50) is None
    tell(engine, claim("p-scratch", storage_class="nfs", owner="p"), 50)
    assert isinstance(engine.schedule(50), Placed)


def test_a_claim_for_one_pod_is_not_given_to_a_second_one_until_the_first_has_gone() -> None:
    single = claim("single", volume="disk", bound=True, access_modes=("ReadWriteOncePod",))
    engine = engine_of(single, volume("disk", claimed_by="single"))
    first = placed(engine, pod("first", using("single")))
    engine.binding_succeeded(first)
    engine.set_pod(msgspec.structs.replace(first.pod.info.pod, spec=on(first, first.node)), 0)
    text = refused(engine, pod("second", using("single")))
    assert "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already" in text
    engine.remove_pod("first", 50)
    assert isinstance(engine.schedule(50), Placed)


def limited(name: str, count: int) -> CSINode:
    return CSINode(ObjectMeta(name=name), CSINodeSpec((CSINodeDriver("csi", VolumeNodeResources(count)),)))


def test_a_node_takes_as_many_volumes_as_it_can() -> None:
    stored: list[StorageObject] = [limited("a", 1), limited("b", 2)]
    for number in range(4):
        stored.append(claim(f"c{number}", volume=f"v{number}", bound=True))
        stored.append(volume(f"v{number}", claimed_by=f"c{number}", driver="csi"))
    engine = engine_of(*stored)
    nodes = [placed(engine, pod(f"p{number}", using(f"c{number}"))).node for number in range(3)]
    assert sorted(nodes) == ["a", "b", "b"]
    text = refused(engine, pod("p3", using("c3")))
    assert text == "0/2 nodes are available: 2 node(s) exceed max volume count."
    tell(engine, limited("a", 2), 50)
    again = engine.schedule(50)
    assert isinstance(again, Placed)
    assert again.node == "a"


def test_a_pod_of_more_importance_gets_the_claim_that_only_one_pod_may_use() -> None:
    single = claim("single", volume="disk", bound=True, access_modes=("ReadWriteOncePod",))
    engine = engine_of(single, volume("disk", claimed_by="single"))
    first = placed(engine, pod("first", using("single")))
    engine.binding_succeeded(first)
    engine.set_pod(msgspec.structs.replace(first.pod.info.pod, spec=on(first, first.node)), 0)
    engine.set_pod(pod("second", using("single"), priority=10), 0)
    decision = engine.schedule(0)
    assert isinstance(decision, Refused)
    assert decision.post_filter is not None
    assert decision.post_filter.nominate == first.node
    assert [type(action).__name__ for action in decision.actions][:1] == ["Evict"]


def test_a_node_whose_volume_was_taken_while_extenders_were_asked_is_not_taken_any_more() -> None:
    """The filters have passed it, and Reserve is asked on a snapshot that came later."""
    engine = engine_of(LOCAL, claim("one"), claim("two"), volume("disk", on=("a",)))
    late = engine.cache.reader.read(pod("late", using("two")))
    plugin = VolumeBinding()
    prepared = plugin.pre_filter(late, engine.snapshot)
    assert plugin.filter(prepared.state, late, engine.snapshot).passes[engine.snapshot.nodes.index["a"]]
    placed(engine, pod("first", using("one")))
    with pytest.raises(StorageChanged, match="node a has no volumes for pod default/late any more"):
        plugin.reserve(late, "a", engine.snapshot)
    tell_gone(engine, claim("two"))
    status = plugin.reserve(late, "a", engine.snapshot).status
    assert status.message == 'persistentvolumeclaim "two" not found'


def test_what_if_shares_out_volumes_as_the_scheduler_would() -> None:
    engine = engine_of(LOCAL, claim("one"), claim("two"), volume("disk", on=("a",)))
    branch = engine.branch()
    branch.set_pod(pod("first", using("one")), 0)
    branch.set_pod(pod("second", using("two")), 0)
    outcomes = settle(branch, 0)
    assert [outcome.node for outcome in outcomes.values()] == ["a", ""]
    assert not engine.cache.catalog.storage.promises.by_pod


def test_pods_that_claim_devices_are_told_who_can_help_them() -> None:
    engine = engine_of()
    claiming = msgspec.convert(
        {
            "metadata": {"name": "p", "namespace": NAMESPACE, "uid": "p"},
            "spec": {"schedulerName": "here", "resourceClaims": [{"name": "gpu"}, {"name": "nic"}]},
        },
        Pod,
    )
    assert refused(engine, claiming) == (
        "0/2 nodes are available: pod claims devices (spec.resourceClaims: gpu, nic), which this scheduler does not "
        "allocate; set schedulerName to a scheduler that supports dynamic resource allocation, such as kube-scheduler."
    )
    tell(engine, LOCAL, 50)
    assert engine.schedule(50) is None, "nothing that happens can help it"


def test_a_storage_class_without_a_mode_fails_the_pod_alone_and_is_named() -> None:
    engine = engine_of(storage_class("odd", mode=None), claim("mine", storage_class="odd"))
    engine.set_pod(pod("p", using("mine")), 0)
    failed = engine.schedule(0)
    assert isinstance(failed, Failed)
    assert (failed.plugin, 'VolumeBindingMode not set for StorageClass "odd"' in failed.error) == (
        "VolumeBinding",
        True,
    )
    assert isinstance(placed(engine, pod("other")), Placed)


def test_pods_with_and_without_volumes_share_what_is_known_of_their_class() -> None:
    """A claim of its own does not make a pod a class of its own, and a run goes on behind it."""
    engine = engine_of(NFS, claim("mine", storage_class="nfs"))
    for name, volumes in (("one", ()), ("two", (using("mine"),)), ("three", ())):
        engine.set_pod(pod(name, *volumes), 0)
    infos = [waiting.info for waiting in engine.queue]
    assert len({id(info.template) for info in infos}) == 1
    decisions = [decision for _ in range(3) for decision in engine.schedule_run(0, 10)]
    placed = [each for decision in decisions for each in (decision if isinstance(decision, PlacedRun) else (decision,))]
    assert all(isinstance(each, Placed) for each in placed)
    assert len(placed) == 3
