"""Which policy holds, who takes part, and what becomes of mistakes (3.1, P11, B43, B46)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from situate.objects.selection.label_selectors import EVERYTHING, parse_selector
from situate.spot.workloads.on_demand_policy import AllSpot, Count, Percent
from situate.spot.workloads.on_demand_target import (
    Namespace,
    PolicyRule,
    TargetRules,
    is_target_unchanged,
    participation,
    resolve_target,
)
from tests.spot.builders import owner

KEY = "spot.situate.dev/on-demand"
MIX = "spot.situate.dev/mix"
SHOP = Namespace("shop", labels={"team": "a"})


@pytest.mark.rule("spot:S26", "spot:S30", "spot:B46")
def test_the_most_specific_says_how_many() -> None:
    rules = TargetRules(
        policies=(
            PolicyRule(parse_selector("team=b"), EVERYTHING, Count(4)),
            PolicyRule(EVERYTHING, parse_selector("tier=web"), Percent(50)),
            PolicyRule(EVERYTHING, EVERYTHING, AllSpot()),
        )
    )
    plain, web = owner(10), owner(10, labels={"tier": "web"})
    assert resolve_target(plain, SHOP, rules).source == "policies[2] of the configuration"
    assert (resolve_target(web, SHOP, rules).on_demand, resolve_target(web, SHOP, rules).spot) == (5, 5)
    by_namespace = resolve_target(web, replace(SHOP, annotations={KEY: "3"}), rules)
    assert (by_namespace.on_demand, by_namespace.source) == (3, f"annotation {KEY} of the namespace")
    own = resolve_target(replace(web, annotations={KEY: "1"}), replace(SHOP, annotations={KEY: "3"}), rules)
    assert (own.on_demand, own.source) == (1, f"annotation {KEY} of the Deployment")
    assert resolve_target(plain, SHOP, TargetRules()).source == "the default"


@pytest.mark.rule("spot:P11")
def test_a_mistake_is_named_and_the_last_valid_value_stays() -> None:
    wrong = owner(10, annotations={KEY: "many"})
    first = resolve_target(wrong, SHOP, TargetRules())
    assert (first.on_demand, first.unreadable, first.source) == (10, True, "no valid value is known")
    assert [str(fault) for fault in first.faults] == [
        f'Deployment shop/web: {KEY}: found "many", allowed: a number of pods such as 3, a percentage from 0% to 100%, '
        "base=2,weight=1:3 (on demand : spot), all-on-demand, all-spot, majority or default"
    ]
    later = resolve_target(wrong, SHOP, TargetRules(), last=Count(4))
    assert (later.on_demand, later.source, len(later.faults)) == (4, "the last valid value", 1)
    assert not later.unreadable


@pytest.mark.rule("spot:P11")
def test_results_are_compared_not_texts() -> None:
    two = resolve_target(owner(4, annotations={KEY: "2"}), SHOP, TargetRules())
    half = resolve_target(owner(4, annotations={KEY: "50%"}), SHOP, TargetRules())
    assert is_target_unchanged(two, half)
    assert not is_target_unchanged(two, resolve_target(owner(5, annotations={KEY: "50%"}), SHOP, TargetRules()))
    assert not is_target_unchanged(None, two)


@pytest.mark.parametrize(
    ("pod", "workload", "namespace", "mode", "want", "source"),
    [
        pytest.param("enabled", "disabled", "disabled", False, True, "label", id="the pod first"),
        pytest.param(None, "disabled", "enabled", True, False, "annotation", id="then the workload"),
        pytest.param(
            None, None, "disabled", True, False, "label spot.situate.dev/mix of the namespace", id="namespace"
        ),
        pytest.param(None, None, None, False, False, "mode", id="then the configuration"),
        pytest.param("yes", None, "disabled", True, False, "label", id="a word that is neither is passed over"),
    ],
)
@pytest.mark.rule("spot:S30")
def test_who_takes_part(
    pod: str | None, workload: str | None, namespace: str | None, mode: bool, want: bool, source: str
) -> None:
    def given(value: str | None) -> dict[str, str]:
        return {} if value is None else {MIX: value}

    found = participation(
        owner(3, annotations=given(workload)),
        Namespace("shop", labels=given(namespace)),
        TargetRules(mode=mode),
        given(pod),
    )
    assert found.enabled is want
    assert found.source.startswith(source)
    assert len(found.faults) == (pod == "yes")


@pytest.mark.rule("spot:B43", "spot:S34")
@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({"vacant.sh/optimize-scheduling-strategy": "all-in-on-demand"}, 10, id="the author's strategies"),
        pytest.param({"vacant.sh/optimize-scheduling-strategy": "custom",
                      "vacant.sh/optimize-scheduling-strategy-custom-on-demand": "4"}, 4, id="custom"),
        pytest.param({"spotalis.io/min-on-demand": "2", "spotalis.io/spot-percentage": "70"}, 3, id="spotalis"),
        pytest.param({"spotalis.io/min-on-demand": "5", "spotalis.io/spot-percentage": "70%"}, 5, id="at least"),
        pytest.param({"spotalis.io/min-on-demand": "2"}, 10, id="spotalis without a share: all on demand"),
        pytest.param({KEY: "1", "spotalis.io/min-on-demand": "2"}, 1, id="our own key first"),
    ],
)  # fmt: skip
def test_annotations_of_other_tools_are_read_on_request(annotations: dict[str, str], want: int) -> None:
    of = owner(10, annotations=annotations)
    assert resolve_target(of, SHOP, TargetRules(import_keys=True)).on_demand == want
    assert resolve_target(of, SHOP, TargetRules()).on_demand == (1 if KEY in annotations else 0)


@pytest.mark.rule("spot:B43", "spot:P11")
@pytest.mark.parametrize(
    ("annotations", "field"),
    [
        ({"vacant.sh/optimize-scheduling-strategy": "best"}, "vacant.sh/optimize-scheduling-strategy"),
        (
            {"vacant.sh/optimize-scheduling-strategy": "custom"},
            "vacant.sh/optimize-scheduling-strategy-custom-on-demand",
        ),
        ({"spotalis.io/min-on-demand": "many"}, "spotalis.io/min-on-demand"),
        ({"spotalis.io/spot-percentage": "170"}, "spotalis.io/spot-percentage"),
    ],
)
def test_mistakes_in_them_are_named(annotations: dict[str, str], field: str) -> None:
    found = resolve_target(owner(10, annotations=annotations), SHOP, TargetRules(import_keys=True), last=Count(6))
    assert (found.on_demand, [fault.field for fault in found.faults]) == (6, [field])


@pytest.mark.rule("spot:B43")
def test_the_authors_switch_is_read_on_request() -> None:
    of = owner(3, annotations={"vacant.sh/optimize-scheduling": "false"})
    assert not participation(of, SHOP, TargetRules(import_keys=True)).enabled
    assert participation(of, SHOP, TargetRules()).enabled
