"""The two ConfigMaps of the policy era, as a platform engineer or a fuzzer may write them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vpod.policy.configmap import parse_policy
from situate.vpod.policy.registry import DEFAULT_PLACING, DEFAULT_REMOVING, Policy, Predicate, Priority

SHIPPED_PLACING = {
    "predicates": """
      [
        {"Name": "PodFitsResources"},
        {"Name": "NoMaxResourceCount", "Args": "{\\"NumPartitions\\": 100}"}
      ]""",
    "priorities": """
      [
        {"Name": "AvailabilityZonePriority", "Weight": 10, "Args": "{\\"MaxSkew\\": 2}"},
        {"Name": "LowestOrdinalPriority", "Weight": 2},
        {"Name": "EvenPodSpread", "Weight": 2, "Args": "{\\"MaxSkew\\": 2}"}
      ]""",
}
SHIPPED_REMOVING = {
    "predicates": "[]",
    "priorities": """
      [
        {"Name": "RemoveWithEvenPodSpreadPriority", "Weight": 10, "Args": "{\\"MaxSkew\\": 2}"},
        {"Name": "RemoveWithAvailabilityZonePriority", "Weight": 10, "Args": "{\\"MaxSkew\\": 2}"},
        {"Name": "RemoveWithHighestOrdinalPriority", "Weight": 2}
      ]""",
}


def test_the_defaults_are_what_upstream_ships() -> None:
    assert parse_policy(SHIPPED_PLACING).policy == DEFAULT_PLACING
    assert parse_policy(SHIPPED_REMOVING).policy == DEFAULT_REMOVING


def test_field_names_match_in_any_case() -> None:
    data = {
        "predicates": '[{"NAME": "PodFitsResources"}]',
        "priorities": '[{"name": "LowestOrdinalPriority", "wEiGhT": 3}]',
    }
    found = parse_policy(data)
    assert found.policy == Policy((Predicate("PodFitsResources"),), (Priority("LowestOrdinalPriority", 3),))
    assert found.notes == ()


def test_unknown_names_are_noted_and_do_no_harm() -> None:
    data = {"predicates": '[{"Name": "NoSuch"}]', "priorities": '[{"Name": "PodFitsResources", "Wait": 1}]'}
    found = parse_policy(data)
    assert found.policy is not None
    assert found.mistakes == ()
    assert [note.partition(":")[0] for note in found.notes] == [
        "data.predicates[0]",
        "data.priorities[0]",
        "data.priorities[0]",
    ]


@pytest.mark.rule("vpod:D16")
@pytest.mark.parametrize(
    ("predicates", "priorities", "path", "found", "allowed"),
    [
        pytest.param("[]", None, "data.priorities", "", "JSON array", id="priorities are missing"),
        pytest.param(None, "[]", "data.predicates", "", "JSON array", id="predicates are missing"),
        pytest.param("{}", "[]", "data.predicates", '"{}"', "JSON array", id="an object"),
        pytest.param("[", "[]", "data.predicates", '"["', "JSON array", id="cut short"),
        pytest.param("[1]", "[]", "data.predicates[0]", "1", "an object", id="an entry that is no object"),
        pytest.param("[{}]", "[]", "data.predicates[0].name", "", "PodFitsResources", id="no name"),
        pytest.param(
            "[]",
            '[{"Name": "LowestOrdinalPriority", "Weight": 11}]',
            "data.priorities[0].weight",
            "11",
            "from 0 to 10",
            id="weight above 10",
        ),
        pytest.param(
            "[]",
            '[{"Name": "LowestOrdinalPriority", "Weight": -1}]',
            "data.priorities[0].weight",
            "-1",
            "from 0 to 10",
            id="weight below 0",
        ),
        pytest.param(
            "[]",
            '[{"Name": "LowestOrdinalPriority", "Weight": "2"}]',
            "data.priorities[0].weight",
            '"2"',
            "from 0 to 10",
            id="weight as text",
        ),
        pytest.param(
            '[{"Name": "EvenPodSpread", "Args": {"MaxSkew": 2}}]',
            "[]",
            "data.predicates[0].args",
            '{"MaxSkew": 2}',
            "JSON inside a string",
            id="args as an object",
        ),
        pytest.param(
            '[{"Name": "EvenPodSpread"}]',
            "[]",
            "data.predicates[0].args",
            "",
            '{"MaxSkew": N}',
            id="args missing",
        ),
        pytest.param(
            '[{"Name": "NoMaxResourceCount", "Args": "{\\"NumParts\\": 5}"}]',
            "[]",
            "data.predicates[0].args",
            '"{\\"NumParts\\": 5}"',
            '{"NumPartitions": N}',
            id="another field in args",
        ),
    ],
)
def test_a_mistake_names_path_value_and_what_is_allowed(
    predicates: str | None, priorities: str | None, path: str, found: str, allowed: str
) -> None:
    data = {key: text for key, text in (("predicates", predicates), ("priorities", priorities)) if text is not None}
    parsed = parse_policy(data)
    assert parsed.policy is None
    (mistake,) = parsed.mistakes
    assert (mistake.path, mistake.found) == (path, found)
    assert allowed in mistake.allowed


def test_all_mistakes_are_told_at_once() -> None:
    data = {"predicates": "[1, {}]", "priorities": '[{"Name": "LowestOrdinalPriority", "Weight": 99}]'}
    assert [mistake.path for mistake in parse_policy(data).mistakes] == [
        "data.predicates[0]",
        "data.predicates[1].name",
        "data.priorities[0].weight",
    ]


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["Name", "name", "Weight", "Args", "x"]) | st.text(max_size=3), inner, max_size=4
        )
    ),
    max_leaves=12,
)
TEXTS = (
    st.text(max_size=30)
    | JSON_LIKE.map(json.dumps)
    | st.just("[" * 50_000)
    | st.just('[{"Name":' * 400 + "1" + "}]" * 400)
)


@pytest.mark.rule("vpod:B12")
@given(
    st.dictionaries(st.sampled_from(["predicates", "priorities"]) | st.text(max_size=3), TEXTS | JSON_LIKE) | JSON_LIKE
)
def test_whatever_a_configmap_holds_it_is_either_a_policy_or_refused_with_mistakes(data: object) -> None:
    parsed = parse_policy(data)
    assert (parsed.policy is None) == bool(parsed.mistakes)
    assert all(len(str(mistake)) < 1000 for mistake in parsed.mistakes)
