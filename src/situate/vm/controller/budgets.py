"""PodDisruptionBudgets for VMs that may be migrated, while evictions lead to migrations (B48)."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from situate.kube.client import Client
from situate.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from situate.kube.watch.reflector import Reflector
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.kinds.workloads import PodDisruptionBudget
from situate.objects.resources import PODDISRUPTIONBUDGETS
from situate.runtime.reconcile.outcomes import Retriable
from situate.vm.api.well_known import NAME_LABEL
from situate.vm.model.policy import Rules
from situate.vm.protocol.eviction_webhook_objects import MIN_AVAILABLE, budget, budget_name, is_budget, needs_budget

_RETRY_S: Final = 1.0
_LONGEST_RETRY_S: Final = 60.0


class Budgets:
    """Budgets of one process. `run` is a task of the leader, until cancelled."""

    def __init__(
        self, machines: Reflector[Unstructured], budgets: Reflector[PodDisruptionBudget], rules: Rules
    ) -> None:
        self._machines = machines.store
        self._budgets = budgets
        self._rules = rules
        self._changed: dict[tuple[str, str], None] = {}
        """Namespaces and names of VMs to check, in order."""
        self._woken = asyncio.Event()
        self._logged_errors: dict[tuple[str, str], str] = {}
        self._log = structlog.get_logger()
        self._machines.on_change(lambda old, new: self._queue_machine(new or old))
        self._budgets.store.on_change(lambda old, new: self._queue_budget_machine(new or old))

    async def run(self, client: Client, configuration: ObjectMeta | None) -> None:
        """`client`: its writes raise a `Retriable` if this process does not lead.

        `configuration`: of the webhook. None: no budgets may exist, and Pods of VMs are evicted like others.
        """
        for machine in self._machines.list():
            self._queue_machine(machine)
        for each in self._budgets.store.list():
            self._queue_budget_machine(each)
        retry_s = _RETRY_S
        while True:
            self._woken.clear()
            failed = False
            for key in list(self._changed):
                del self._changed[key]
                failed |= not await self._update_budget(client, *key, configuration)
            if not failed:
                retry_s = _RETRY_S
            try:
                async with asyncio.timeout(retry_s if failed else None):
                    await self._woken.wait()
            except TimeoutError:
                retry_s = min(2 * retry_s, _LONGEST_RETRY_S)

    async def _update_budget(self, client: Client, namespace: str, name: str, configuration: ObjectMeta | None) -> bool:
        """Bring the budget of a VM up to date. Return whether that succeeded; if not, it is checked again."""
        try:
            await self._write(client, namespace, name, configuration)
        except (AlreadyExists, Conflict, NotFound):
            return True  # the watch will report the current object
        except (KubeError, Retriable) as problem:
            if self._logged_errors.get((namespace, name)) != str(problem):
                self._logged_errors[namespace, name] = str(problem)
                self._log.warning(
                    "write of a PodDisruptionBudget failed", machine=f"{namespace}/{name}", error=str(problem)
                )
            self._changed[namespace, name] = None
            return False
        self._logged_errors.pop((namespace, name), None)
        return True

    async def _write(self, client: Client, namespace: str, name: str, configuration: ObjectMeta | None) -> None:
        machine = self._machines.get(name, namespace)
        content = None
        if machine is not None and configuration is not None and self._needs_budget(machine):
            content = budget(machine, self._rules.scheduler_name, configuration)
        found = self._budgets.store.get(budget_name(name), namespace)
        if found is None:
            if content is not None:
                self._budgets.learn(await client.create(PODDISRUPTIONBUDGETS, content, namespace))
            return
        if configuration is not None and content is not None and _is_current_budget(found, name, configuration):
            return
        if self._is_ours(found) and found.metadata.deletion_timestamp is None:
            uid = found.metadata.uid
            await client.delete(PODDISRUPTIONBUDGETS, found.metadata.name, namespace, uid=uid)

    def _needs_budget(self, machine: Unstructured) -> bool:
        ignored = machine.metadata.namespace in self._rules.ignored_namespaces
        return not ignored and needs_budget(machine, self._rules.scheduler_name)

    def _is_ours(self, found: PodDisruptionBudget) -> bool:
        return is_budget(found.metadata, self._rules.scheduler_name)

    def _queue_machine(self, machine: Unstructured | None) -> None:
        if machine is not None:
            self._changed[machine.metadata.namespace, machine.metadata.name] = None
            self._woken.set()

    def _queue_budget_machine(self, found: PodDisruptionBudget | None) -> None:
        if found is not None and self._is_ours(found):
            self._changed[found.metadata.namespace, found.metadata.name.removeprefix(budget_name(""))] = None
            self._woken.set()


def _is_current_budget(found: PodDisruptionBudget, machine: str, configuration: ObjectMeta) -> bool:
    """Return whether the budget belongs to the webhook and has the right content. If not, it is replaced."""
    selector = found.spec.selector
    owners = {each.uid for each in found.metadata.owner_references}
    labels = None if selector is None else dict(selector.match_labels)
    return (
        owners == {configuration.uid} and found.spec.min_available == MIN_AVAILABLE and labels == {NAME_LABEL: machine}
    )
