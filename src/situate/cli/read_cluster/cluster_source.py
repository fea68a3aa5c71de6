"""Select the cluster that a command reads, or the files in its place."""

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
class ClusterSource:
    """Values of `--kubeconfig`, `--context` and `--objects`."""

    kubeconfig: Path | None = None
    context: str | None = None
    objects: tuple[Path, ...] = ()
    """Files and folders to read in place of a cluster; empty for a cluster."""

    @classmethod
    def create(
        cls, kubeconfig: Path | None, context: str | None, objects: Iterable[Path] | None = None
    ) -> ClusterSource:
        """Create it from options, whose lists may be None."""
        return cls(kubeconfig, context, tuple(objects or ()))

    def client(self) -> Client:
        """Return a client of the cluster or the files.

        Raises `BadConnection`, or `WrongInput` for a file that holds no objects.
        """
        if self.objects:
            return Client(FileTransport(self.objects), server=", ".join(map(str, self.objects)))
        return connect(find_connection(self.kubeconfig, self.context), random.Random())

    def listed_namespace(self, given: str | None, *, of_all: bool) -> str | None:
        """Return the namespace to list, or None for all. Raises `WrongInput` and `BadConnection`.

        `given` is the value of `-n`, and `of_all` is `-A`. The default is the context's namespace. Files have no
        context, so without `-n` all namespaces are listed.
        """
        if of_all and given is not None:
            raise WrongInput(f"-A lists all namespaces, and -n {given} only one: leave one of them out")
        if of_all or (given is None and self.objects):
            return None
        return self.namespace(given)

    def namespace(self, given: str | None) -> str:
        """Return the namespace of a name without one: the value of `-n`, the context's, or `default` with files."""
        if given is not None:
            return given
        return "default" if self.objects else find_connection(self.kubeconfig, self.context).namespace
