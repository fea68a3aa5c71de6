from __future__ import annotations

import subprocess
import sys
import tracemalloc
from typing import Final

import msgspec

from situate.objects.decoding.codec import decode_page
from situate.objects.resources import PODS
from tests.objects.wire import wire_list, wire_pod

PODS_MEASURED: Final = 4000
BYTES_PER_POD: Final = 1100
"""A pod of 2.6 kB took 880 bytes when this was written: 100,000 pods in some 90 MB."""


def traced_bytes() -> int:
    return tracemalloc.get_traced_memory()[0]


def measure() -> tuple[int, int]:
    """Bytes of that many pods as we keep them, and as plain data."""
    pages = [wire_list([wire_pod(n) for n in range(start, start + 500)]) for start in range(0, PODS_MEASURED, 500)]
    decode_page(PODS, wire_list([wire_pod(n) for n in range(PODS_MEASURED, PODS_MEASURED + 2500)]))  # fills the tables
    tracemalloc.start()
    before = traced_bytes()
    pods = [pod for page in pages for pod in decode_page(PODS, page).items]
    ours = traced_bytes() - before
    before = traced_bytes()
    plain = [msgspec.json.decode(page) for page in pages]
    theirs = traced_bytes() - before
    assert len(pods) == PODS_MEASURED
    assert len(plain) == len(pages)
    return ours, theirs


def test_pods_of_a_template_fit_into_a_small_part_of_their_plain_data() -> None:
    """In a process of its own: the interpreter's table of strings grows by megabytes where other tests filled it."""
    done = subprocess.run([sys.executable, "-m", __name__], capture_output=True, text=True, check=True)
    ours, theirs = map(int, done.stdout.split())
    assert ours / PODS_MEASURED < BYTES_PER_POD
    assert ours < theirs / 5


if __name__ == "__main__":
    print(*measure())
