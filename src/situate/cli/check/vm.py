"""Check that an installation of vm works: it has a leader, agents find and reach its port, and its webhook answers.

Nothing is changed: the request to the permit port has no token, and the eviction is a dry run. A check that proves
nothing, such as one from a computer that cannot reach Pods, says so and counts as passed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any, Final

import aiohttp

from situate.cli.check.finding import Finding
from situate.kube.client import Client
from situate.kube.errors import (
    Forbidden,
    KubeError,
    MethodNotAllowed,
    NotFound,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
)
from situate.objects.kinds.pods import Pod
from situate.objects.messages import Request
from situate.objects.resources import LEASES, PODS, unstructured
from situate.vm.agent.controller.scheduler_lookup import newest_ready_pod
from situate.vm.api.well_known import AUTO_MIGRATION_LABEL, SCHEDULER_LABEL
from situate.vm.backends.neonvm import MACHINES
from situate.vm.config.settings import VmSettings
from situate.vm.protocol.eviction_webhook_objects import WEBHOOK, configuration_name

_CONFIGURATIONS: Final = unstructured(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
_PROBE_PATH: Final = "/explain"
_WITHOUT_TOKEN: Final = "no token"  # noqa: S105 - words of an answer
"""Words with which the permit port refuses a request without a token. Only the leader's port answers so."""
_CONNECT_TIMEOUT_S: Final = 3.0


async def check_installation(client: Client, settings: VmSettings, namespace: str) -> AsyncIterator[Finding]:
    """Check an installation of vm. `namespace` is its namespace; without its Lease there, nothing more is checked."""
    name = f"Lease {settings.lease_name} in namespace {namespace}"
    what = f"vm has a leader ({name})"
    try:
        lease = await client.get(LEASES, settings.lease_name, namespace)
    except NotFound:
        yield Finding(f"{what}: not checked (vm is not installed there)", ok=True)
        return
    except KubeError as problem:
        yield Finding(f"{what}: not checked ({problem})", ok=True)
        return
    leader = lease.spec.holder_identity
    yield Finding(
        what, bool(leader), "" if leader else "no process holds the Lease; see the logs of the scheduler's Pods"
    )
    yield await _check_permit_port(client, settings, namespace)
    if settings.eviction_settings is not None:
        yield await _check_eviction_webhook(client, settings, namespace)


async def _check_permit_port(client: Client, settings: VmSettings, namespace: str) -> Finding:
    selector = f"{SCHEDULER_LABEL}={settings.scheduler_name}"
    what = f"agents reach the permit port of the Pod labelled {selector}"
    try:
        pods = await client.list_all(PODS, namespace, label_selector=selector)
    except KubeError as problem:
        return Finding(f"{what}: not checked ({problem})", ok=True)
    pod = newest_ready_pod(pods.items)
    if pod is None:
        step = (
            f"no Ready Pod in namespace {namespace} has this label, which the leader sets on its own Pod; see the "
            "logs of the scheduler's Pods"
        )
        return Finding(what, ok=False, next_step=step)
    answer = await _probe_through_api_server(client, settings, pod)
    if answer is None:
        answer = await _probe_directly(settings, pod)
    if answer is None:
        return Finding(f"{what}: not checked (Pod {pod.metadata.name} is not reachable from here)", ok=True)
    if _WITHOUT_TOKEN in answer:
        return Finding(what, ok=True)
    policies = f"NetworkPolicies for port {_port_number(settings)}"
    step = f"Pod {pod.metadata.name} answered: {answer}; see its log, and {policies}"
    return Finding(what, ok=False, next_step=step)


async def _probe_through_api_server(client: Client, settings: VmSettings, pod: Pod) -> str | None:
    """Request the permit port through the API server.

    Returns the port's answer, or the reason why API servers cannot reach it. Returns None if this cluster or account
    has no Pod proxy.
    """
    scheme = "http" if _is_plain_http(settings) else "https"
    name = f"{scheme}:{pod.metadata.name}:{_port_number(settings)}"
    path = f"{PODS.path(pod.metadata.namespace, name)}/proxy{_PROBE_PATH}"
    try:
        response = await client.raw(Request("GET", path))
    except (Forbidden, NotFound, MethodNotAllowed):
        return None
    except (Unauthorized, ServiceUnavailable) as answer:
        return answer.message
    except KubeError as problem:
        return str(problem)
    return f"{response.status}"


async def _probe_directly(settings: VmSettings, pod: Pod) -> str | None:
    """Request the permit port at the Pod's address. Returns None without a connection.

    A failed connection proves nothing: the command may run outside the cluster.
    """
    host = f"[{pod.status.pod_ip}]" if ":" in pod.status.pod_ip else pod.status.pod_ip
    # the certificate is not verified: this checks only that something answers at the address
    trusting: ssl.SSLContext | bool = False
    url = f"{'http' if _is_plain_http(settings) else 'https'}://{host}:{_port_number(settings)}{_PROBE_PATH}"
    try:
        async with (
            asyncio.timeout(_CONNECT_TIMEOUT_S),
            aiohttp.ClientSession(trust_env=False) as session,
            session.get(url, ssl=trusting, allow_redirects=False) as response,
        ):
            return (await response.content.read(1024)).decode(errors="replace")
    except (TimeoutError, OSError, aiohttp.ClientError):
        return None


async def _check_eviction_webhook(client: Client, settings: VmSettings, namespace: str) -> Finding:
    """Check the eviction webhook: evict a VM's Pod in a dry run. Only the webhook refuses that with its name."""
    name = configuration_name(namespace)
    what = f"webhook {WEBHOOK} answers"
    try:
        await client.get(_CONFIGURATIONS, name)
    except NotFound:
        step = (
            f"ValidatingWebhookConfiguration {name} does not exist, so an eviction ends a VM; apply the output of "
            "`situate manifests`, or set vm.evictions to null"
        )
        return Finding(what, ok=False, next_step=step)
    except KubeError as problem:
        return Finding(f"{what}: not checked ({problem})", ok=True)
    try:
        pod = await _migratable_pod(client, settings)
        if pod is None:
            return Finding(f"{what}: not checked (no VM that may migrate is running)", ok=True)
        await client.evict(pod, dry_run=True)
    except TooManyRequests as refusal:
        if WEBHOOK in refusal.message:
            return Finding(what, ok=True)
        said = f"the webhook did not answer, and a PodDisruptionBudget refused the eviction: {refusal.message}"
    except KubeError as problem:
        return Finding(f"{what}: not checked ({problem})", ok=True)
    else:
        said = f"the webhook did not answer, so Pod {pod.metadata.namespace}/{pod.metadata.name} would be evicted"
    step = f"{said}; check the EndpointSlices of Service situate-permits, the caBundle of {name}, and NetworkPolicies"
    return Finding(what, ok=False, next_step=step)


async def _migratable_pod(client: Client, settings: VmSettings) -> Pod | None:
    """Return the Pod of a running VM that may be live-migrated."""
    listed = await client.list_all(MACHINES, None, label_selector=f"{AUTO_MIGRATION_LABEL}=true")
    for each in listed.items:
        status: dict[str, Any] = each.content.get("status") or {}
        ours = (each.content.get("spec") or {}).get("schedulerName") == settings.scheduler_name
        if ours and status.get("phase") == "Running" and status.get("podName"):
            return await client.get(PODS, status["podName"], each.metadata.namespace)
    return None


def _is_plain_http(settings: VmSettings) -> bool:
    """Return whether the port speaks HTTP without TLS."""
    return settings.compat and settings.permits.certificate is None


def _port_number(settings: VmSettings) -> str:
    return settings.permits.address.rpartition(":")[2]
