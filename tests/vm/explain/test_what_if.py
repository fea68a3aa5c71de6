"""Changes that nobody makes: what would be done, and that nothing is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vm.api.parse_errors import ParseError
from situate.vm.api.quantities import json_text
from situate.vm.explain.what_if import Changes, read_changes, what_if
from situate.vm.model.state import LedgerState, Waiter
from tests.vm.planning.shapes import NOW, RULES, node, state, vm

A, B = vm("A", 4, 7, migratable=False), vm("B", 6)


def town() -> LedgerState:
    seen = state(node("n1", 10, A, B), node("n2", 10))
    return replace(seen, waiters={"A": Waiter("A", NOW - 9, next_attempt_at=NOW + 3600)}, started=True)


def asked(**changes: Any) -> dict[str, Any]:
    read = read_changes(json.dumps(changes).encode(), RULES)
    assert isinstance(read, Changes), read
    found = what_if(town(), read, NOW, RULES)
    assert isinstance(found, dict), found
    return found


@pytest.mark.rule("vm:B41", "vm:C10")
@pytest.mark.parametrize(
    ("changes", "action"),
    [
        pytest.param(
            {"pods": [{"namespace": B.ref.namespace, "name": "B", "gone": True}]}, "grant", id="a neighbour goes"
        ),
        pytest.param({"nodes": [{"name": "n1", "draining": True}]}, "move", id="a drain"),
        pytest.param({"nodes": [{"name": "n1", "cpu": "64", "memory": "256Gi"}]}, "grant", id="a bigger node"),
    ],
)
def test_what_would_be_done(changes: dict[str, Any], action: str) -> None:
    before = town()
    assert action in {each["action"] for each in asked(**changes)["actions"]}
    assert town() == before


@pytest.mark.finding("N30")
@pytest.mark.rule("vm:B41", "vm:B47")
def test_a_grant_that_is_written_to_pod_and_machine_is_told_once() -> None:
    grown = replace(A, account=A.reserved)
    seen = replace(state(node("n1", 20, grown, B)), waiters={"A": Waiter("A", NOW - 9)}, started=True)
    read = read_changes(json.dumps({"pods": [{"namespace": "shop", "name": "A", "cpu": "8"}]}).encode(), RULES)
    assert isinstance(read, Changes)
    found = what_if(seen, read, NOW, RULES)
    assert isinstance(found, dict)
    grants = [each for each in found["actions"] if each["action"] == "grant"]
    assert grants == [{"action": "grant", "pod": "shop/A", "amount": {"cpu": "8", "memory": "7Gi"}}]


@pytest.mark.rule("vm:B41")
def test_what_is_gone_or_new_is_told_of() -> None:
    found = asked(nodes=[{"name": "n2", "gone": True}, {"name": "n3", "cpu": 4, "memory": "4Gi"}])
    assert found["nodes"][0] == {"node": "n2", "gone": True}
    assert found["nodes"][1]["total"] == {"cpu": "4", "memory": "4Gi"}


@pytest.mark.rule("vm:B41")
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "JSON"),
        (b"[]", "mapping"),
        (b'{"nodes": {}}', "list"),
        (b'{"nodes": [{"name": ""}]}', "empty"),
        (b'{"nodes": [{"name": "n1", "cpu": "much"}]}', "nodes[0].cpu"),
        (b'{"nodes": [{"name": "n1", "draining": "yes"}]}', "true or false"),
        (b'{"pods": [%s]}' % b",".join([b'{"name": "A"}'] * 101), "at most 100"),
        (b'{"nodes": [{"name": "n9", "cpu": "1"}]}', "cpu and memory"),
        (b'{"pods": [{"name": "nobody"}]}', "nobody"),
        (b'{"forSeconds": 100000}', "600"),
        (b'{"nods": []}', "did you mean nodes?"),
        (b'{"pods": [{"name": "A", "mem": "1Gi"}]}', "pods[0].mem: found"),
    ],
)
def test_what_cannot_be_understood_is_named(body: bytes, words: str) -> None:
    read = read_changes(body, RULES)
    found = read if isinstance(read, ParseError) else what_if(town(), read, NOW, RULES)
    assert isinstance(found, ParseError)
    assert words in str(found)


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["nodes", "pods", "name", "cpu", "memory", "gone", "forSeconds"]), inner)
    ),
    max_leaves=12,
)


@given(JSONS)
@pytest.mark.rule("vm:B41")
def test_whatever_is_sent_is_answered(value: object) -> None:
    read = read_changes(json.dumps(value).encode(), RULES)
    if isinstance(read, Changes):
        assert isinstance(what_if(town(), read, NOW, RULES), dict | ParseError)


@pytest.mark.rule("vm:B41")
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(rb'{"pods":[{"name":"\ud800","cpu":1}]}', id="of a pod"),
        pytest.param(rb'{"nodes":[{"name":"\ud800","cpu":1,"memory":1}]}', id="of a node"),
        pytest.param(rb'{"\udfff":1}', id="a key"),
    ],
)
def test_half_a_character_is_answered_with_a_sign_for_it(sent: bytes) -> None:
    read = read_changes(sent, RULES)
    found = what_if(town(), read, NOW, RULES) if isinstance(read, Changes) else read
    assert "\ufffd" in (str(found) if isinstance(found, ParseError) else json_text(found))
