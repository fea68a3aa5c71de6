"""Configuration file of neondatabase/autoscaling's scheduler plugin: JSON, unknown fields refused (C31)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from situate.objects.settings.section import Mistake, format_value, parse_section
from situate.vm.config.settings import PositiveShare, Scoring, Share, VmSettings

Name = Annotated[str, msgspec.Meta(min_length=1)]
PositiveInteger = Annotated[int, msgspec.Meta(ge=1)]


class NeonScoring(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Scores of upstream. Absent fields are zero or false."""

    min_usage_score: Share = 0.0
    max_usage_score: Share = 0.0
    score_peak: Share = 0.0
    randomize: bool = False


class NeonConfiguration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Content of the file. Fields without a default are required."""

    watermark: PositiveShare
    scheduler_name: Name
    reconcile_workers: PositiveInteger
    log_successive_failures_threshold: PositiveInteger
    startup_event_handling_timeout_seconds: PositiveInteger
    patch_retry_wait_seconds: PositiveInteger
    k8s_crud_timeout_seconds: PositiveInteger = msgspec.field(name="k8sCRUDTimeoutSeconds")
    scoring: NeonScoring = NeonScoring()
    node_metric_labels: dict[Name, Name] = {}
    ignored_namespaces: tuple[Name, ...] = ()

    def settings(self, beside: VmSettings) -> VmSettings:
        """Return the section with the values of this file.

        `logSuccessiveFailuresThreshold` has no effect: failing objects are reported as everywhere in vm.
        """
        return msgspec.structs.replace(
            beside,
            watermark=self.watermark,
            scheduler_name=self.scheduler_name,
            workers=min(self.reconcile_workers, 1000),
            startup_s=float(self.startup_event_handling_timeout_seconds),
            patch_retry_s=float(self.patch_retry_wait_seconds),
            call_timeout_s=float(self.k8s_crud_timeout_seconds),
            scoring=Scoring(**msgspec.structs.asdict(self.scoring)),
            node_metric_labels=self.node_metric_labels,
            ignored_namespaces=self.ignored_namespaces,
        )


def read_neon_configuration(text: str, beside: VmSettings) -> tuple[VmSettings | None, tuple[Mistake, ...]]:
    """Return the section with the values of the file, or None and every mistake in the file."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        return None, (Mistake("", format_value(text), "JSON", str(problem)),)
    read, mistakes = parse_section(document, NeonConfiguration)
    return None if read is None else read.settings(beside), mistakes
