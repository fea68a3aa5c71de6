"""What a process of sharding loads: it is started often, and many of it run."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
import situate.sharding
from situate.sharding import Executor, ExecutorOptions, Supervisor, SupervisorOptions
from situate.sharding.strategies.registry import BUILT_IN
assert "numpy" not in sys.modules, "NumPy is loaded for nothing"
from situate.sharding.strategies import MinMetricScore, RendezvousHash, Ring, Sample
assert "numpy" in sys.modules
"""


def test_arrays_are_loaded_by_those_who_need_them() -> None:
    told = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
