"""The policies in the engine: what pods get, what they are told, and why they are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.framework.class_cache.switches import Shortcuts
from situate.framework.engine.decisions import Decision, Placed, Refused
from situate.framework.engine.engine import Engine
from situate.framework.engine.messages import no_node_message
from situate.framework.plugin_api.actions import Bind, Patch
from situate.framework.plugin_api.configuration import KubeSchedulerConfiguration
from situate.framework.plugin_api.events import Change, ClusterEvent, Hint, Subject
from situate.framework.profile.profiles import profiles_of
from situate.objects.kinds.pods import Pod
from situate.objects.settings.section import Mistake, parse_section
from situate.plugins.gpu_share.devices import idle_amounts
from situate.plugins.gpu_share.gpu_share import GpuShare
from situate.plugins.gpu_share.random_score import RandomScore, RandomScoreArgs
from situate.plugins.gpu_share.requests import COUNT, INDEX, MILLI, REQUEST_KEYS, BadRequest, GpuRequest, gpu_request
from situate.plugins.registry import registry
from tests.plugins.gpu_share.gpus import columns, node, placed, pod, random_node, random_pod
from tests.plugins.twins.world import World

TYPICAL = {
    "typicalPods": [{"gpuCount": 1, "gpuMilli": 500, "weight": 3}, {"cpuMilli": 4000, "gpuCount": 2, "gpuMilli": 1000}]
}
POLICIES: Mapping[str, Mapping[str, Any]] = {
    "GpuShare": {},
    "RandomScore": {"seed": 7},
    "DotProductScore": {},
    "GpuClusteringScore": {},
    "GpuPackingScore": {},
    "BestFitScore": {},
    "FGDScore": TYPICAL,
}


def configured(plugin: str, arguments: Mapping[str, Any] | None) -> tuple[Any, tuple[Mistake, ...]]:
    configs = [] if arguments is None else [{"name": plugin, "args": dict(arguments)}]
    multi = {"enabled": [{"name": plugin}], "disabled": [{"name": "DefaultPreemption"}]}
    profile = {"schedulerName": "here", "plugins": {"multiPoint": multi}, "pluginConfig": configs}
    configuration, mistakes = parse_section({"profiles": [profile]}, KubeSchedulerConfiguration)
    assert configuration is not None, mistakes
    return profiles_of(configuration, registry(())[0])


def engine(plugin: str = "GpuShare", *, by_class: bool = True) -> Engine:
    profiles, mistakes = configured(plugin, POLICIES[plugin])
    assert not mistakes
    return Engine(profiles, shortcuts=Shortcuts(classes=by_class))


def decided(engine: Engine, each: Pod, now: float = 0.0) -> Decision:
    engine.set_pod(each, now)
    decision = engine.schedule(now)
    assert decision is not None
    assert not hasattr(decision, "questions")
    return decision


def told(engine: Engine, uid: str) -> str:
    known = engine.cache.pod(uid)
    assert known is not None
    return known.info.pod.metadata.annotations.get(INDEX, "")


def devices(engine: Engine) -> list[list[int]]:
    """By device: idle on each node."""
    found: list[list[int]] = idle_amounts(engine.snapshot).tolist()
    return found


@pytest.mark.parametrize("plugin", POLICIES)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=6, deadline=None)
def test_no_device_is_given_out_twice_and_none_is_lost(plugin: str, seed: int) -> None:
    """Pods come, go and fail to be bound; with and without what is kept per class the same happens."""
    random = Random(seed)
    nodes = [random_node(random, number) for number in range(8)]
    fast, plain = engine(plugin), engine(plugin, by_class=False)
    kinds = [random_pod(random, f"kind-{number}") for number in range(5)]
    there: dict[str, tuple[Pod, Placed, Placed]] = {}
    for each in nodes:
        fast.set_node(each, 0.0)
        plain.set_node(each, 0.0)
    for turn in range(50):
        if there and random.random() < 0.3:
            name = random.choice(sorted(there))
            _, one, other = there.pop(name)
            if random.random() < 0.5:
                fast.binding_failed(one, float(turn))
                plain.binding_failed(other, float(turn))
            for each_engine in (fast, plain):
                each_engine.remove_pod(name, float(turn))
        new = random.choice(kinds)
        name = f"pod-{turn}"
        new = Pod(
            type(new.metadata)(name=name, namespace="default", uid=name, annotations=new.metadata.annotations), new.spec
        )
        one_way, other_way = decided(fast, new, turn), decided(plain, new, turn)
        assert type(one_way) is type(other_way)
        if isinstance(one_way, Placed) and isinstance(other_way, Placed):
            assert (one_way.node, told(fast, name)) == (other_way.node, told(plain, name))
            there[name] = new, one_way, other_way
        else:
            for each_engine in (fast, plain):
                each_engine.remove_pod(name, float(turn))
        assert devices(fast) == devices(plain) == counted(fast, there)


def counted(engine: Engine, there: Mapping[str, tuple[Pod, Placed, Placed]]) -> list[list[int]]:
    """What is idle, added up from what each pod was told."""
    names = list(engine.snapshot.nodes.names)
    rooms = [int(engine.cache.node(name).status.allocatable[COUNT].value) for name in names]  # type: ignore[union-attr] # known
    width = max(rooms)
    free = [[1000 if device < room else 0 for room in rooms] for device in range(width)]
    for name, (each, where, _) in there.items():
        wanted = gpu_request(each.metadata.annotations)
        given = [int(device) for device in told(engine, name).split("-")] if told(engine, name) else []
        assert len(given) == len(set(given)) == (0 if wanted is None else wanted.count)
        for device in given:
            assert wanted is not None
            assert device < rooms[names.index(where.node)]
            free[device][names.index(where.node)] -= wanted.milli
    assert all(0 <= left <= 1000 for row in free for left in row), "no device holds more than it has"
    return free


def test_a_pod_is_told_its_devices_before_it_is_bound() -> None:
    here = engine()
    here.set_node(node("n", gpus=4), 0.0)
    first = decided(here, pod("a", gpus=2))
    assert isinstance(first, Placed)
    binding = here.binding(first)
    assert binding.before == (
        Patch("pods", ("default", "a"), {"metadata": {"uid": "a", "annotations": {INDEX: "0-1"}}}),
    )
    assert binding.bind == (Bind(("default", "a"), "a", "n"),)
    plain = decided(here, pod("cpu"))
    assert isinstance(plain, Placed)
    assert here.binding(plain).before == ()


def test_a_share_goes_to_the_tightest_device_and_stays_on_one() -> None:
    here = engine()
    here.set_node(node("n", gpus=2), 0.0)
    for name, milli in (("a", 600), ("b", 300), ("c", 500), ("d", 400)):
        decided(here, pod(name, gpus=1, milli=milli))
    assert [told(here, name) for name in "abcd"] == ["0", "0", "1", "1"]
    assert devices(here) == [[100], [100]]
    refused = decided(here, pod("e", gpus=1, milli=200))
    assert isinstance(refused, Refused), "200 are idle, but not on one device"
    assert no_node_message(refused.diagnosis) == "0/1 nodes are available: 1 node(s) didn't have enough idle GPUs."


def test_reasons_say_what_is_missing() -> None:
    here = engine()
    for each in (node("none", gpus=0), node("few", gpus=1, model="T4"), node("other", gpus=2, model="A10")):
        here.set_node(each, 0.0)
    here.set_node(node("busy", gpus=2, model="T4"), 0.0)
    here.set_pod(pod("there", gpus=1, milli=10, index="1", on="busy"), 0.0)
    refused = decided(here, pod("a", gpus=2, models="T4|V100"))
    assert isinstance(refused, Refused)
    assert no_node_message(refused.diagnosis) == (
        "0/4 nodes are available: 1 node(s) didn't have GPUs of the wanted model, "
        "1 node(s) didn't have enough idle GPUs, 2 node(s) didn't have enough GPUs."
    )


def test_a_request_for_more_devices_than_any_node_has_is_refused_by_every_policy() -> None:
    for name in POLICIES:
        here = engine(name)
        here.set_node(node("n", gpus=1), 0.0)
        assert isinstance(decided(here, pod("a", gpus=8)), Refused), name
        assert isinstance(decided(here, pod("b", gpus=1)), Placed), name


@pytest.mark.parametrize("name", POLICIES)
def test_an_annotation_that_cannot_be_read_is_named_and_stops_nobody_else(name: str) -> None:
    here = engine(name)
    here.set_node(node("n"), 0.0)
    bad = pod("bad", gpus=1)
    bad = Pod(
        type(bad.metadata)(name="bad", namespace="default", uid="bad", annotations={COUNT: "1", MILLI: "1.5k"}),
        bad.spec,
    )
    refused = decided(here, bad)
    assert isinstance(refused, Refused)
    assert "annotation alibabacloud.com/gpu-milli is '1.5k'; allowed: whole numbers from 0 to 1000" in no_node_message(
        refused.diagnosis
    )
    assert isinstance(decided(here, pod("good", gpus=1, milli=500)), Placed)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({MILLI: "250"}, GpuRequest(1, 250), id="a share of one"),
        pytest.param({COUNT: "2"}, GpuRequest(2, 1000), id="whole ones"),
        pytest.param({COUNT: "0", MILLI: "500"}, None, id="of none"),
        pytest.param({COUNT: "1", MILLI: "0"}, None, id="nothing of one"),
        pytest.param({COUNT: "1", REQUEST_KEYS[2]: "|A||B"}, GpuRequest(1, 1000, ("A", "B")), id="models"),
        pytest.param({REQUEST_KEYS[2]: "A"}, None, id="a model of none"),
    ],
)
def test_requests(said: dict[str, str], meant: GpuRequest | None) -> None:
    assert gpu_request(said) == meant


@pytest.mark.parametrize("text", ["", "-1", "1001", "99999999999999999999", "0x10", "1 ", "①", "500m"])
def test_bad_requests(text: str) -> None:
    with pytest.raises(BadRequest, match=r"gpu-milli is .*allowed: whole numbers from 0 to 1000"):
        gpu_request({MILLI: text})


@pytest.mark.parametrize("index", ["x", "0-", "-1", "5000", "99", "0--1", "1.0"])
def test_an_index_that_says_nothing_holds_nothing(index: str) -> None:
    here = engine()
    here.set_node(node("n", gpus=2), 0.0)
    here.set_pod(pod("there", gpus=1, index=index, on="n"), 0.0)
    assert devices(here) == [[1000], [1000]]


def test_two_schedulers_may_have_promised_the_same_device() -> None:
    here = engine("FGDScore")
    here.set_node(node("n", gpus=2), 0.0)
    for name in ("a", "b"):
        here.set_pod(pod(name, gpus=1, index="0", on="n"), 0.0)
    assert devices(here) == [[0], [1000]]
    assert isinstance(decided(here, pod("c", gpus=1)), Placed)
    assert told(here, "c") == "1"


def test_what_wakes_a_refused_pod() -> None:
    here = engine()
    here.set_node(node("n", gpus=1), 0.0)
    for name in ("a", "b"):
        here.set_pod(pod(name, gpus=1), 0.0)
    first, second = here.schedule(0.0), here.schedule(0.0)
    assert isinstance(first, Placed)
    assert isinstance(second, Refused)
    here.set_pod(pod("other"), 1.0)
    assert isinstance(here.schedule(1.0), Placed)
    here.remove_pod("other", 2.0)
    assert here.schedule(20.0) is None, "no device came free"
    here.remove_pod("a", 21.0)
    here.tick(60.0)
    assert isinstance(here.schedule(60.0), Placed)


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        pytest.param(None, node("n", gpus=2, model="T4"), Hint.QUEUE, id="a new node that would do"),
        pytest.param(None, node("n", gpus=1, model="T4"), Hint.SKIP, id="too few"),
        pytest.param(None, node("n", gpus=2, model="A10"), Hint.SKIP, id="another model"),
        pytest.param(node("n", gpus=0, model="T4"), node("n", gpus=2, model="T4"), Hint.QUEUE, id="devices came up"),
        pytest.param(node("n", gpus=2), node("n", gpus=2, model="T4"), Hint.QUEUE, id="it says its model now"),
        pytest.param(node("n", gpus=2, model="T4"), node("n", gpus=4, model="T4"), Hint.QUEUE, id="more devices"),
        pytest.param(node("n", gpus=2, model="T4"), node("n", gpus=2, model="T4"), Hint.SKIP, id="nothing new"),
    ],
)
def test_hints_about_nodes(before: Any, after: Any, hint: Hint) -> None:
    _, info = columns(World(()), pod("a", gpus=2, models="T4"))
    change = Change.ADD if before is None else Change.ALLOCATABLE
    (asked,) = (
        each for each in GpuShare().events() if each.concerns(ClusterEvent(Subject.NODE, change, before, after))
    )
    assert asked.hint is not None
    assert asked.hint(info, before, after) is hint


def test_random_choices_are_even_and_can_be_repeated() -> None:
    world = World(tuple(node(f"n{number}") for number in range(4)))
    chosen: Counter[int] = Counter()
    for number in range(400):
        snapshot, info = columns(world, pod(f"pod-{number}", gpus=1, milli=500))
        one, again = (RandomScore(RandomScoreArgs(3)).pre_score(None, info, snapshot).state for _ in range(2))
        assert one == again
        chosen[one] += 1
    assert set(chosen) == {0, 1, 2, 3}
    assert max(chosen.values()) < 150
    snapshot, info = columns(world, pod("pod", gpus=1))
    assert len({RandomScore(RandomScoreArgs(seed)).pre_score(None, info, snapshot).state for seed in range(50)}) == 4


def test_the_policies_are_loaded_by_name_and_belong_to_no_profile_by_default() -> None:
    shipped, _ = registry(())
    assert POLICIES.keys() <= shipped.types.keys()
    assert not {plugin.name for plugin in shipped.defaults} & POLICIES.keys()


@pytest.mark.parametrize("arguments", [None, {}, {"typicalPods": [{"cpuMilli": 1000}]}])
def test_descent_has_to_know_which_pods_usually_come(arguments: dict[str, Any] | None) -> None:
    _, mistakes = configured("FGDScore", arguments)
    assert [mistake.allowed for mistake in mistakes] == ["the typical kinds of pods, at least one of them with a GPU"]
    assert mistakes[0].path.endswith(".args.typicalPods")


def test_a_pod_in_place_keeps_its_devices_when_it_is_confirmed() -> None:
    here = engine()
    here.set_node(node("n", gpus=2), 0.0)
    decided(here, pod("a", gpus=1, milli=300))
    here.set_pod(placed(pod("a", gpus=1, milli=300), "n", "0"), 1.0)
    assert devices(here) == [[700], [1000]]
    here.set_pod(placed(pod("a", gpus=1, milli=300), "n", "1"), 2.0)
    assert devices(here) == [[1000], [700]], "it says that it has another one"
