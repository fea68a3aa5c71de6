"""Renews a Service's certificates while this process leads: read the Secret, follow the plan, update the `caBundle`.

`renewal_schedule` decides each step. Every write is conditional on the state read, so the server would refuse the
writes of a second leader.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from situate.kube.client import Client
from situate.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from situate.kube.patches import JsonPatch, MergePatch
from situate.kube.watch.reflector import Reflector
from situate.objects.kinds.config_maps import Secret
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import SECRETS, ResourceType, unstructured
from situate.runtime.reconcile.outcomes import Retriable
from situate.runtime.serving.certificates.issue import create_generation
from situate.runtime.serving.certificates.renewal_schedule import (
    Create,
    Generation,
    Plan,
    Prepare,
    Promote,
    Wait,
    decode_data,
    encode_data,
    first_content,
    plan_renewal,
    prepared_content,
)

_ADMISSION: Final = "admissionregistration.k8s.io"
MUTATING: Final = unstructured(
    _ADMISSION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False
)
VALIDATING: Final = unstructured(
    _ADMISSION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", namespaced=False
)
_LONGEST_WAIT_S: Final = 5.0
"""Longest time between checks: a check costs a millisecond, and the clock may be set or the machine suspended."""
_RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class CertificateTarget:
    """The webhook and the Secret of the certificates."""

    configurations: ResourceType[Unstructured]
    """`MUTATING` or `VALIDATING`."""
    configuration: str
    """Name of the configuration."""
    webhook: str
    """Name of the webhook in it."""
    secret: str
    namespace: str
    """Namespace of the Secret."""


class CertificateController:
    """The renewal, whose `run` is a task of the leader, until cancelled, and again in its next term."""

    def __init__(
        self,
        kept: CertificateTarget,
        client: Client,
        secrets: Reflector[Secret],
        configurations: Reflector[Unstructured] | None,
        *,
        names: Sequence[str],
        life_s: Callable[[], float],
        wall: Callable[[], float],
        serve: Callable[[Generation], None],
    ) -> None:
        """Take the caches, the clock and the receiver of new certificates.

        `client` raises a `Retriable` on writes if this process does not lead. `names` are the host names served.
        `configurations` is None where no API server calls the webhook.
        """
        self._target = kept
        self._client = client
        self._secrets = secrets
        self._configurations = configurations
        self._names = names
        self._life_s = life_s
        self._wall = wall
        self._serve = serve
        self._served: Generation | None = None
        self._problem = ""
        self._changed = asyncio.Event()
        self._log = structlog.get_logger()
        secrets.store.on_change(self._wake)
        if configurations is not None:
            configurations.store.on_change(self._wake)

    async def run(self) -> None:
        await self._secrets.store.wait_synced()
        if self._configurations is not None:
            await self._configurations.store.wait_synced()
        self._served = None
        while True:
            self._changed.clear()
            try:
                rest_s = await self._reconcile()
            except (Conflict, AlreadyExists, NotFound) as problem:
                self._log_problem(str(problem))
                await self._relist()  # another client has written; the state read now decides
                rest_s = _RETRY_S
            except (KubeError, Retriable) as problem:
                self._log_problem(str(problem))
                rest_s = _RETRY_S
            else:
                self._problem = ""
            await self._wait_for_change(rest_s)

    async def _reconcile(self) -> float:
        """Run the next step; return how long to rest."""
        now = self._wall()
        secret = self._secrets.store.get(self._target.secret, self._target.namespace)
        content = decode_data(secret.data) if secret is not None else {}
        configurations = self._configurations
        configuration = None if configurations is None else configurations.store.get(self._target.configuration)
        found = plan_renewal(content, self._names, now, self._life_s(), self._published_bundle(configuration))
        if found.held is not None:
            if found.held.current != self._served:
                self._serve(found.held.current)
                self._served = found.held.current
                self._log.info("certificate served", until=_time_text(found.held.current.ends))
            await self._publish(configuration, found.held.bundle())
        return await self._apply_step(found, secret, content, now)

    async def _apply_step(self, found: Plan, secret: Secret | None, content: Mapping[str, bytes], now: float) -> float:
        match found.step:
            case Create(reason):
                self._log.warning("creating new certificates", secret=self._target.secret, reason=reason.value)
                await self._write(secret, first_content(self._create_generation(now), content, now))
            case Prepare():
                assert found.held is not None
                await self._write(secret, prepared_content(found.held, self._create_generation(now)))
            case Promote(after):
                await self._write(secret, after)
            case Wait(until):
                return until - now
        return 0.0

    def _create_generation(self, now: float) -> Generation:
        return create_generation(self._names, datetime.fromtimestamp(now, UTC), self._life_s())

    async def _write(self, secret: Secret | None, content: Mapping[str, bytes]) -> None:
        data: dict[str, Any] = dict(encode_data(content))
        if secret is None:
            metadata = {"name": self._target.secret, "namespace": self._target.namespace}
            new = {"metadata": metadata, "type": "Opaque", "data": data}
            self._secrets.learn(await self._client.create(SECRETS, new, self._target.namespace))
            return
        ours = {key for key in secret.data if key.endswith((".crt", ".key"))}
        patch = MergePatch(
            {
                "metadata": {"resourceVersion": secret.metadata.resource_version},
                "data": data | dict.fromkeys(ours - data.keys()),
            }
        )
        self._secrets.learn(await self._client.patch(SECRETS, self._target.secret, patch, self._target.namespace))

    async def _publish(self, configuration: Unstructured | None, bundle: bytes) -> None:
        configurations = self._configurations
        if configurations is None or configuration is None or self._published_bundle(configuration) in (None, bundle):
            return
        number = _webhook_index(configuration.content, self._target.webhook)
        patch = JsonPatch(
            [
                {"op": "test", "path": f"/webhooks/{number}/name", "value": self._target.webhook},
                {
                    "op": "add",
                    "path": f"/webhooks/{number}/clientConfig/caBundle",
                    "value": base64.b64encode(bundle).decode(),
                },
            ]
        )
        name = configuration.metadata.name
        configurations.learn(await self._client.patch(self._target.configurations, name, patch))
        self._log.info("CA bundle published in the webhook configuration", configuration=name)

    def _published_bundle(self, configuration: Unstructured | None) -> bytes | None:
        return published_bundle(configuration, self._target.webhook)

    async def _relist(self) -> None:
        try:
            await self._secrets.relist()
            if self._configurations is not None:
                await self._configurations.relist()
        except KubeError as problem:
            self._log_problem(str(problem))

    async def _wait_for_change(self, seconds: float) -> None:
        """Sleep; a change of the Secret or the configuration ends the pause."""
        try:
            async with asyncio.timeout(min(max(0.0, seconds), _LONGEST_WAIT_S)):
                await self._changed.wait()
        except TimeoutError:
            return

    def _wake(self, _: object, __: object) -> None:
        self._changed.set()

    def _log_problem(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._log.warning("update of the certificates failed, retrying", error=problem)


def published_bundle(configuration: Unstructured | None, webhook: str) -> bytes | None:
    """Return a webhook's current bundle, empty if it has none; None if there is no such webhook."""
    if configuration is None:
        return None
    content = configuration.content
    number = _webhook_index(content, webhook)
    if number is None:
        return None
    try:
        return base64.b64decode(
            content["webhooks"][number].get("clientConfig", {}).get("caBundle") or "", validate=True
        )
    except (binascii.Error, ValueError):
        return b""


def _webhook_index(content: Mapping[str, Any], webhook: str) -> int | None:
    webhooks = content.get("webhooks") or ()
    return next((number for number, each in enumerate(webhooks) if each.get("name") == webhook), None)


def _time_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
