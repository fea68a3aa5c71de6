"""Where an API server is and how to log in there, whichever way that was found out.

Kubeconfig files and the service account of a pod both end in a `Connection`; `situate.kube.login.credentials` reads the
secrets that it names, again and again as they change, and `situate.kube.transport.http` uses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from situate.kube.errors import KubeError


class BadConnection(KubeError):
    """A file or variable that says how to connect is wrong; the message names it, the field, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Pem:
    """A certificate, key or bundle: the text itself, or a file that may be replaced at any time."""

    data: bytes = field(default=b"", repr=False)
    path: Path | None = None
    """None if `data` holds it."""
    field: str = ""
    """Where the configuration names it, for messages."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints credentials (client.authentication.k8s.io)."""

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"
    """`Never`, `IfAvailable` or `Always` has the terminal."""
    cluster_config: Any = None
    """What the cluster entry holds for the plugin; None if nothing."""


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Another account to act as; an empty user is nobody."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Connection:
    """Everything needed to talk to one API server as one account."""

    server: str
    """URL without a slash at its end; may have a path."""
    source: str
    """Where this was found, for messages: `context dev of /home/me/.kube/config`."""
    namespace: str = "default"
    ca: Pem | None = None
    """None trusts the authorities of the system."""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    """The name that the server's certificate must bear; empty means the host of the URL."""
    proxy_url: str = ""
    certificate: Pem | None = None
    """None shows no client certificate."""
    key: Pem | None = None
    """None if there is no certificate."""
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    """Wins over `token`; None if there is no such file."""
    username: str = ""
    password: str = field(default="", repr=False)
    exec: ExecPlugin | None = None
    """Asked where there is no token and no password; None if there is no plugin."""
    impersonation: Impersonation = field(default_factory=Impersonation)
