"""Implement `situate check`: check that a configuration is valid, and that a cluster is ready for it."""

from __future__ import annotations

import asyncio
import random
import re
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import typer

from situate.cli.check.finding import Finding
from situate.cli.check.rights import needed_rights
from situate.cli.check.sharding import check_supervisors
from situate.cli.check.vm import check_installation
from situate.cli.input.configuration import (
    SECTIONS,
    load_configuration,
    require_product,
    scheduler_settings,
    sharding_entries,
    spot_settings,
    vm_settings,
    vpod_entries,
)
from situate.cli.terminal.failures import ExitCode, WrongInput, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column, print_answer, print_data, print_items
from situate.cli.terminal.progress import progress
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.kube.errors import Forbidden, KubeError, NotFound
from situate.kube.queries.discovery import discover
from situate.kube.queries.server_version import server_version
from situate.objects.messages import Request
from situate.objects.resources import CONFIGMAPS, STATEFULSETS
from situate.objects.reviews.authorization import Permission, ResourceAttributes
from situate.objects.values.counts import format_count
from situate.runtime.configuration.file import Configuration, as_plain, configuration_schema
from situate.sharding.supervisor.controller.config.section import ShardSettings
from situate.sharding.supervisor.controller.fence_check import FenceState, check_fence
from situate.spot.controller.webhook_check import CheckOutcome, check_on_demand_policy, check_webhook
from situate.spot.model.object_names import WEBHOOK
from situate.spot.model.pods_nodes_workloads import ON_DEMAND
from situate.spot.nodes.prices import parse_prices
from situate.spot.workloads.owners import DEFAULT_KINDS
from situate.vm.backends.systems import select_system
from situate.vm.config.settings import VmSettings
from situate.vm.model.policy import Rules
from situate.vpod.config.settings import StatefulSetSettings
from situate.vpod.policy.configmap import parse_policy

_OLDEST_VERSION = (1, 32)
"""Oldest Kubernetes version that is tested. Older versions may work."""
_COLUMNS = (
    Column("check", lambda finding: finding.check),
    Column("result", lambda finding: "ok" if finding.ok else "FAILED"),
    Column("next-step", lambda finding: finding.next_step),
)


def run(
    file: Path | None,
    assignments: Sequence[str],
    kubeconfig: Path | None,
    context: str | None,
    output: Format,
    *,
    offline: bool,
    schema: bool,
    in_force: bool,
) -> None:
    """Print findings, the JSON Schema or the settings in force; exit with 1 if a check failed."""
    if schema:
        print_data(configuration_schema(SECTIONS), Format.YAML if output is Format.YAML else Format.JSON)
        return
    with report_failures():
        if file is None:
            raise WrongInput("no configuration is named: give -f FILE, or --schema")
        configuration = load_configuration(file, assignments)
        if in_force:
            print_data(
                _effective_settings(configuration, file.parent), Format.JSON if output is Format.JSON else Format.YAML
            )
            return
        require_product(configuration, file)
        findings = [Finding(f"configuration {file}", ok=True), *_check_prices_file(configuration, file)]
        if not offline:
            with progress("reading the cluster"):
                findings += asyncio.run(_check_cluster(configuration, file, kubeconfig, context))
    print_answer(output, lambda: msgspec.to_builtins(findings), lambda: print_items(_COLUMNS, findings, output))
    failed = sum(not finding.ok for finding in findings)
    if failed:
        sys.stderr.write(f"{failed} of {format_count(len(findings), 'check')} failed\n")
        raise typer.Exit(ExitCode.NO)


def _effective_settings(configuration: Configuration, folder: Path) -> dict[str, Any]:
    """Return every setting with the value that `situate run` uses, from any source."""
    shown = as_plain(configuration)
    settings = scheduler_settings(configuration)
    if settings is not None:
        # plugins import numpy: skip this import if there is no scheduler section
        from situate.cli.run.scheduler_setup import effective_scheduler_section

        shown["scheduler"] = effective_scheduler_section(settings, folder)
    for entry, plain_entry in zip(vpod_entries(configuration), shown.get("vpod") or (), strict=True):
        plain_entry["retryPeriod"] = entry.options().retry_period  # 0 means its own default
    return shown


def _check_prices_file(configuration: Configuration, file: Path) -> Iterator[Finding]:
    """Check a prices file. The process and `situate spot status` report mistakes in a ConfigMap of prices."""
    settings = spot_settings(configuration)
    if settings is None or settings.prices.file is None:
        return
    name = settings.prices.file
    try:
        text = (file.parent / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        yield Finding(f"prices {name}", ok=False, next_step=str(problem))
        return
    _, mistakes = parse_prices(text, name)
    yield Finding(f"prices {name}", ok=not mistakes, next_step="; ".join(map(str, mistakes)))


async def _check_cluster(
    configuration: Configuration, file: Path, kubeconfig: Path | None, context: str | None
) -> list[Finding]:
    connection = find_connection(kubeconfig, context)
    client = connect(connection, random.Random())
    try:
        findings = [await _check_version(client)]
        home = configuration.runtime.leader_election.namespace or connection.namespace
        entries = vpod_entries(configuration)
        for entry in entries:
            findings += [finding async for finding in _check_statefulset_entry(client, entry)]
        findings += [finding async for finding in _check_workload_kinds(client, configuration)]
        if spot_settings(configuration) is not None:
            findings += [finding async for finding in _check_spot_admission(client, home)]
        vm = vm_settings(configuration)
        if vm is not None:
            findings += [finding async for finding in _check_machine_kinds(client, vm)]
            findings += [finding async for finding in check_installation(client, vm, home)]
        for shard in sharding_entries(configuration):
            findings += [finding async for finding in _check_shard_entry(client, shard)]
        shards = sharding_entries(configuration)
        findings += [finding async for finding in check_supervisors(client, connection, shards, home)]
        wanted = needed_rights(configuration, file, connection.namespace)
        findings += [finding async for finding in _check_rights(client, wanted)]
    finally:
        await client.close()
    return findings


async def _check_workload_kinds(client: Client, configuration: Configuration) -> AsyncIterator[Finding]:
    """Check the kinds of spot's workloads that not every cluster serves."""
    settings = spot_settings(configuration)
    for kind in settings.kinds if settings is not None else ():
        if kind.kind in DEFAULT_KINDS:
            continue
        request = Request("GET", f"/apis/{kind.group}/{kind.version}/{kind.plural}", (("limit", "1"),))
        step = f"its objects count as none; install its definition, or remove {kind.kind} from spot.ownerKinds"
        yield await _check_exists(f"resource {kind.plural}.{kind.group} {kind.version}", client.raw(request), step)


async def _check_spot_admission(client: Client, namespace: str) -> AsyncIterator[Finding]:
    """Check that API servers reach spot's webhook, and that they refuse annotation values that it cannot read."""
    trials = (
        (f"webhook {WEBHOOK} answers", await check_webhook(client, namespace)),
        (f"unreadable {ON_DEMAND} is refused", await check_on_demand_policy(client)),
    )
    for what, trial in trials:
        if trial.outcome is CheckOutcome.UNKNOWN:
            yield Finding(f"{what}: not checked ({trial.message})", ok=True)
        else:
            yield Finding(what, trial.outcome is CheckOutcome.WORKS, trial.message)


async def _check_machine_kinds(client: Client, settings: VmSettings) -> AsyncIterator[Finding]:
    """Check the kinds of VMs and of migrations. Without them vm schedules Pods only, and nothing grows or moves."""
    system = select_system(settings)
    for resource in (system.machines, system.backend(Rules.of(settings)).resource):
        request = Request("GET", resource.path(), (("limit", "1"),), {"accept": "application/json"})
        yield await _check_exists(
            f"resource {resource.group_resource} {resource.version}", client.raw(request), system.install_hint
        )


async def _check_version(client: Client) -> Finding:
    try:
        version = await server_version(client)
    except Forbidden:
        return Finding("Kubernetes version: not checked (this account may not read it)", ok=True)
    digits = [re.match(r"[0-9]{1,4}", part) for part in (version.major, version.minor)]  # some providers write 30+
    known = tuple(int(found[0]) for found in digits if found)
    ok = len(known) < 2 or known >= _OLDEST_VERSION
    step = (
        ""
        if ok
        else (
            f"situate is tested with {_OLDEST_VERSION[0]}.{_OLDEST_VERSION[1]} and later; test it on a copy of the "
            "cluster first"
        )
    )
    return Finding(f"Kubernetes {version.git_version}", ok, step)


async def _check_statefulset_entry(client: Client, entry: StatefulSetSettings) -> AsyncIterator[Finding]:
    namespace, name = entry.stateful_set_namespace, entry.stateful_set_name
    yield await _check_statefulset(client, namespace, name)
    for source in entry.completed_sources():
        within = f"namespaces/{source.namespace}/" if source.namespace else ""
        path = f"/apis/{source.group}/{source.version}/{within}{source.resource}"
        request = Request("GET", path, (("limit", "1"),), {"accept": "application/json"})
        step = f"apply the definition of {source.resource}.{source.group}; situate crds prints Knative's kinds"
        yield await _check_exists(
            f"resource {source.resource}.{source.group} {source.version}", client.raw(request), step
        )
    if entry.policy == "policy":
        for configmap in (entry.scheduler_config, entry.descheduler_config):
            if configmap is not None:
                yield await _check_policy(client, namespace, configmap)


async def _check_shard_entry(client: Client, settings: ShardSettings) -> AsyncIterator[Finding]:
    """Check the resource, its status subresource, and its fencing policy."""
    what = f"resource {settings.resource}"
    try:
        served = await discover(client, *settings.group_version_plural)
    except Forbidden as refused:
        yield Finding(what, ok=False, next_step=str(refused))
        return
    yield Finding(what, served is not None, "" if served is not None else "apply its definition, or correct resource")
    if served is None:
        return
    step = (
        ""
        if served.has_status
        else "add `subresources: {status: {}}` to the definition; without it, users can write status"
    )
    yield Finding(f"status of {settings.resource} is a subresource", served.has_status, step)
    found = await check_fence(client, served.resource, settings.namespace)
    what = f"fencing policy of {settings.resource}"
    match found.fence:
        case FenceState.ENFORCED:
            yield Finding(what, ok=True)
        case FenceState.MISSING:
            yield Finding(what, ok=False, next_step=found.message)
        case FenceState.UNKNOWN:
            yield Finding(f"{what}: not checked ({found.message})", ok=True)


async def _check_statefulset(client: Client, namespace: str, name: str) -> Finding:
    what = f"StatefulSet {namespace}/{name}"
    try:
        found = await client.get(STATEFULSETS, name, namespace)
    except NotFound:
        return Finding(
            what, ok=False, next_step="create the StatefulSet, or correct statefulSetNamespace and statefulSetName"
        )
    except Forbidden as refused:
        return Finding(what, ok=False, next_step=str(refused))
    start = found.spec.ordinals.start
    step = f"spec.ordinals.start is {start}, but vpod counts Pods from 0; remove the field" if start else ""
    return Finding(what, ok=not step, next_step=step)


async def _check_exists(what: str, answer: object, step: str) -> Finding:
    try:
        await answer  # type: ignore[misc]  # any awaitable of the client
    except NotFound:
        return Finding(what, ok=False, next_step=step)
    except Forbidden as refused:
        return Finding(what, ok=False, next_step=str(refused))
    return Finding(what, ok=True)


async def _check_policy(client: Client, namespace: str, name: str) -> Finding:
    what = f"policy {namespace}/{name}"
    try:
        found = await client.get(CONFIGMAPS, name, namespace)
    except KubeError as problem:
        return Finding(what, ok=False, next_step=str(problem))
    parsed = parse_policy(found.data)
    return Finding(what, ok=not parsed.mistakes, next_step="; ".join(map(str, parsed.mistakes)))


async def _check_rights(client: Client, wanted: tuple[Permission, ...]) -> AsyncIterator[Finding]:
    """Check each permission once, with all its verbs; several products may need the same one."""
    reasons: dict[Permission, list[str]] = {}
    for each in wanted:
        reasons.setdefault(replace(each, why=""), []).append(each.why)
    for right, why in reasons.items():
        resource, _, subresource = right.resource.partition("/")
        missing = []
        for verb in right.verbs:
            review = await client.review_access(
                ResourceAttributes(
                    namespace=right.namespace or "",
                    verb=verb,
                    group=right.group,
                    resource=resource,
                    subresource=subresource,
                    name=right.name,
                )
            )
            if not review.allowed:
                missing.append(verb)
        which = f" {right.name}" if right.name else ""
        where = f" in {right.namespace}" if right.namespace else ""
        what = f"may {', '.join(right.verbs)} {right.group_resource}{which}{where}"
        step = f"grant {', '.join(missing)}, needed for {', and for '.join(why)}; situate manifests prints the roles"
        yield Finding(what, ok=not missing, next_step=step if missing else "")
