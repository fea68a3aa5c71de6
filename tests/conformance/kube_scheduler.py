"""kube-scheduler's vectors: which runner each file has. The README beside the vectors defines fields and expectations.

Every case is put to the plugin and to its plain twin.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance import (
    kube_scheduler_filters,
    kube_scheduler_preemption,
    kube_scheduler_scores,
    kube_scheduler_states,
)
from tests.conformance.kube_scheduler_cases import argued
from tests.conformance.outcome import CaseRunner

RUNNERS: Mapping[str, CaseRunner] = {
    file: argued(runner)
    for runners in (
        kube_scheduler_filters.RUNNERS,
        kube_scheduler_preemption.RUNNERS,
        kube_scheduler_scores.RUNNERS,
        kube_scheduler_states.RUNNERS,
    )
    for file, runner in runners.items()
}
"""By file name; each runs one case."""
