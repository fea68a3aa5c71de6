"""Reports whether API servers have a webhook's configuration: without it they do not call it, and nothing fails."""

from __future__ import annotations

import asyncio

from situate.kube.watch.reflector import Reflector
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.unstructured import Unstructured
from situate.runtime.serving.certificates.secret_controller import published_bundle


class WebhookPresence:
    """Follows one configuration through its reflector, which the caller runs."""

    def __init__(self, configurations: Reflector[Unstructured], configuration: str, webhook: str) -> None:
        """`configuration` is its name; `webhook` is the name that it must contain."""
        self.configuration = configuration
        self._configurations = configurations
        self._webhook = webhook
        self._changed = asyncio.Event()
        configurations.store.on_change(lambda _, __: self._changed.set())

    async def wait_synced(self) -> None:
        """Wait until it is known whether the configuration exists."""
        await self._configurations.store.wait_synced()

    def installed_metadata(self) -> ObjectMeta | None:
        """Return the configuration's metadata; None if it is missing or does not contain the webhook."""
        found = self._configurations.store.get(self.configuration)
        return None if found is None or published_bundle(found, self._webhook) is None else found.metadata

    async def wait_change(self, known: ObjectMeta | None) -> None:
        """Wait until the configuration is installed, removed or created again."""
        uid = None if known is None else known.uid
        while (None if (now := self.installed_metadata()) is None else now.uid) == uid:
            self._changed.clear()
            await self._changed.wait()
