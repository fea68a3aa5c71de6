"""Neon's file of shipped configuration: our compatible defaults are those, and the file itself is read and checked."""

from __future__ import annotations

import json
from typing import Any, Final

from situate.objects.settings.section import parse_section
from situate.vm.agent.model.settings import AgentSettings
from situate.vm.config.neon_settings import read_neon_configuration
from situate.vm.config.settings import VmSettings
from situate.vm.placement.profile import configuration
from tests.conformance.outcome import PASSED, Case, Outcome, UnknownOperationError, compared, failed

Json = Any
_PLUGINS: Final = {"VirtualMachines": "AutoscaleEnforcer"}
"""Names of ours, and what the reference calls them."""


def cases(document: Json) -> list[Case]:
    shipped = document.get("scheduler_plugin") or {}
    parts = ("scheduler_plugin", "scheduler_profile", "agent")
    return [
        *({"list": part, "name": part, "expected": document[part]} for part in parts if document.get(part)),
        *(
            {"list": "validation", "name": json.dumps(row["set"]), "shipped": shipped, **row}
            for row in document.get("validation") or ()
        ),
    ]


def defaults(case: Case) -> Outcome:
    match case["list"]:
        case "scheduler_plugin":
            return _shipped(case["expected"])
        case "scheduler_profile":
            return _profile(case["expected"])
        case "agent":
            return _agent(case["expected"])
        case "validation":
            return _validation(case)
        case unknown:
            raise UnknownOperationError(f"list {unknown!r}")


def _shipped(expected: Json) -> Outcome:
    """The file comes to our own defaults, but for the name."""
    ours = VmSettings(compat=True, scheduler_name=expected.get("schedulerName", VmSettings(compat=True).scheduler_name))
    read, mistakes = read_neon_configuration(json.dumps(expected), VmSettings(compat=True))
    if read is None:
        return failed("; ".join(map(str, mistakes)))
    return PASSED if read == ours else failed(f"expected {ours}, got {read}")


def _agent(expected: Json) -> Outcome:
    """The section comes to our own defaults."""
    read, mistakes = parse_section(expected, AgentSettings)
    if read is None:
        return failed("; ".join(map(str, mistakes)))
    return PASSED if read == AgentSettings() else failed(f"expected {AgentSettings()}, got {read}")


def _profile(expected: Json) -> Outcome:
    """How many replicas there are, and who leads, is another matter with us (B44)."""
    (profile,) = configuration("autoscale-scheduler").profiles
    actual = {
        "multiPoint": [_PLUGINS[each.name] for each in profile.plugins.multi_point.enabled],
        "score_disabled": sorted(each.name for each in profile.plugins.score.disabled),
    }
    wanted = {name: value for name, value in expected.items() if name not in ("replicas", "leaderElect")}
    if "score_disabled" in wanted:
        wanted["score_disabled"] = sorted(wanted["score_disabled"])
    return compared(actual, wanted)


def _validation(case: Case) -> Outcome:
    document: Json = json.loads(json.dumps(case["shipped"]))
    for path, value in case["set"].items():
        inner = document
        *parents, last = path.split(".")
        for key in parents:
            inner = inner.setdefault(key, {})
        inner[last] = value
    read, mistakes = read_neon_configuration(json.dumps(document), VmSettings(compat=True))
    return compared({"valid": read is not None, "why": [*map(str, mistakes)]}, {"valid": case["valid"]})
