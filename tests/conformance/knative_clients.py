"""Adapters for what stands around Knative's scheduler: the cache of scales, the evictor, resources, reservations."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import looptime

from situate.vpod.config.settings import KNOWN_SOURCES
from situate.vpod.controller.facade import SchedulerConfig, StatefulSetScheduler, as_scheduler
from situate.vpod.controller.scale_cache import ScaleCache
from situate.vpod.model.vpod import Key, Placement, PlainVPod, Scale, VPod
from situate.vpod.scaling.scale_cache import ScaleCacheConfig
from situate.vpod.sources.adapters import vpod_of
from situate.vpod.sources.evictor import eviction_patch, may_evict
from situate.vpod.state.state import State
from tests.conformance import knative_policy
from tests.conformance.knative_main import options, placements, reserved_json, vpod
from tests.conformance.outcome import PASSED, Case, Outcome, UnknownOperationError, compared, failed

Json = Any
_POD = "statefulset-name"


_ARGUMENTS: Mapping[str, frozenset[str]] = {
    "get": frozenset({"name"}),
    "update": frozenset({"name", "spec"}),
    "sleep": frozenset({"seconds"}),
    "backend_set": frozenset({"spec", "status", "spec_replicas", "status_replicas", "resource_version"}),
    "mutate_last_result": frozenset({"spec", "status", "resource_version"}),
}
"""By op: the keys that say what to do; every other key of a step is an expectation."""


class Backend:
    """A counting store of one number of replicas, whatever the name."""

    def __init__(self, given: Mapping[str, Json]) -> None:
        self.spec = given.get("spec_replicas", 0)
        self.status = given.get("status_replicas", 0)
        self.version = given.get("resource_version", "")
        self.gets = self.updates = 0
        self.gets_fail = self.updates_fail = False

    def get_scale(self, name: str, options: Mapping[str, str] | None = None) -> Scale:
        self.gets += 1
        if self.gets_fail:
            raise ConnectionError("the backend fails")
        return Scale("ns", name, self.spec, self.status, self.version)

    def update_scale(self, name: str, scale: Scale, options: Mapping[str, str] | None = None) -> Scale:
        self.updates += 1
        if self.updates_fail:
            raise ConnectionError("the backend fails")
        self.spec = scale.spec_replicas
        return Scale("ns", name, self.spec, self.status, self.version)


class CacheSteps:
    """The cache before a backend, on a clock that only `sleep` moves."""

    def __init__(self, given: Mapping[str, Json]) -> None:
        self.backend = Backend(given.get("backend") or {})
        self.now = 0.0
        config = ScaleCacheConfig(given.get("refresh_period_seconds", 0))
        self.cache = ScaleCache("ns", self.backend, config, clock=lambda: self.now)

    def run(self, step: Mapping[str, Json]) -> Outcome:
        name = step.get("name", _POD)
        actual: dict[str, Json] = {}
        match step["op"]:
            case "get":
                actual = self._answer(lambda: self.cache.get_scale(name))
            case "update":
                actual = self._answer(lambda: self.cache.update_scale(name, Scale("ns", name, step["spec"])))
            case "reset":
                self.cache.reset()
            case "sleep":
                self.now += step["seconds"]
            case "backend_set":
                self.backend.spec = step.get("spec", step.get("spec_replicas", self.backend.spec))
                self.backend.status = step.get("status", step.get("status_replicas", self.backend.status))
                self.backend.version = step.get("resource_version", self.backend.version)
            case "backend_fail_updates":
                self.backend.updates_fail = True
            case "backend_ok_updates":
                self.backend.updates_fail = False
            case "backend_fail_gets":
                self.backend.gets_fail = True
            case "backend_ok_gets":
                self.backend.gets_fail = False
            case "mutate_last_result":
                pass  # what the cache hands out is frozen: nobody can change it
            case op:
                raise UnknownOperationError(f"op {op!r}")
        actual |= {"backend_gets": self.backend.gets, "backend_updates": self.backend.updates}
        arguments = _ARGUMENTS.get(step["op"], frozenset()) | {"op", "result"}
        outcome = compared(actual, {key: wanted for key, wanted in step.items() if key not in arguments})
        if outcome.verdict == "passed" and step.get("result") is not None:
            outcome = compared(actual.get("scale", {}), step["result"])
        return outcome

    def _answer(self, call: Any) -> dict[str, Json]:
        try:
            scale = call()
        except ConnectionError:
            return {"error": True}
        answer = {
            "spec": scale.spec_replicas,
            "status": scale.status_replicas,
            "resource_version": scale.resource_version,
        }
        return {"error": False, "scale": answer}


def cache_sequence(case: Case) -> Outcome:
    if unknown := case["expected"].keys() - {"steps"}:
        raise UnknownOperationError(f"expectation {', '.join(sorted(unknown))}; known: steps")
    steps = CacheSteps(case["input"])
    for number, step in enumerate(case["expected"]["steps"]):
        outcome = steps.run(step)
        if outcome.verdict != "passed":
            return failed(f"step {number} ({step['op']}): {outcome.detail}")
    return PASSED


def defaults(case: Case) -> Outcome:
    effective = [ScaleCacheConfig(seconds).refresh_period for seconds in case["input"]["configs_seconds"]]
    return compared({"effective_seconds": effective}, case["expected"])


def evict(case: Case) -> Outcome:
    """One placement of a consumer group; the pod object does not matter to us, so it may be missing."""
    given, expected = case["input"], dict(case["expected"])
    if not given.get("consumer_group_exists", True):
        return compared({"error": False, "placements_after": None, "patched": False, "skipped": True}, expected)
    listed = [each.to_json() for each in placements(given.get("status_placements"))]
    condition = given.get("condition_ConsumersScheduled") or "absent"
    conditions = [] if condition == "absent" else [{"type": "ConsumersScheduled", "status": condition}]
    content = {"status": {"placements": listed, "conditions": conditions}}
    skipped = not may_evict(content)
    patch = [] if skipped else eviction_patch(content, given["evict"]["pod"])
    for operation in patch:
        if operation["op"] == "remove":
            del listed[int(operation["path"].rpartition("/")[2])]
    after = [{"pod": each["podName"], "vreplicas": each.get("vreplicas", 0)} for each in listed]
    actual = {"error": False, "placements_after": after, "patched": bool(patch), "skipped": skipped}
    if "placements_after" in expected:
        expected["placements_after"] = expected["placements_after"] or []
    return compared(actual, expected)


def vreplicas(case: Case) -> Outcome:
    given = case["input"]
    source = KNOWN_SOURCES.get(given["kind"])
    if source is None:
        raise UnknownOperationError(f"kind {given['kind']!r}")
    field = (source.vreplicas_path or "").rpartition(".")[2]
    wanted, most = given.get("replicas_or_consumers"), given.get("max_allowed_vreplicas")
    spec = {} if wanted is None else {field: wanted}
    status = {} if most is None else {"maxAllowedVReplicas": most}
    read = vpod_of(source, {"metadata": {"name": "x", "namespace": "ns"}, "spec": spec, "status": status})
    return compared({"value": None if read is None else read.vreplicas}, case["expected"])


def scheduler_func(case: Case) -> Outcome:
    """A function as scheduler: as many calls of it as schedules."""
    called = 0

    def function(_vpod: VPod) -> list[Placement]:
        nonlocal called
        called += 1
        return []

    scheduler = as_scheduler(function)
    result: Json = None
    for _ in range(case["input"].get("calls", 1)):
        result = scheduler.schedule(PlainVPod(Key("ns", "v"), 1)) or None
    expected = {key: wanted or None if key == "placements" else wanted for key, wanted in case["expected"].items()}
    return compared({"called": called, "placements": result, "error": False}, expected)


def reserve(case: Case) -> Outcome:
    """Main replaces; the merging of v0.43.0 and the flag of leadership are looked at too."""
    given, expected = case["input"], case["expected"]
    state = State(options({"capacity": 10, **given}))
    subject = vpod(given["vpod"])
    for listed in given.get("reserve_sequence") or ():
        places = {state.ordinal(each.pod_name): each.vreplicas for each in placements(listed)}
        state.reserve(subject.key, {ordinal: n for ordinal, n in places.items() if ordinal is not None})
    scheduler = StatefulSetScheduler(SchedulerConfig(state.options, Backend({}), list, list), clock=lambda: 0.0)
    scheduler.promote()
    promoted = scheduler.is_leader
    scheduler.demote()
    actual = {
        "reserved_for_vpod_on_main": reserved_json(state).get(str(subject.key)),
        "reserved_for_vpod": knative_policy.reserved(case),
        "leader_after_promote": promoted,
        "leader_after_demote": scheduler.is_leader,
    }
    none: dict[str, Json] = {"reserved_for_vpod_on_main": None, "reserved_for_vpod": {}}
    return compared(actual, {key: wanted or none[key] if key in none else wanted for key, wanted in expected.items()})


def run_loop(case: Case) -> Outcome:
    """The loop of the facade on virtual time: reaches the replicas in time, and ends when it is cancelled."""
    given, expected = case["input"], case["expected"]
    backend = Backend({"spec_replicas": given.get("replicas", 0)})
    config = SchedulerConfig(
        options(given, refresh_period=given.get("refresh_period_seconds", 100)),
        backend,
        lambda: [vpod(each) for each in given.get("vpods") or ()],
        list,
    )

    async def play() -> tuple[int, bool]:
        loop = asyncio.get_running_loop()
        scheduler = StatefulSetScheduler(config, clock=loop.time)
        if given.get("is_leader", True):
            scheduler.promote()
        running = asyncio.create_task(scheduler.run())
        await asyncio.sleep(expected.get("within_seconds", given.get("within_seconds", 1)))
        running.cancel()
        stops = expected.get("stops_within_seconds_of_cancel", given.get("stops_within_seconds_of_cancel", 1))
        done, _ = await asyncio.wait([running], timeout=stops)
        return backend.spec, bool(done)

    loop = looptime.new_event_loop()
    try:
        replicas, stopped = loop.run_until_complete(play())
    finally:
        loop.close()
    if not stopped:
        return failed("the loop did not end when it was cancelled")
    in_time = {key: expected[key] for key in ("within_seconds", "stops_within_seconds_of_cancel") if key in expected}
    return compared({"replicas": replicas, **in_time}, expected)
