"""Which cluster a command asks, or which files in its place."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from situate.cli.read_cluster.files import FileTransport
from situate.cli.terminal.failures import WrongInput
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection


@dataclass(frozen=True, slots=True)
class Where:
    """As `--kubeconfig`, `--context` and `--objects` say."""

    kubeconfig: Path | None = None
    context: str | None = None
    objects: tuple[Path, ...] = ()
    """Files and folders that are read in place of a cluster; empty: a cluster is asked."""

    @classmethod
    def of(cls, kubeconfig: Path | None, context: str | None, objects: Iterable[Path] | None = None) -> Where:
        """Of options, whose lists may be None."""
        return cls(kubeconfig, context, tuple(objects or ()))

    def client(self) -> Client:
        """Reads what is asked about. Raises `BadConnection`, or `WrongInput` for a file that holds no objects."""
        if self.objects:
            return Client(FileTransport(self.objects), server=", ".join(map(str, self.objects)))
        return connect(find_connection(self.kubeconfig, self.context), random.Random())

    def listed(self, given: str | None, *, of_all: bool) -> str | None:
        """The namespace that a list is about; None: all of them. Raises `WrongInput` and `BadConnection`.

        `given`: what `-n` says, else it is the context's; `of_all`: `-A`. Files know no context: without `-n` a list
        of them is about all namespaces.
        """
        if of_all and given is not None:
            raise WrongInput(f"-A lists all namespaces, and -n {given} only one: leave one of them out")
        if of_all or (given is None and self.objects):
            return None
        return self.namespace(given)

    def namespace(self, given: str | None) -> str:
        """The namespace of a name that has none: what `-n` says, the context's, or `default` with files."""
        if given is not None:
            return given
        return "default" if self.objects else find_connection(self.kubeconfig, self.context).namespace
