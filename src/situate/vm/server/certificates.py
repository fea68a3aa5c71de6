"""Certificates of the installation: the leader maintains them, and every replica uses them (B44, B48).

One Secret holds them, for one Service with two ports: one for agents and Pods, one for API servers.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from situate.kube.client import Client
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.reflectors import object_reflector
from situate.objects.kinds.config_maps import Secret
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import SECRETS
from situate.runtime.serving.certificates.issue import host_names
from situate.runtime.serving.certificates.renewal_schedule import Generation, Unusable, decode_data, read_content
from situate.runtime.serving.certificates.secret_controller import VALIDATING, CertificateController, CertificateTarget
from situate.runtime.serving.webhook_server import load_generation
from situate.vm.protocol.eviction_webhook_objects import CERTIFICATES, SERVICE, WEBHOOK, configuration_name


class Certificates:
    """Certificates of one process. None are created if neither Secret nor webhook is installed."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        life_s: float,
        for_webhook: bool,
        wall: Callable[[], datetime],
        rng: random.Random,
    ) -> None:
        """`client`: its writes raise a `Retriable` if this process does not lead. `namespace`: of the installation."""
        self._namespace = namespace
        self._names = host_names(SERVICE, namespace)
        self._wall = wall
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        """Context with the current certificate of the Secret, for new connections."""
        self.context.set_alpn_protocols(["http/1.1"])
        self.configuration = configuration_name(namespace)
        self.current_generation: Generation | None = None
        """Certificates of the leader in this term; None before there are some, and while this process follows."""
        self.on_generation: Callable[[Generation], None] = lambda _: None
        self._loaded: Generation | None = None
        self._issued = asyncio.Event()
        self._changed = asyncio.Event()
        self.secrets: Reflector[Secret] = object_reflector(client, SECRETS, CERTIFICATES, namespace, rng)
        self.configurations: Reflector[Unstructured] | None = None
        if for_webhook:
            self.configurations = object_reflector(client, VALIDATING, self.configuration, None, rng)
        self._upkeep = CertificateController(
            CertificateTarget(VALIDATING, self.configuration, WEBHOOK, CERTIFICATES, namespace),
            client,
            self.secrets,
            self.configurations,
            names=self._names,
            life_s=lambda: life_s,
            wall=lambda: wall().timestamp(),
            serve=self._store_generation,
        )
        for each in self.reflectors():
            each.store.on_change(lambda _, __: self._load_certificate())

    def reflectors(self) -> Iterator[Reflector[Any]]:
        yield self.secrets
        if self.configurations is not None:
            yield self.configurations

    async def wait_installation_known(self) -> bool:
        """Return whether the Secret or the webhook is installed, as soon as that is known."""
        for each in self.reflectors():
            await each.store.wait_synced()
        return self._is_installed()

    async def wait_issued(self) -> None:
        """Wait until `context` has a certificate."""
        await self._issued.wait()

    async def run(self) -> None:
        """Maintain the certificates: a task of the leader, until cancelled, and again in its next term."""
        await self.wait_installation_known()
        try:
            while True:
                await self._wait_installed(installed=True)
                upkeep = asyncio.ensure_future(self._upkeep.run())
                gone = asyncio.ensure_future(self._wait_installed(installed=False))
                try:
                    await asyncio.wait((upkeep, gone), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    upkeep.cancel()
                    gone.cancel()
                    await asyncio.wait((upkeep, gone))
                if not upkeep.cancelled():
                    upkeep.result()
        finally:
            self.current_generation = None  # it may have expired by the next term

    def _store_generation(self, generation: Generation) -> None:
        self.current_generation = generation
        self.on_generation(generation)

    def _is_installed(self) -> bool:
        secret = self.secrets.store.get(CERTIFICATES, self._namespace)
        known = self.configurations is not None and self.configurations.store.get(self.configuration) is not None
        return secret is not None or known

    async def _wait_installed(self, *, installed: bool) -> None:
        while self._is_installed() != installed:
            self._changed.clear()
            await self._changed.wait()

    def _load_certificate(self) -> None:
        self._changed.set()
        secret = self.secrets.store.get(CERTIFICATES, self._namespace)
        held = read_content(decode_data({} if secret is None else secret.data), self._names, self._wall().timestamp())
        if isinstance(held, Unusable) or held.current == self._loaded:
            return  # an unusable Secret changes nothing: the old certificate stays in use
        load_generation(self.context, held.current)
        self._loaded = held.current
        self._issued.set()
