"""Finds the API server as kubectl does and returns a client for it.

The order: a file named explicitly, the files of $KUBECONFIG, ~/.kube/config, the service account of the pod in which
this process runs.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import urlsplit

from situate.kube.client import Client
from situate.kube.login.connection import BadConnection, Connection, Pem
from situate.kube.login.credentials import Credentials
from situate.kube.login.kubeconfig import PROXY_SCHEMES, load_kubeconfig
from situate.kube.login.urls import is_address, without_user
from situate.kube.retry.rate_limiter import RateLimiter
from situate.kube.retry.retries import Retries
from situate.kube.transport.http import HttpTransport

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def find_connection(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """Find the API server to connect to.

    `BadConnection` names the mistake in the configuration found, or every place searched if there is none. `environ`
    None means this process's variables. A proxy of the environment is used where the configuration names none.
    """
    environ = os.environ if environ is None else environ
    return add_proxy(_select_connection(kubeconfig, context, environ, service_account), environ)


def add_proxy(connection: Connection, environ: Mapping[str, str]) -> Connection:
    """Add the proxy that the environment names for the connection's server, unless the connection has its own proxy."""
    if connection.proxy_url:
        return connection
    proxy_url = _proxy_of(connection.server, environ)
    if proxy_url and not is_address(proxy_url, PROXY_SCHEMES):
        raise BadConnection(
            f"the environment's proxy: found {without_user(proxy_url)!r}; allowed: http://HOST:PORT or https://HOST:PORT"
        )
    return replace(connection, proxy_url=proxy_url)


def connect(
    connection: Connection, rng: Random, *, qps: float | None = None, burst: int = 100, max_connections: int = 64
) -> Client:
    """Create a client for one server; needs a running event loop, and the caller must close the client.

    `rng` adds jitter to the delays before retries; `qps` None sends without a limit. `max_connections` bounds the calls
    in flight; watches are not counted.
    """
    loop = asyncio.get_running_loop()
    credentials = Credentials(connection, monotonic=loop.time, now=lambda: datetime.now(UTC))
    limiter = RateLimiter(qps, burst) if qps else None
    return Client(
        HttpTransport(connection, credentials, max_connections=max_connections),
        limiter=limiter,
        retries=Retries(rng),
        server=connection.server,
    )


def in_cluster_connection(environ: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT) -> Connection | None:
    """Build the connection from the service account that the kubelet mounts; None outside a pod.

    Token and certificate authority are read again as their files change.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    token_file = service_account / "token"
    if not (host and port and os.path.exists(token_file)):
        return None
    if not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 2**16):
        raise BadConnection(f"$KUBERNETES_SERVICE_PORT: found {port[:60]!r}; allowed: a port from 1 to 65535")
    namespace_file, ca_file = service_account / "namespace", service_account / "ca.crt"
    return Connection(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        source=f"the service account in {service_account}",
        namespace=_namespace_in(namespace_file),
        ca=Pem(path=ca_file, field="ca.crt") if os.path.exists(ca_file) else None,
        token_file=token_file,
    )


def _namespace_in(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return "default"
    except (OSError, UnicodeDecodeError) as error:
        raise BadConnection(f"{file}: cannot be read: {error}; allowed: a file with the name of a namespace") from error


def _select_connection(
    kubeconfig: Path | None, context: str | None, environ: Mapping[str, str], account: Path
) -> Connection:
    if kubeconfig is not None:
        try:
            kubeconfig.stat()
        except FileNotFoundError:
            raise BadConnection(f"{kubeconfig}: no such file; name an existing kubeconfig") from None
        except OSError:
            pass  # reading the file reports the problem
        return load_kubeconfig([kubeconfig]).connection(context)
    paths = _default_paths(environ)
    loaded = load_kubeconfig(paths)
    if not loaded.empty:
        return loaded.connection(context)
    in_cluster = in_cluster_connection(environ, account)
    if in_cluster is None:
        variable = "$KUBECONFIG" if environ.get("KUBECONFIG") else "$KUBECONFIG is not set,"
        looked = ", ".join(map(str, paths)) or "~/.kube/config"
        raise BadConnection(
            f"no cluster to connect to: {variable} {looked} is missing or empty, and there is no service account "
            f"of a pod in {account}; name a kubeconfig, or set $KUBECONFIG"
        )
    if context:
        raise BadConnection(f"context {context}: found no kubeconfig, only {in_cluster.source}; omit the context")
    return in_cluster


def _default_paths(environ: Mapping[str, str]) -> list[Path]:
    if variable := environ.get("KUBECONFIG"):
        return [Path(part) for part in variable.split(os.pathsep) if part]
    home = environ.get("HOME")
    return [Path(home) / ".kube" / "config"] if home else []


def _proxy_of(server: str, environ: Mapping[str, str]) -> str:
    """Choose the proxy as golang.org/x/net/http/httpproxy does: loopback addresses never get the environment's."""
    parts = urlsplit(server)
    name = f"{parts.scheme}_proxy"
    proxy = environ.get(name.upper()) or environ.get(name, "")
    host = parts.hostname or ""
    if not proxy or host == "localhost" or _is_exempt(host, environ.get("NO_PROXY") or environ.get("no_proxy", "")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_exempt(host: str, no_proxy: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if address is not None and address.is_loopback:
        return True
    for entry in (part.strip().lower() for part in no_proxy.split(",")):
        name = entry.rsplit(":", 1)[0] if entry.count(":") == 1 else entry
        if name == "*" or (address is not None and _covers_address(name, address)):
            return True
        domain = name.removeprefix("*").removeprefix(".")
        if domain and (host.endswith(f".{domain}") or host == name):
            return True
    return False


def _covers_address(entry: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
