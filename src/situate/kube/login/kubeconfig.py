"""Kubeconfig files, merged and read as kubectl does (client-go tools/clientcmd).

The first file that names a cluster, user or context wins, whole; the first `current-context` wins. Relative paths start
at the file that contains them. `situate.kube.login.credentials` reads the secrets.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from situate.kube.login.connection import BadConnection, Connection, ExecPlugin, Impersonation, Pem
from situate.kube.login.kubeconfig_fields import Fields
from situate.kube.login.urls import has_user, is_address, without_user
from situate.objects.settings.yaml_text import load_yaml

_EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
_INTERACTIVE_MODES: Final = ("Never", "IfAvailable", "Always")
PROXY_SCHEMES: Final = ("http", "https")
"""Proxies that the transport supports."""


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The merged content of some files; entries are parsed when a context needs them."""

    files: tuple[Path, ...]
    current_context: str
    clusters: dict[str, Fields]
    users: dict[str, Fields]
    contexts: dict[str, Fields]

    @property
    def empty(self) -> bool:
        """Whether the files define nothing, as when none of them exists."""
        return not (self.current_context or self.clusters or self.users or self.contexts)

    def connection(self, context: str | None = None) -> Connection:
        """Build the connection of a context, the current one if none is named.

        `BadConnection` gives a mistake's place.
        """
        where = ", ".join(map(str, self.files))
        name = context or self.current_context
        if not name:
            step = f"or name one of {_names(self.contexts)}" if self.contexts else "after you add a context"
            raise BadConnection(
                f"{where}: current-context: nothing is set; run `kubectl config use-context NAME` {step}"
            )
        chosen = self.contexts.get(name)
        if chosen is None:
            field = "requested context" if context else "current-context"
            raise BadConnection(f"{where}: {field}: found {name!r}; allowed: {_names(self.contexts)}")
        cluster = self._entry(chosen, "cluster", self.clusters)
        user = self._entry(chosen, "user", self.users) if chosen.text("user") else None
        return _connection(name, chosen, cluster, user)

    @staticmethod
    def _entry(context: Fields, kind: str, entries: dict[str, Fields]) -> Fields:
        name = context.text(kind)
        entry = entries.get(name)
        if entry is None:
            raise context.mistake(kind, name or None, f"a {kind} of this configuration: {_names(entries)}")
        return entry


def load_kubeconfig(paths: Sequence[Path]) -> Kubeconfig:
    """Read the files that exist, in order of precedence; `BadConnection` if one cannot be read or parsed."""
    current = ""
    clusters: dict[str, Fields] = {}
    users: dict[str, Fields] = {}
    contexts: dict[str, Fields] = {}
    for path in paths:
        root = _root(path)
        if root is None:
            continue
        current = current or root.text("current-context")
        for table, plural, singular in (
            (clusters, "clusters", "cluster"),
            (users, "users", "user"),
            (contexts, "contexts", "context"),
        ):
            for entry in root.entries(plural):
                table.setdefault(entry.required_text("name"), entry.section(singular))
    return Kubeconfig(tuple(paths), current, clusters, users, contexts)


def _root(path: Path) -> Fields | None:
    """Parse one file; None if it does not exist: kubectl skips such files, too."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadConnection(
            f"{path}: cannot be read: {error.strerror}; check that it is a file that you may read"
        ) from error
    except UnicodeDecodeError as error:
        raise BadConnection(f"{path}: byte {error.start} is not UTF-8; allowed: a YAML file of kind Config") from error
    content, mistakes = load_yaml(text)
    if mistakes:
        raise BadConnection(f"{path}: {mistakes[0]}")
    root = Fields(path, "", {} if content is None else content)
    kind = root.text("kind")
    if kind not in ("", "Config"):
        raise root.mistake("kind", kind, "Config")
    if root.text("apiVersion") not in ("", "v1"):
        raise root.mistake("apiVersion", root.text("apiVersion"), "v1")
    return root


def _connection(name: str, context: Fields, cluster: Fields, user: Fields | None) -> Connection:
    server = cluster.required_text("server").rstrip("/")
    _check_url(cluster, "server", server, ("http", "https"))
    if has_user(server):
        allowed = "a URL without a user (write username and password, or a token, in users[].user)"
        raise cluster.mistake("server", without_user(server), allowed)
    proxy_url = cluster.text("proxy-url")
    if proxy_url:
        _check_url(cluster, "proxy-url", proxy_url, PROXY_SCHEMES)
    ca = _pem(cluster, "certificate-authority")
    insecure = cluster.flag("insecure-skip-tls-verify")
    if insecure and ca:
        raise cluster.mistake("insecure-skip-tls-verify", True, "false, because certificate-authority is set")
    user = user or Fields(context.file, context.path, {})
    certificate, key = _certificate(user)
    username, password, token = user.text("username"), user.text("password"), user.text("token")
    token_file = user.path_of("tokenFile")
    if username and (token or token_file):
        raise user.mistake("username", username, "no value, because token or tokenFile is set")
    if user.has("auth-provider"):
        raise user.mistake(
            "auth-provider", "a provider", "no value, because Kubernetes 1.26 removed it; use an exec plugin"
        )
    return Connection(
        server=server,
        source=f"context {name} of {context.file}",
        namespace=context.text("namespace") or "default",
        ca=ca,
        insecure_skip_tls_verify=insecure,
        tls_server_name=cluster.text("tls-server-name"),
        proxy_url=proxy_url,
        certificate=certificate,
        key=key,
        token=token,
        token_file=token_file,
        username=username,
        password=password,
        exec=_exec(user.section("exec"), cluster) if user.has("exec") else None,
        impersonation=_impersonation(user),
    )


def _check_url(fields: Fields, key: str, url: str, schemes: tuple[str, ...]) -> None:
    if not is_address(url, schemes):
        allowed = " or ".join(f"{scheme}://HOST[:PORT]" for scheme in schemes)
        raise fields.mistake(key, without_user(url), allowed)


def _pem(fields: Fields, key: str) -> Pem | None:
    """Read PEM data or a file; data takes precedence, as in kubectl."""
    data_key = f"{key}-data"
    text = "".join(fields.text(data_key).split())  # as in Go: YAML may have folded it into lines
    if text:
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise fields.mistake(data_key, text[:20] + "…", "base64 of a PEM file") from error
        if b"-----BEGIN" not in data:
            raise fields.mistake(data_key, text[:20] + "…", "base64 of a PEM file, which begins with -----BEGIN")
        return Pem(data=data, field=fields.place(data_key))
    path = fields.path_of(key)
    return Pem(path=path, field=fields.place(key)) if path else None


def _certificate(user: Fields) -> tuple[Pem | None, Pem | None]:
    certificate, key = _pem(user, "client-certificate"), _pem(user, "client-key")
    if certificate and not key:
        raise user.mistake("client-key", None, "the key of client-certificate, as client-key or client-key-data")
    if key and not certificate:
        raise user.mistake(
            "client-certificate",
            None,
            "the certificate of client-key, as client-certificate or client-certificate-data",
        )
    return certificate, key


def _exec(fields: Fields, cluster: Fields) -> ExecPlugin:
    version = fields.required_text("apiVersion")
    if version not in _EXEC_VERSIONS:
        raise fields.mistake("apiVersion", version, " or ".join(_EXEC_VERSIONS))
    mode = fields.text("interactiveMode")
    if not mode and version.endswith("/v1"):
        raise fields.mistake("interactiveMode", None, " or ".join(_INTERACTIVE_MODES))
    mode = mode or "IfAvailable"
    if mode not in _INTERACTIVE_MODES:
        raise fields.mistake("interactiveMode", mode, " or ".join(_INTERACTIVE_MODES))
    command = fields.required_text("command")
    if "/" in command:
        command = str(fields.file.parent / command)
    return ExecPlugin(
        api_version=version,
        command=command,
        args=fields.texts("args"),
        env=tuple((entry.required_text("name"), entry.text("value")) for entry in fields.entries("env")),
        install_hint=fields.text("installHint"),
        provide_cluster_info=fields.flag("provideClusterInfo"),
        interactive_mode=mode,
        cluster_config=_plugin_config(cluster),
    )


def _plugin_config(cluster: Fields) -> Any:
    for entry in cluster.entries("extensions"):
        if entry.text("name") == _EXEC_EXTENSION:
            return entry.value("extension")
    return None


def _impersonation(user: Fields) -> Impersonation:
    extra = user.section("as-user-extra")
    impersonation = Impersonation(
        user=user.text("as"),
        uid=user.text("as-uid"),
        groups=user.texts("as-groups"),
        extra={key: extra.texts(key) for key in extra.names()},
    )
    if not impersonation.user and (impersonation.uid or impersonation.groups or impersonation.extra):
        raise user.mistake("as", None, "the user to impersonate, because as-uid, as-groups or as-user-extra is set")
    return impersonation


def _names(entries: dict[str, Fields]) -> str:
    return ", ".join(sorted(entries)) or "none is defined"
