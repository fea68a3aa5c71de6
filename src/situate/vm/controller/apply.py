"""Writes for decisions: one write at a time per object; the outcome of each goes back to the ledger.

A write that may succeed later is retried with the back-off of C24. Retries are safe, since each write carries a
precondition. Of two waiting writes for the same purpose, only the newer one is sent. Final outcomes, such as an
approval in conflict or a deleted object, go back to the ledger, which decides again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias, TypeVar, assert_never

import structlog

from situate.kube.client import Client
from situate.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    InternalError,
    Invalid,
    KubeError,
    NotFound,
    ServerTimeout,
    ServiceUnavailable,
    Unreachable,
    UnreadableAnswer,
)
from situate.kube.patches import StrategicMergePatch
from situate.kube.watch.reflector import Reflector
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.resources import PODS, ResourceType
from situate.objects.values.durations import format_duration
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.reconcile.workqueue import WorkQueue
from situate.scheduler.controller.api_dispatcher import run_within_term
from situate.scheduler.controller.pod_conditions import ConditionChange as StatusClaim
from situate.scheduler.controller.pod_conditions import StatusChange, status_patch
from situate.vm.api.claims import claim_text, handover_text, migration_times_text, moment_text
from situate.vm.api.patches import (
    CONFLICT,
    DENIED,
    LATER,
    OK,
    REFUSED,
    UNKNOWN,
    CreateObject,
    DeleteObject,
    NothingToWrite,
    PatchObject,
    Write,
    annotate,
    approval_patch,
    invalid_outcome,
    resize_patch,
)
from situate.vm.api.well_known import CLAIM, DOWNTIME, EVACUATE, HANDOVER, MIGRATION_TIMES, TARGET_NODE, TARGET_RECHOSEN
from situate.vm.backends.neonvm import Backend
from situate.vm.controller.backoff import NO_FAILURE, Backoff
from situate.vm.controller.informers import VmInformers
from situate.vm.controller.metrics import VmMetrics
from situate.vm.controller.notify import Notifier
from situate.vm.ledger.ledger import Ledger
from situate.vm.model.actions import (
    Action,
    Approve,
    CancelMove,
    Condition,
    EndMove,
    Evict,
    HandOver,
    NoteMoved,
    Notify,
    ObjectKind,
    ResizePod,
    Retarget,
    ShrinkClaim,
    StartMove,
    Wake,
    slot_of,
    written_object,
)
from situate.vm.model.events import WriteResult, WrittenHandOver
from situate.vm.model.pods_and_nodes import Ref

T = TypeVar("T", bound=KubernetesObject)
Key: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name of the object, or of the Pod, that a write is about."""

_UNCERTAIN_ERRORS: Final = (InternalError, ServerTimeout, ServiceUnavailable)
"""Errors after which the request may have been carried out."""
_IDEMPOTENT_ACTIONS: Final = (NoteMoved, ShrinkClaim, Condition)
"""Writes of a state that no other component requests again: retried until they are answered (F1)."""
_NANOSECOND: Final = 1e-9


class Applier:
    """Writes of one term. `submit` never waits; `run` sends until cancelled."""

    def __init__(
        self,
        client: Client,
        actuator: Actuator,
        watched: VmInformers,
        backend: Backend,
        ledger: Ledger,
        telling: Notifier,
        metrics: VmMetrics,
        *,
        wake: Callable[[str], None],
        wall: Callable[[], datetime],
        rng: random.Random,
        call_timeout_s: float,
    ) -> None:
        """`wake` receives nodes with new free capacity. `call_timeout_s` is the time limit of one write."""
        self._call_timeout_s = call_timeout_s
        self._client = client
        self._actuator = actuator
        self._watched = watched
        self._machines = watched.machines.scope.resource
        self._backend = backend
        self._kinds = {
            ObjectKind.POD: PODS.kind,
            ObjectKind.MACHINE: self._machines.kind,
            ObjectKind.MIGRATION: backend.resource.kind,
        }
        self._ledger = ledger
        self._notifier = telling
        self._metrics = metrics
        self._wake = wake
        self._wall = wall
        self._queue: WorkQueue[Key] = WorkQueue(rng=rng)
        self._waiting: dict[Key, dict[tuple[object, ...], tuple[Action, float]]] = {}
        """The actions to send for each object, in order, with the time of each."""
        self._backoffs: dict[Key, Backoff] = {}
        self._log = structlog.get_logger()

    def submit(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Notify():
                    self._notifier.notify(action)
                    self._metrics.count_event(action.reason)
                case Wake(node):
                    self._wake(node)
                case _:
                    self._metrics.count_action(type(action).__name__)
                    key = self._key(action)
                    waiting = self._waiting.setdefault(key, {})
                    waiting.pop(slot_of(action), None)  # the older one was not sent; this replaces it
                    waiting[slot_of(action)] = action, _now()
                    self._queue.add(key)

    @property
    def failing_objects(self) -> int:
        """Number of objects whose last write failed and is retried."""
        return len(self._backoffs)

    async def run(self, workers: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await run_within_term(self._apply_next(key))
            except Exception:
                self._metrics.count_panic()
                raise
            finally:
                self._queue.done(key)

    async def _apply_next(self, key: Key) -> None:
        """Send the next write for the object, and queue the object again if there are more."""
        waiting = self._waiting.get(key)
        if waiting is None:  # it was sent already, with later actions
            return
        slot, (action, since) = next(iter(waiting.items()))
        del waiting[slot]
        self._metrics.observe_queue_wait(_now() - since)
        began = _now()
        try:
            async with asyncio.timeout(self._call_timeout_s):
                outcome, why = await self._apply_action(action)
        except TimeoutError:
            outcome, why = UNKNOWN, f"no answer within {self._call_timeout_s:g} s"
        except KubeError as problem:  # it was certainly not carried out, and may be later
            # no retry of a runner Pod's resize if the grant waits behind it (B47), nor of an eviction: if a VM still
            # needs the capacity, its next plan asks for it again (B19)
            if not (isinstance(action, Evict) or (isinstance(action, ResizePod) and waiting)):
                self._retry(key, slot, action, str(problem), problem.after_s or 0.0)
                return
            outcome, why = LATER, str(problem)
        finally:
            self._metrics.observe_duration(_now() - began)
        if outcome == UNKNOWN and isinstance(action, _IDEMPOTENT_ACTIONS):
            self._retry(key, slot, action, why, holds_up=False)
            return
        self._backoffs.pop(key, None)
        self._metrics.count_write(type(action).__name__, key[0], outcome)
        log = self._log.bind(action=type(action).__name__, object="/".join(key), outcome=outcome, why=why)
        if outcome == CONFLICT:
            log.info("write outdated, deciding again")
        elif outcome != OK:
            log.warning("write not carried out")
        if waiting:
            self._queue.add(key)
        else:
            del self._waiting[key]
        self._ledger.apply(WriteResult(action, outcome, why))

    def _retry(
        self,
        key: Key,
        slot: tuple[object, ...],
        action: Action,
        why: str,
        after_s: float = 0.0,
        *,
        holds_up: bool = True,
    ) -> None:
        """Queue a failed write again. With `holds_up`, other writes for the object wait for it."""
        backoff, wait_ns = self._backoffs.get(key, NO_FAILURE).after_failure(int(after_s / _NANOSECOND))
        self._backoffs[key] = backoff
        waiting = self._waiting[key]
        if slot not in waiting:  # else a newer action replaces it
            again = {slot: (action, _now())}
            self._waiting[key] = {**again, **waiting} if holds_up else {**waiting, **again}
        self._metrics.count_write(type(action).__name__, key[0], "retried")
        self._log.warning("write failed, retrying", action=type(action).__name__, object="/".join(key), error=why)
        self._queue.add_after(key, wait_ns * _NANOSECOND)

    def _key(self, action: Action) -> Key:
        written = written_object(action)
        assert written is not None, f"{action} is no write to an object"
        kind, namespace, name = written
        return self._kinds[kind], namespace, name

    async def _apply_action(self, action: Action) -> tuple[str, str]:
        """Send an action. Return its outcome, as in `WriteResult`, and the reason.

        Raises `KubeError` only if it was certainly not carried out.
        """
        if isinstance(action, HandOver):
            return await self._hand_over(action)
        if isinstance(action, Evict):
            return await self._evict(action)
        sent = await self._send(self._build_write(action))
        if (
            isinstance(action, Approve | NoteMoved)
            and sent[0] == CONFLICT
            and await self._refresh_machine(action.machine)
        ):
            # the decision used the Pod or the migration, and their watch may be ahead of the VM's
            sent = await self._send(self._build_write(action))
        return sent

    async def _refresh_machine(self, machine: Ref) -> bool:
        """Read the VM from the server into the store. Return whether that succeeded."""
        try:
            self._watched.machines.learn(await self._client.get(self._machines, machine.name, machine.namespace))
        except KubeError:
            return False
        return True

    def _build_write(self, action: Action) -> Write:
        rules = self._ledger.rules
        match action:
            case Approve():
                machine = self._watched.machines.store.get(action.machine.name, action.machine.namespace)
                if machine is None or machine.metadata.uid != action.machine.uid:
                    return NothingToWrite(f"{self._machines.kind} {action.machine} is gone")
                return approval_patch(action, machine, self._machines, rules)
            case ResizePod():
                pod = self._watched.all.pods.store.get(action.pod.name, action.pod.namespace)
                if pod is None or pod.metadata.uid != action.pod.uid:
                    return NothingToWrite(f"pod {action.pod} is gone")
                return resize_patch(action, pod, PODS, rules)
            case StartMove(move, claim):
                return self._backend.create(move, claim)
            case CancelMove(name, machine, uid):
                return self._backend.cancel(machine.namespace, name, uid)
            case EndMove(name, machine, uid):
                return self._backend.delete(machine.namespace, name, uid)
            case ShrinkClaim(claim, name, machine, uid):
                return self._annotate_migration(
                    machine.namespace, name, uid, {CLAIM: claim_text(claim, rules.resources)}
                )
            case Retarget(name, machine, uid, target_node, at):
                notes = {TARGET_NODE: target_node, TARGET_RECHOSEN: moment_text(at)}
                return self._annotate_migration(machine.namespace, name, uid, notes)
            case NoteMoved(machine, at, downtime_s):
                found = self._watched.machines.store.get(machine.name, machine.namespace)
                if found is None or found.metadata.uid != machine.uid:
                    return NothingToWrite(f"{self._machines.kind} {machine} is gone")
                paused = {} if downtime_s is None else {DOWNTIME: format_duration(downtime_s)}
                notes = {MIGRATION_TIMES: migration_times_text(at), **paused}
                patch = annotate(found.metadata, notes, without=EVACUATE)  # the VM has left the node
                return PatchObject(self._machines, machine.namespace, machine.name, patch)
            case Condition():
                return self._condition_write(action)
            case HandOver() | Evict() | Notify() | Wake():
                raise AssertionError(f"{action} is not a single write")
            case _:
                assert_never(action)

    def _annotate_migration(self, namespace: str, name: str, uid: str, notes: Mapping[str, str]) -> Write:
        """Annotate a migration."""
        resource = self._backend.resource
        found = self._watched.migrations.store.get(name, namespace)
        if found is None or found.metadata.uid != uid:
            return NothingToWrite(f"{resource.kind} {namespace}/{name} is gone")
        return PatchObject(resource, namespace, name, annotate(found.metadata, notes))

    def _condition_write(self, action: Condition) -> Write:
        pod = self._watched.all.pods.store.get(action.pod.name, action.pod.namespace)
        if pod is None or pod.metadata.uid != action.pod.uid:
            return NothingToWrite(f"pod {action.pod} is gone")
        claim = StatusClaim(action.type, "True" if action.holds else "False", action.reason, action.message)
        body = status_patch(pod, StatusChange(claim), self._wall())
        if body is None:
            return NothingToWrite("the pod already has this condition", OK)
        return PatchObject(PODS, pod.metadata.namespace, pod.metadata.name, StrategicMergePatch(body), "status")

    async def _hand_over(self, action: HandOver) -> tuple[str, str]:
        """Write the hand-over record, then delete the source. After a crash, the next leader continues (B10)."""
        record = WrittenHandOver(action.source, action.beneficiary, action.amount)
        notes = {HANDOVER: handover_text(record, self._ledger.rules.resources)}
        noted = await self._send(self._annotate_migration(action.machine.namespace, action.name, action.uid, notes))
        if noted[0] != OK:
            return noted
        return await self._send(DeleteObject(PODS, action.source.namespace, action.source.name, action.source.uid))

    async def _evict(self, action: Evict) -> tuple[str, str]:
        pod = self._watched.all.pods.store.get(action.pod.name, action.pod.namespace)
        if pod is None or pod.metadata.uid != action.pod.uid or pod.metadata.deletion_timestamp is not None:
            return OK, "the pod is gone or terminating"
        return await _call_outcome(self._actuator.write(self._client.evict(pod)), gone_is_done=True)

    async def _send(self, write: Write) -> tuple[str, str]:
        match write:
            case NothingToWrite(why, outcome):
                return outcome, why
            case CreateObject():
                return await self._create(write)
            case DeleteObject():
                return await self._remove(write)
            case PatchObject(resource, namespace, name, patch, subresource):
                patched = self._client.patch(resource, name, patch, namespace, subresource)
                return await _call_outcome(self._learn(resource, self._actuator.write(patched)))
            case _:
                assert_never(write)

    async def _remove(self, write: DeleteObject) -> tuple[str, str]:
        """Delete an object.

        Without a UID, its creation was not answered, so look it up: a late deletion hits no later object.
        """
        uid = write.uid
        if not uid:
            try:
                uid = (await self._client.get(write.resource, write.name, write.namespace)).metadata.uid
            except NotFound:
                return OK, ""
        sent = self._client.delete(write.resource, write.name, write.namespace, uid=uid)
        return await _call_outcome(self._actuator.write(sent), gone_is_done=True)

    async def _create(self, write: CreateObject) -> tuple[str, str]:
        """Create an object. An existing one with the same name and claim is the same: its answer was lost (C25, F1)."""
        metadata = write.content["metadata"]
        created = self._client.create(write.resource, write.content, write.namespace)
        try:
            return await _call_outcome(self._learn(write.resource, self._actuator.write(created)))
        except AlreadyExists as problem:
            there = await self._client.get(write.resource, metadata["name"], write.namespace)
            self._reflector(write.resource).learn(there)
            same = there.metadata.annotations.get(CLAIM) == metadata.get("annotations", {}).get(CLAIM)
            return (OK, "") if same else (CONFLICT, str(problem))

    async def _learn(self, resource: ResourceType[T], answer: Awaitable[T]) -> None:
        """Put the server's answer into the store at once, because the next write depends on it."""
        self._reflector(resource).learn(await answer)

    def _reflector(self, resource: ResourceType[Any]) -> Reflector[Any]:
        return next(each for each in self._watched.reflectors() if each.scope.resource is resource)


async def _call_outcome(call: Awaitable[object], *, gone_is_done: bool = False) -> tuple[str, str]:
    """Return the outcome of a call. Raises only if it was certainly not carried out and may be later."""
    try:
        await call
    except AlreadyExists:
        raise
    except NotFound as problem:
        return (OK, "") if gone_is_done else (REFUSED, str(problem))
    except Conflict as problem:
        return (OK, "") if gone_is_done else (CONFLICT, str(problem))
    except Invalid as problem:
        return invalid_outcome([each.message for each in problem.details.causes]), str(problem)
    except Forbidden as problem:
        return DENIED, str(problem)
    except UnreadableAnswer:
        return OK, ""
    except KubeError as problem:
        if isinstance(problem, _UNCERTAIN_ERRORS) or (isinstance(problem, Unreachable) and problem.outcome_unknown):
            return UNKNOWN, str(problem)
        if problem.retriable:
            raise
        return REFUSED, str(problem)
    return OK, ""


def _now() -> float:
    return asyncio.get_running_loop().time()
