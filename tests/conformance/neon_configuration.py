"""Neon's file of shipped configuration: our compatible defaults are those, and the file itself is read and checked."""

from __future__ import annotations

import json
from typing import Any, Final

from situate.objects.settings import parse_section
from situate.vm.agent.settings import AgentSettings
from situate.vm.configuration import VmSettings
from situate.vm.profile import configuration
from situate.vm.reference_configuration import read_reference
from tests.conformance.outcome import PASSED, Case, Outcome, UnknownOperationError, compared, failed

Json = Any
_PLUGINS: Final = {"VirtualMachines": "AutoscaleEnforcer"}
"""Names of ours, and what the reference calls them."""


def cases(document: Json) -> list[Case]:
    shipped = document["scheduler_plugin"]
    return [
        {"list": "scheduler_plugin", "name": "scheduler_plugin", "expected": shipped},
        {"list": "scheduler_profile", "name": "scheduler_profile", "expected": document["scheduler_profile"]},
        *({"list": "agent", "name": "agent", "expected": each} for each in (document.get("agent"),) if each),
        *(
            {"list": "validation", "name": json.dumps(row["set"]), "shipped": shipped, **row}
            for row in document["validation"]
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
    ours = VmSettings(compat=True, scheduler_name=expected["schedulerName"])
    read, mistakes = read_reference(json.dumps(expected), VmSettings(compat=True))
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
    return compared(
        actual, {"multiPoint": expected["multiPoint"], "score_disabled": sorted(expected["score_disabled"])}
    )


def _validation(case: Case) -> Outcome:
    document: Json = json.loads(json.dumps(case["shipped"]))
    for path, value in case["set"].items():
        inner = document
        *parents, last = path.split(".")
        for key in parents:
            inner = inner.setdefault(key, {})
        inner[last] = value
    read, mistakes = read_reference(json.dumps(document), VmSettings(compat=True))
    return compared({"valid": read is not None, "why": [*map(str, mistakes)]}, {"valid": case["valid"]})
