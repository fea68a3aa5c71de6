from __future__ import annotations

import tracemalloc

import msgspec

from situate.objects.codec import decode_page
from situate.objects.resources import PODS
from tests.objects.wire import wire_list, wire_pod

PODS_MEASURED = 4000
BYTES_PER_POD = 1100
"""A pod of 2.6 kB took 880 bytes when this was written: 100,000 pods in some 90 MB."""


def traced_bytes() -> int:
    return tracemalloc.get_traced_memory()[0]


def test_pods_of_a_template_fit_into_a_small_part_of_their_plain_data() -> None:
    pages = [wire_list([wire_pod(n) for n in range(start, start + 500)]) for start in range(0, PODS_MEASURED, 500)]
    decode_page(PODS, wire_list([wire_pod(n) for n in range(PODS_MEASURED, PODS_MEASURED + 2500)]))  # fills the tables
    tracemalloc.start()
    try:
        before = traced_bytes()
        pods = [pod for page in pages for pod in decode_page(PODS, page).items]
        ours = traced_bytes() - before
        before = traced_bytes()
        plain = [msgspec.json.decode(page) for page in pages]
        theirs = traced_bytes() - before
    finally:
        tracemalloc.stop()
    assert len(pods) == PODS_MEASURED
    assert len(plain) == len(pages)
    assert ours / PODS_MEASURED < BYTES_PER_POD
    assert ours < theirs / 5
