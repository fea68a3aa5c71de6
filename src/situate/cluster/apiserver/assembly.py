"""A cluster without a network: the API server, and the controllers that write through it like any client.

It does no I/O: the caller passes requests in, and calls `step` when `machinery.next_due` is reached. With a network,
which webhooks need, `situate.embedded` connects the same two parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from situate.cluster.apiserver.api import Answer, ApiServer, Handling
from situate.cluster.apiserver.controller_writes import ControllerWriter, DeferWrite, answer_of
from situate.cluster.controllers import ControllerFactory, Machinery, MachinerySettings
from situate.cluster.controllers.machinery.actions import Rng
from situate.cluster.storage.effects import Effect, Identity, unreachable_replies
from situate.cluster.storage.names import NameGenerator
from situate.objects.messages import Request


class Cluster:
    """An API server and its controllers on one store. All times are Unix seconds."""

    def __init__(
        self,
        names: NameGenerator,
        rng: Rng,
        settings: MachinerySettings,
        *,
        now: float,
        tracks_managers: bool = True,
        later: DeferWrite | None = None,
        further: Sequence[ControllerFactory] = (),
    ) -> None:
        """Connect the API server and the controllers.

        `tracks_managers`: see `ApiServer`. `later` drives writes of controllers that wait for webhooks, and passes
        their answers to `machinery.settle`. Without it webhooks count as unreachable. `further`: see `Machinery`.
        """
        self.api = ApiServer(names, now=now, tracks_managers=tracks_managers)
        self._now = now
        writer = ControllerWriter(self.api, lambda: self._now, later or self._settle_without_network)
        self.machinery = Machinery(writer, self.api.store, self.api.catalog, settings, rng, further=further)
        self.api.store.subscribe(self.machinery.observe)

    def answer(self, request: Request, now: float, identity: Identity) -> Answer:
        """Answer one request of a client. Webhooks count as unreachable."""
        self._now = max(self._now, now)
        return self.api.answer(request, now, identity)

    def step(self, now: float) -> None:
        """Let the controllers do all due work."""
        self._now = max(self._now, now)
        self.machinery.step(self._now)

    def _settle_without_network(self, handling: Handling, effect: Effect, ticket: int) -> None:
        try:
            while True:
                effect = handling.send(unreachable_replies(effect))
        except StopIteration as done:
            self.machinery.settle(ticket, answer_of(done.value))
