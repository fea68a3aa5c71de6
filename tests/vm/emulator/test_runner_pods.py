"""The pod that a machine moves into."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vm.emulator.runner_pods import CONTAINER, pod_name, runner_pod, target_pod
from situate.vm.emulator.settings import Settings
from tests.vm.emulator.town import Town, receives

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
Json = dict[str, Any]


def made(machine: Json | None = None, move: Json | None = None) -> Json:
    town = Town()
    vm = town.running(spec=machine or {})
    migration = town.migration(spec=move or {})
    return target_pod(vm, town.pod("vm-source"), migration, "vm-target", Settings())


def expression(key: str, *values: str) -> Json:
    return {"key": key, "operator": "In", "values": list(values)}


def terms(*alternatives: list[Json]) -> Json:
    return {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": each} for each in alternatives]}}


@pytest.mark.rule("vm:C34", "vm:C3")
def test_it_waits_for_a_move_on_another_host_and_is_the_migrations() -> None:
    pod = made()
    assert receives(pod)
    term = {"labelSelector": {"matchLabels": {"vm.neon.tech/name": "vm"}}, "topologyKey": "kubernetes.io/hostname"}
    assert pod["spec"]["affinity"] == {"podAntiAffinity": {REQUIRED: [term]}}
    owners = [(each["kind"], each["controller"]) for each in pod["metadata"]["ownerReferences"]]
    assert owners == [("VirtualMachineMigration", True), ("VirtualMachine", False)]
    assert "affinity" not in made(move={"preventMigrationToSameHost": False})["spec"]


def test_anti_affinity_of_the_machine_itself_stays() -> None:
    own = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
    pod = made({"affinity": {"podAntiAffinity": {REQUIRED: [own]}}})
    assert [each["topologyKey"] for each in pod["spec"]["affinity"]["podAntiAffinity"][REQUIRED]] == [
        "zone",
        "kubernetes.io/hostname",
    ]


@pytest.mark.parametrize(
    "affinity",
    [
        {"nodeAffinity": "ssd"},
        {"nodeAffinity": {REQUIRED: ["ssd"]}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": "ssd"}}},
        {"podAntiAffinity": ["db"]},
    ],
)
def test_an_affinity_that_is_none_is_left_to_the_server_to_refuse(affinity: Json) -> None:
    assert made({"affinity": affinity}, {"nodeSelector": {"pool": "new"}})["spec"]["affinity"] == affinity


@pytest.mark.rule("vm:D12")
def test_node_constraints_of_the_move_are_required_beside_the_machines_own() -> None:
    pod = made(
        {
            "nodeSelector": {"pool": "db"},
            "affinity": {"nodeAffinity": terms([expression("a", "1")], [expression("b", "1")])},
        },
        {
            "nodeSelector": {"pool": "new"},
            "nodeAffinity": {
                **terms([expression("c", "1")], [expression("d", "1")]),
                PREFERRED: [{"weight": 1, "preference": {}}],
            },
        },
    )
    assert pod["spec"]["nodeSelector"] == {"pool": "db"}, "that both want another value is wanted of no node"
    pool = expression("pool", "new")
    assert pod["spec"]["affinity"]["nodeAffinity"] == {
        **terms(*([expression(a, "1"), expression(b, "1"), pool] for a, b in product("ab", "cd"))),
        PREFERRED: [{"weight": 1, "preference": {}}],
    }


def matches(affinity: Json, labels: dict[str, str]) -> bool:
    """Which nodes a required node affinity admits, as Kubernetes reads it."""
    if REQUIRED not in affinity:
        return True
    return any(
        term and all(labels.get(each["key"]) in each["values"] for each in term.get("matchExpressions", ()))
        for term in affinity[REQUIRED]["nodeSelectorTerms"]
    )


expressions = st.builds(expression, st.sampled_from("xyz"), st.sampled_from("01"))
affinities: st.SearchStrategy[Json] = st.just({}) | st.lists(
    st.lists(expressions, max_size=2), min_size=1, max_size=3
).map(lambda found: {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": each} if each else {} for each in found]}})


@pytest.mark.rule("vm:D12")
@given(affinities, affinities, st.dictionaries(st.sampled_from("xyz"), st.sampled_from("01"), max_size=2))
def test_a_node_will_do_if_it_does_for_both(own: Json, further: Json, selector: dict[str, str]) -> None:
    pod = made({"affinity": {"nodeAffinity": own}}, {"nodeAffinity": further, "nodeSelector": selector})
    both = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    for values in product("01", repeat=3):
        labels = dict(zip("xyz", values, strict=True))
        fits = matches(own, labels) and matches(further, labels) and selector.items() <= labels.items()
        assert matches(both, labels) == fits


@pytest.mark.rule("vm:C34")
def test_it_is_as_large_as_the_source_is_by_now() -> None:
    town = Town()
    vm = town.running()
    grown = {"requests": {"cpu": "3", "memory": "3Gi"}}
    containers = [{"name": "sidecar", "resources": {}}, {"name": CONTAINER, "resources": grown}]
    source = {**town.pod("vm-source"), "spec": {"containers": containers}}
    pod = target_pod(vm, source, town.migration(), "vm-target", Settings())
    assert pod["spec"]["containers"][0]["resources"] == grown


def test_names_are_the_same_each_time_and_of_allowed_length() -> None:
    assert pod_name("db", "uid") == pod_name("db", "uid")
    assert len({pod_name("db", "uid", number) for number in range(100)}) == 100
    assert len(pod_name("d" * 253, "uid")) == 63
    assert pod_name("a" * 56 + ".b", "uid")[56] == "-"


def test_the_image_and_the_architecture() -> None:
    town = Town()
    vm = town.machine(spec={"runnerImage": "mine", "targetArchitecture": "arm64"})
    spec = runner_pod(vm, "p", Settings())["spec"]
    assert (spec["containers"][0]["image"], spec["nodeSelector"]) == ("mine", {"kubernetes.io/arch": "arm64"})
    assert "affinity" not in spec
