from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from situate.framework.queue.active_pods import ActiveQueue
from situate.framework.queue.queued_pod import QueueState, WaitingPod
from tests.framework.pods import pod_info


def waiting(number: int, key: object) -> WaitingPod:
    return WaitingPod(pod_info(f"pod-{number}"), 0.0, 0.0, key=key)


@given(st.lists(st.tuples(st.sampled_from(["push", "pop", "remove"]), st.integers(0, 40)), max_size=120))
def test_the_least_key_comes_first_and_equal_keys_in_the_order_of_their_arrival(steps: list[tuple[str, int]]) -> None:
    queue = ActiveQueue()
    model: list[tuple[int, int, WaitingPod]] = []
    for number, (step, value) in enumerate(steps):
        if step == "push":
            pod = waiting(number, value)
            queue.push(pod)
            model.append((value, number, pod))
        elif step == "pop":
            expected = min(model, default=None, key=lambda entry: entry[:2])
            popped = queue.pop()
            assert popped is (expected[2] if expected else None)
            if expected:
                model.remove(expected)
                expected[2].place = QueueState.IN_FLIGHT
        elif model:
            entry = model.pop(value % len(model))
            queue.remove(entry[2])
        assert len(queue) == len(model)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=60), st.integers(1, 20))
def test_pods_like_the_first_are_those_that_would_have_come_next(pods: list[tuple[int, int]], most: int) -> None:
    together, one_by_one = ActiveQueue(), ActiveQueue()
    kinds = {}
    for queue in (together, one_by_one):
        for number, (key, kind) in enumerate(pods):
            pod = waiting(number, key)
            kinds[pod.info.name] = kind
            queue.push(pod)

    def alike(one: WaitingPod, other: WaitingPod) -> bool:
        return kinds[one.info.name] == kinds[other.info.name]

    first = together.pop()
    assert first is not None
    found = [first, *together.pop_like(first, most, alike)]
    expected: list[WaitingPod] = []
    while len(expected) <= most and (following := one_by_one.pop()) is not None:
        following.place = QueueState.IN_FLIGHT
        if expected and not alike(expected[0], following):
            break
        expected.append(following)
    assert [pod.info.name for pod in found] == [pod.info.name for pod in expected]
    assert len(together) == len(pods) - len(found)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.lists(st.integers(1, 9), max_size=9))
def test_pods_that_are_put_back_first_leave_as_if_they_had_never_been_taken(keys: list[int], taken: list[int]) -> None:
    queue, untouched = ActiveQueue(), ActiveQueue()
    for number, key in enumerate(keys):
        queue.push(waiting(number, key))
        untouched.push(waiting(number, key))
    for most in taken:
        first, expected = queue.pop(), untouched.pop()
        if first is None or expected is None:
            break
        assert first.info.name == expected.info.name
        queue.put_first(queue.pop_like(first, most, lambda _, __: True))
        assert len(queue) == len(untouched)
    left = [pod.info.name for pod in iter(queue.pop, None)]
    assert left == [pod.info.name for pod in iter(untouched.pop, None)]
