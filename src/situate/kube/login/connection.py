"""The address of an API server and how to log in there.

Kubeconfig files and the service account of a pod both end in a `Connection`. `situate.kube.login.credentials` reads the
secrets that it names, again as they change. `situate.kube.transport.http` uses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from situate.kube.errors import KubeError


class BadConnection(KubeError):
    """A file or variable of the configuration is wrong; the message names it, the field, and the allowed values."""


@dataclass(frozen=True, slots=True)
class Pem:
    """A certificate, key or bundle: the text itself, or a file that may be replaced at any time."""

    data: bytes = field(default=b"", repr=False)
    path: Path | None = None
    """None if `data` holds the text."""
    field: str = ""
    """Its place in the configuration, for messages."""


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
    """`Never`, `IfAvailable` or `Always`: whether the plugin gets the terminal."""
    cluster_config: Any = None
    """The cluster entry's configuration for the plugin; None if there is none."""


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The account to act as; no impersonation if the user is empty."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Connection:
    """All settings needed to talk to one API server as one account."""

    server: str
    """URL without a slash at its end; may have a path."""
    source: str
    """Where the connection was found, for messages: `context dev of /home/me/.kube/config`."""
    namespace: str = "default"
    ca: Pem | None = None
    """None trusts the system's certificate authorities."""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    """The name that the server's certificate must have; empty means the host of the URL."""
    proxy_url: str = ""
    certificate: Pem | None = None
    """None presents no client certificate."""
    key: Pem | None = None
    """None if there is no certificate."""
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    """Takes precedence over `token`; None if there is no such file."""
    username: str = ""
    password: str = field(default="", repr=False)
    exec: ExecPlugin | None = None
    """Used if there is neither token nor password; None if there is no plugin."""
    impersonation: Impersonation = field(default_factory=Impersonation)
