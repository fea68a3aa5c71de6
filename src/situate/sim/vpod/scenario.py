"""A scenario: the simulated cluster and the compared settings. The command reads the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from situate.objects.settings.section import Mistake, format_value, parse_section
from situate.sim.vpod.settings import ScenarioSettings
from situate.vpod.config.settings import StatefulSetSettings
from situate.vpod.model.options import Options
from situate.vpod.policy.configmap import parse_policy
from situate.vpod.policy.registry import Policy

SAMPLES = 720
"""Points of a time series if `sampleEvery` is absent."""
_VPOD_DEFAULTS = {"statefulSetNamespace": "knative-eventing", "statefulSetName": "kafka-source-dispatcher"}


@dataclass(frozen=True, slots=True)
class Variant:
    """One column of the comparison."""

    name: str
    options: Options


@dataclass(frozen=True, slots=True)
class VPodScenario:
    """A scenario without mistakes."""

    settings: ScenarioSettings
    variants: tuple[Variant, ...]

    @property
    def sample_every(self) -> float:
        return self.settings.sample_every or max(1.0, round(self.settings.duration / SAMPLES))

    def sample_times(self) -> Iterator[float]:
        """Yield the sample times, ascending. The last one is the end."""
        number = 1
        while (when := number * self.sample_every) < self.settings.duration:
            yield when
            number += 1
        yield self.settings.duration


def parse_scenario(data: object) -> tuple[VPodScenario | None, tuple[Mistake, ...]]:
    """Return the scenario of a document, or None and all its mistakes."""
    settings, mistakes = parse_section(data, ScenarioSettings)
    found = list(mistakes)
    variants: list[Variant] = []
    # the variants are parsed even after other mistakes, so that all mistakes are reported at once
    for name, changed in _read_variants(data).items():
        variant, wrong = _read_variant(name, data, changed)
        found += [each for each in wrong if str(each) not in map(str, found)]
        if variant is not None:
            variants.append(variant)
    if found or settings is None:
        return None, tuple(found)
    return VPodScenario(settings, tuple(variants)), ()


def _read_variants(data: object) -> Mapping[str, Mapping[str, Any]]:
    if not isinstance(data, Mapping) or not isinstance(data.get("vpod"), Mapping):
        return {}
    variants = data.get("variants")
    if not variants:
        return {"vpod": {}}
    if not isinstance(variants, Mapping):
        return {}
    return {str(name): each or {} for name, each in variants.items() if each is None or isinstance(each, Mapping)}


def _read_variant(name: str, data: object, changed: Mapping[str, Any]) -> tuple[Variant | None, list[Mistake]]:
    document = cast("Mapping[str, Any]", data)
    merged = _merge_settings({**_VPOD_DEFAULTS, **document["vpod"]}, changed)
    settings, mistakes = parse_section(merged, StatefulSetSettings)
    if settings is None:
        return None, [replace(each, path=f"{_origin(each.path, name, changed)}.{each.path}") for each in mistakes]
    options = settings.options()
    placing, wrong = _read_policy(settings.scheduler_config, options.placing, document)
    removing, wrong_removing = _read_policy(settings.descheduler_config, options.removing, document)
    found = [
        Mistake(f"{_origin(key, name, changed)}.{key}", each.found, each.allowed, each.hint) if not each.path else each
        for key, mistakes_of_it in (("schedulerConfig", wrong), ("deschedulerConfig", wrong_removing))
        for each in mistakes_of_it
    ]
    return (None, found) if found else (Variant(name, replace(options, placing=placing, removing=removing)), [])


def _read_policy(name: str | None, shipped: Policy, document: Mapping[str, Any]) -> tuple[Policy, tuple[Mistake, ...]]:
    """Read the policy in a ConfigMap of the scenario. A mistake without a path belongs to the key that names it."""
    if name is None:
        return shipped, ()
    maps = document.get("configMaps")
    if not isinstance(maps, Mapping) or name not in maps:
        hint = "add its data there, or omit the key for Knative's default"
        return shipped, (Mistake("", format_value(name), "a name below configMaps", hint),)
    parsed = parse_policy(maps[name])
    mistakes = (replace(each, path=f"configMaps.{name}.{each.path}") for each in parsed.mistakes)
    return parsed.policy or shipped, tuple(mistakes)


def _merge_settings(base: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Merge changes over a base, recursively in mappings."""
    merged = dict(base)
    for key, value in changed.items():
        below = merged.get(key)
        merged[key] = (
            _merge_settings(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
        )
    return merged


def _origin(path: str, name: str, changed: Mapping[str, Any]) -> str:
    """Return where in the file the value at this path of the merged settings was written."""
    first = path.split(".")[0].split("[")[0]
    return f"variants.{name}" if first in changed else "vpod"
