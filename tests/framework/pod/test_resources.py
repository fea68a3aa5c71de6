from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from situate.framework.pod.resources import pod_request
from situate.objects.kinds.pods import Container, Pod, PodSpec, ResourceRequirements
from situate.objects.values.quantity import parse_quantity

containers = st.dictionaries(
    st.sampled_from(("cpu", "memory", "pods", "ephemeral-storage", "example.com/gpu")),
    st.sampled_from(("0", "1", "250m", "1500m", "3Gi", "7")).map(parse_quantity),
).map(lambda requests: Container(resources=ResourceRequirements(requests=requests)))


@given(st.lists(containers, max_size=4).map(tuple))
def test_a_pod_with_nothing_but_containers_asks_for_their_sum(listed: tuple[Container, ...]) -> None:
    """An overhead of nothing makes no difference, but for the way in which it is reckoned."""
    plain = PodSpec(containers=listed)
    with_overhead = msgspec.structs.replace(plain, overhead={"cpu": parse_quantity("0")})
    assert pod_request(Pod(spec=plain)) == pod_request(Pod(spec=with_overhead))
