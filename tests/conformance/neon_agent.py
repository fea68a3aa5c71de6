"""Plays the agent's files of neon's vectors on `situate.vm.agent`, in compatible mode.

The core's state is a value; here it stands in a small player that applies one step of a trace after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from situate.vm.agent.decide.core import AgentDecision, PluginAction, SizeChange, next_actions, with_desired_size
from situate.vm.agent.decide.desired_size import desired_size
from situate.vm.agent.decide.goal import CacheMetrics, SystemMetrics, goal
from situate.vm.agent.decide.outcomes import (
    AnswerOutcome,
    apply_downscale_denial,
    apply_machine,
    apply_monitor_consent,
    apply_permit,
    end_monitor_connection,
    finish_vm_write,
    record_monitor_failure,
    record_plugin_failure,
    record_upscale_request,
    record_vm_failure,
    start_monitor_connection,
    start_monitor_request,
    start_plugin_request,
    start_vm_write,
    with_cache_metrics,
    with_system_metrics,
)
from situate.vm.agent.decide.scaling import Scaling
from situate.vm.agent.decide.working_set import project_next_highest, true_working_set_size
from situate.vm.agent.model.revisions import NO_REVISION, Latency, Revision, RevisionAt, Revisions
from situate.vm.agent.model.state import (
    AgentState,
    Config,
    DownscaleDenied,
    Guest,
    MonitorRequest,
    MonitorState,
    PluginRequest,
    PluginState,
    UpscaleWanted,
)
from situate.vm.model.resource_amounts import Amounts
from tests.conformance.outcome import PASSED, Case, CaseRunner, Outcome, UnknownOperationError, compared, failed

_REFUSED: Final = ("error", "refused", "panic")


def _amounts(data: Mapping[str, Any]) -> Amounts:
    return Amounts.from_values(data["cpu_milli"], data["mem_bytes"])


def _shown(amounts: Amounts) -> dict[str, int]:
    return {"cpu_milli": amounts.cpu, "mem_bytes": amounts.memory}


def _scaling(data: Mapping[str, Any]) -> Scaling:
    return msgspec.convert(dict(data), Scaling)


def _system(data: Mapping[str, Any] | None) -> SystemMetrics | None:
    if data is None:
        return None
    load, memory = (data.get("load1", 0.0), data.get("load5", 0.0)), data.get("mem_usage_bytes", 0.0)
    return SystemMetrics(*load, memory, data.get("mem_cached_bytes", 0.0))


def _cache(data: Any) -> CacheMetrics | None:
    """A series, or a mapping with one series in it."""
    if data is None:
        return None
    if isinstance(data, Mapping):
        data = next(each for each in data.values() if isinstance(each, list))
    return CacheMetrics(tuple(map(float, data)))


def _revision_at(data: Mapping[str, Any] | None) -> RevisionAt:
    if data is None:
        return RevisionAt()
    return RevisionAt(Revision(data["value"], data.get("flags", 0)), data["updated_at_ms"])


def _guest(data: Mapping[str, Any]) -> Guest:
    cpu, slots, size = data["cpu_milli"], data["memory_slots"], data["memory_slot_size_bytes"]
    least, use, most = (Amounts.from_values(cpu[key], slots[key] * size) for key in ("min", "use", "max"))
    current = data.get("current_revision")
    scaling = data.get("scaling_config")
    return Guest(
        least,
        use,
        most,
        size,
        scaling=None if scaling is None else _scaling(scaling),
        current_revision=None if current is None else _revision_at(current),
    )


def _goal(case: Case) -> Outcome:
    state, wanted = case["state"], case["expected"]
    found = goal(
        _scaling(state["scaling_config"]),
        _amounts(state["compute_unit"]),
        _system(state.get("system_metrics")),
        _cache(state.get("lfc_metrics")),
    )
    got = {"cpu": found.cpu, "mem": found.memory, "lfc": found.cache}
    tolerance = wanted.get("tolerance", 0.0)
    wrong = [
        f"{name}: expected {wanted[name]}, got {value}"
        for name, value in got.items()
        if name in wanted and not _near(value, wanted[name], tolerance)
    ]
    rest = {"has_all_metrics": found.has_all_metrics, "units": found.units, "goal_cu": found.units}
    also = compared(rest, {key: value for key, value in wanted.items() if key not in got and key != "tolerance"})
    return failed("; ".join(wrong)) if wrong else also


def _near(value: float | None, wanted: float | None, tolerance: float) -> bool:
    if value is None or wanted is None:
        return value is wanted
    return abs(value - wanted) <= tolerance


def _working_set(case: Case) -> Outcome:
    state, wanted = case["state"], case["expected"]
    try:
        if case["action"] == "project_next_highest":
            found = project_next_highest(state["series"], state["project_len"])
        else:
            factor = state["max_allowed_increase_factor"]
            found = true_working_set_size(state["series"], state["initial_offset"], state["window_size"], factor)
    except ValueError as refusal:
        return PASSED if wanted in _REFUSED else failed(f"expected {wanted}, refused: {refusal}")
    if not isinstance(wanted, int | float) or abs(found - wanted) > 1e-9:
        return failed(f"expected {wanted}, got {found}")
    return PASSED


def _working_set_cases(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    actions = ("estimate_true_working_set_size", "project_next_highest")
    return [{**case, "action": action} for action in actions for case in document.get(action) or ()]


def _desired(case: Case) -> Outcome:
    data = case["state"]
    permit = data.get("last_permit")
    denied, wanted = data.get("denied_downscale"), data.get("requested_upscale")
    config = Config(
        _amounts(data["compute_unit"]),
        _scaling(data["scaling_config"]),
        denied_downscale_ms=data.get("denied_downscale_cooldown_ms", 5_000),
        requested_upscale_ms=data.get("requested_upscale_valid_period_ms", 10_000),
        compat=True,
    )
    now_ms = data.get("now_ms", 0)
    monitor = MonitorState()
    if denied is not None:
        refused = DownscaleDenied(denied["at_ms"], _amounts(denied["current"]), _amounts(denied["requested"]))
        monitor = replace(monitor, denied=refused)
    if wanted is not None:
        monitor = replace(monitor, wanted=_upscale_wanted(wanted))
    asked = None if permit is None else PluginRequest(now_ms, _amounts(permit))
    state = AgentState(
        config,
        _guest(data["vm"]),
        plugin=PluginState(last=asked, permit=None if permit is None else _amounts(permit)),
        monitor=monitor,
        system=_system(data.get("system_metrics")),
        cache=_cache(data.get("lfc_working_set_pages_by_minute")),
    )
    found = desired_size(state, now_ms)
    return compared({"resources": _shown(found.resources), "warnings": list(found.warnings)}, case["expected"])


def _upscale_wanted(data: Mapping[str, Any]) -> UpscaleWanted:
    cpu, memory = _more(data.get("requested", data))
    return UpscaleWanted(data["at_ms"], _amounts(data["base"]), cpu, memory)


def _more(data: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether more CPU, and more memory."""
    cpu, memory = (bool(data.get(f"more_{name}", data.get(name))) for name in ("cpu", "memory"))
    return cpu, memory


def _revisions(case: Case) -> Outcome:
    now_ms, revisions = 0, Revisions(case.get("initial_revision", 0) + 1)
    for number, step in enumerate(case["steps"]):
        match step["op"]:
            case "advance":
                now_ms += step["ms"]
            case "next":
                revision, revisions = revisions.next(now_ms, step.get("flags", 0))
                if revision.value != step.get("expect_value", revision.value):
                    return failed(f"step {number}: expected {step['expect_value']}, got {revision.value}")
            case "observe":
                revisions, latency = revisions.observe(now_ms, Revision(step["value"], step.get("flags", 0)))
                got = None if latency is None else {"latency_ms": latency.ms, "flags": latency.flags}
                if "expect" in step and got != step["expect"]:
                    return failed(f"step {number}: expected {step['expect']}, got {got}")
            case unknown:
                raise UnknownOperationError(f"op {unknown!r}")
    return PASSED


class _AllZero(Revisions):
    """Every revision is 0."""

    def next(self, now_ms: int, flags: int) -> tuple[Revision, Revisions]:
        return NO_REVISION, self


@dataclass
class _Player:
    """One trace at one moment."""

    state: AgentState
    now_ms: int = 0

    def __post_init__(self) -> None:
        self.scaling: list[Latency] = []
        self.plugin: list[Latency] = []

    def play(self, step: Mapping[str, Any]) -> str | None:
        """What differs from what the step expects; None: nothing."""
        operation = _OPERATIONS.get(step["op"])
        if operation is None:
            raise UnknownOperationError(f"op {step['op']!r}")
        return operation(self, step)

    def advance(self, step: Mapping[str, Any]) -> str | None:
        self.now_ms += step["ms"]
        return _differs("elapsed_ms", step.get("elapsed_ms", self.now_ms), self.now_ms)

    def next_actions(self, step: Mapping[str, Any]) -> str | None:
        planned = next_actions(self.state, self.now_ms)
        self.state = planned.state
        return _differs("actions", step.get("expect") or {}, _actions(planned)) or _differs(
            "warnings", step.get("expect_warnings", []), list(planned.warnings)
        )

    def desired_resources(self, step: Mapping[str, Any]) -> str | None:
        found = desired_size(self.state, self.now_ms)
        self.state = with_desired_size(self.state, found.resources, self.now_ms)
        return _differs("resources", step["expect"], _shown(found.resources)) or _differs(
            "warnings", step.get("expect_warnings", list(found.warnings)), list(found.warnings)
        )

    def plugin_started(self, step: Mapping[str, Any]) -> None:
        self.state = start_plugin_request(self.state, self.now_ms, _amounts(step["resources"]))

    def plugin_answered(self, step: Mapping[str, Any]) -> str | None:
        number, permit = _number(self.state.plugin.ongoing), _amounts(step["permit"])
        answered = apply_permit(self.state, number, self.now_ms, permit, _revision_at(step.get("target_revision")))
        self._take(answered, self.plugin)
        wanted = step.get("expect_error")
        if bool(wanted) != bool(answered.objection):
            return f"error: expected {wanted}, got {answered.objection!r}"
        return None

    def plugin_failed(self, _: Mapping[str, Any]) -> None:
        self.state = record_plugin_failure(self.state, _number(self.state.plugin.ongoing), self.now_ms)

    def vm_started(self, step: Mapping[str, Any]) -> None:
        self.state = start_vm_write(self.state, _amounts(step["resources"]))

    def vm_done(self, _: Mapping[str, Any]) -> None:
        self.state = finish_vm_write(self.state, _number(self.state.vm.ongoing))

    def vm_failed(self, _: Mapping[str, Any]) -> None:
        self.state = record_vm_failure(self.state, _number(self.state.vm.ongoing), self.now_ms)

    def vm_seen(self, step: Mapping[str, Any]) -> None:
        seen = apply_machine(self.state, _guest(step["vm"]))
        self.state = seen.state
        if seen.since_request is not None:
            self.scaling.append(seen.since_request)

    def monitor_active(self, step: Mapping[str, Any]) -> None:
        self.state = start_monitor_connection(self.state) if step["active"] else end_monitor_connection(self.state)

    def monitor_reset(self, _: Mapping[str, Any]) -> None:
        self.state = end_monitor_connection(self.state)

    def monitor_wants(self, step: Mapping[str, Any]) -> None:
        cpu, memory = _more(step)
        self.state = record_upscale_request(self.state, self.now_ms, cpu=cpu, memory=memory)

    def monitor_started_up(self, step: Mapping[str, Any]) -> None:
        self.state = start_monitor_request(self.state, MonitorRequest.UPSCALE, _amounts(step["resources"]))

    def monitor_started_down(self, step: Mapping[str, Any]) -> None:
        self.state = start_monitor_request(self.state, MonitorRequest.DOWNSCALE, _amounts(step["resources"]))

    def monitor_agreed(self, step: Mapping[str, Any]) -> None:
        number = _number(self.state.monitor.ongoing)
        self._take(
            apply_monitor_consent(self.state, number, self.now_ms, _revision_at(step.get("target_revision"))), []
        )

    def monitor_denied(self, step: Mapping[str, Any]) -> None:
        number = _number(self.state.monitor.ongoing)
        self._take(
            apply_downscale_denial(self.state, number, self.now_ms, _revision_at(step.get("target_revision"))), []
        )

    def monitor_failed(self, _: Mapping[str, Any]) -> None:
        self.state = record_monitor_failure(self.state, _number(self.state.monitor.ongoing), self.now_ms)

    def system(self, step: Mapping[str, Any]) -> None:
        metrics = _system(step["metrics"])
        assert metrics is not None
        self.state = with_system_metrics(self.state, metrics)

    def cache(self, step: Mapping[str, Any]) -> None:
        metrics = _cache(step["metrics"])
        assert metrics is not None
        self.state = with_cache_metrics(self.state, metrics)

    def scaling_latency(self, step: Mapping[str, Any]) -> str | None:
        return _latency(self.scaling, step)

    def plugin_latency(self, step: Mapping[str, Any]) -> str | None:
        return _latency(self.plugin, step)

    def no_scaling_latency(self, _: Mapping[str, Any]) -> str | None:
        return _differs("latencies", [], self.scaling)

    def no_plugin_latency(self, _: Mapping[str, Any]) -> str | None:
        return _differs("latencies", [], self.plugin)

    def _take(self, answered: AnswerOutcome, latencies: list[Latency]) -> None:
        self.state = answered.state
        if answered.latency is not None:
            latencies.append(answered.latency)


_OPERATIONS: Final[Mapping[str, Callable[[_Player, Mapping[str, Any]], str | None]]] = {
    "advance": _Player.advance,
    "next_actions": _Player.next_actions,
    "desired_resources": _Player.desired_resources,
    "plugin.starting_request": _Player.plugin_started,
    "plugin.request_successful": _Player.plugin_answered,
    "plugin.request_failed": _Player.plugin_failed,
    "neonvm.starting_request": _Player.vm_started,
    "neonvm.request_successful": _Player.vm_done,
    "neonvm.request_failed": _Player.vm_failed,
    "updated_vm": _Player.vm_seen,
    "monitor.active": _Player.monitor_active,
    "monitor.reset": _Player.monitor_reset,
    "monitor.upscale_requested": _Player.monitor_wants,
    "monitor.starting_upscale_request": _Player.monitor_started_up,
    "monitor.upscale_request_successful": _Player.monitor_agreed,
    "monitor.upscale_request_failed": _Player.monitor_failed,
    "monitor.starting_downscale_request": _Player.monitor_started_down,
    "monitor.downscale_request_allowed": _Player.monitor_agreed,
    "monitor.downscale_request_denied": _Player.monitor_denied,
    "monitor.downscale_request_failed": _Player.monitor_failed,
    "update_system_metrics": _Player.system,
    "update_lfc_metrics": _Player.cache,
    "expect_scaling_latency": _Player.scaling_latency,
    "expect_plugin_latency": _Player.plugin_latency,
    "expect_no_scaling_latency": _Player.no_scaling_latency,
    "expect_no_plugin_latency": _Player.no_plugin_latency,
}


def _trace(case: Case) -> Outcome:
    initial = case["initial"]
    config = initial["config"]
    counting = {"constant_zero": _AllZero, "counter_from_1": Revisions}[initial["revision_source"]]
    player = _Player(
        AgentState(
            Config(
                unit=_amounts(config["computeUnit"]),
                scaling=_scaling(config["defaultScalingConfig"]),
                plugin_tick_ms=config["pluginRequestTick_ms"],
                plugin_retry_ms=config["pluginRetryWait_ms"],
                plugin_denied_retry_ms=config["pluginDeniedRetryWait_ms"],
                vm_retry_ms=config["neonvmRetryWait_ms"],
                monitor_retry_ms=config["monitorRetryWait_ms"],
                denied_downscale_ms=config["monitorDeniedDownscaleCooldown_ms"],
                requested_upscale_ms=config["monitorRequestedUpscaleValidPeriod_ms"],
                compat=True,
            ),
            _guest(initial["vm"]),
            revisions=counting(),
        )
    )
    for number, step in enumerate(case["steps"]):
        if difference := player.play(step):
            return failed(f"step {number} ({step['op']} at {player.now_ms} ms): {difference}")
    return PASSED


def _actions(planned: AgentDecision) -> dict[str, Any]:
    actions = planned.actions
    shown: dict[str, Any] = {}
    if actions.plugin is not None:
        shown["plugin_request"] = _plugin_request(actions.plugin)
    for name, change in (
        ("neonvm_request", actions.vm),
        ("monitor_upscale", actions.monitor_up),
        ("monitor_downscale", actions.monitor_down),
    ):
        if change is not None:
            shown[name] = _change(change)
    if actions.wait_ms is not None:
        shown["wait_ms"] = actions.wait_ms
    return shown


def _plugin_request(action: PluginAction) -> dict[str, Any]:
    return {
        "last_permit": None if action.last_permit is None else _shown(action.last_permit),
        "target": _shown(action.target),
        "metrics": None if action.load1 is None else {"loadAvg1M": action.load1},
        "target_revision": _shown_revision(action.target_revision),
    }


def _change(change: SizeChange) -> dict[str, Any]:
    return {
        "current": _shown(change.current),
        "target": _shown(change.target),
        "target_revision": _shown_revision(change.target_revision),
    }


def _shown_revision(given: RevisionAt) -> dict[str, int]:
    return {"value": given.revision.value, "flags": given.revision.flags, "updated_at_ms": given.at_ms}


def _number(ongoing: Any) -> int:
    assert ongoing is not None, "nothing is under way"
    number: int = ongoing.number
    return number


def _latency(latencies: list[Latency], step: Mapping[str, Any]) -> str | None:
    if not latencies:
        return "no latency was observed"
    first = latencies.pop(0)
    return _differs("latency", (step["latency_ms"], step["flags"]), (first.ms, first.flags))


def _differs(what: str, wanted: object, got: object) -> str | None:
    return None if wanted == got else f"{what}: expected {wanted}, got {got}"


def _listed(key: str) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    return lambda document: document.get(key) or []


RUNNERS: Final[Mapping[str, CaseRunner]] = {
    "agent_goal_cu.json": _goal,
    "agent_working_set.json": _working_set,
    "agent_desired_resources.json": _desired,
    "agent_revision_source.json": _revisions,
    "agent_core_traces.json": _trace,
}
CASES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "agent_working_set.json": _working_set_cases,
    "agent_revision_source.json": _listed("sequences"),
    "agent_core_traces.json": _listed("traces"),
}
"""Where the cases of a file are that has no list of that name."""
