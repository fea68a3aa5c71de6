from __future__ import annotations

import subprocess
import sys

import pytest

FAULTS = """
import resource
import numpy as np
from situate.runtime.process.memory import keep_freed_memory

if {keep}:
    assert keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(200):
    np.ones(40_000) + np.ones(40_000) * np.ones(40_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told to keep what was freed")
def test_columns_that_come_and_go_are_not_asked_of_the_system_again() -> None:
    """In processes of their own: the setting cannot be taken back."""

    def faults(*, keep: bool) -> int:
        done = subprocess.run(
            [sys.executable, "-c", FAULTS.format(keep=keep)], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    assert faults(keep=True) * 4 < faults(keep=False)
