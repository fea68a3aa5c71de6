"""Build the kubeconfig with which kubectl and other clients reach an embedded server."""

from __future__ import annotations

import base64
import errno
import os
from pathlib import Path
from typing import Any

import yaml

_NAME = "situate-embedded"


def kubeconfig(url: str, *, token: str = "", authority: bytes = b"") -> dict[str, Any]:
    """Return the content. `authority` is the PEM of the certificate authority, for a server with TLS."""
    cluster: dict[str, Any] = {"server": url}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"token": token} if token else {}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
        "current-context": _NAME,
    }


def write_kubeconfig(path: Path, content: dict[str, Any]) -> None:
    """Write the file atomically, readable only by its owner, so that waiting readers find it complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w") as out:
        yaml.safe_dump(content, out, sort_keys=False)
    os.replace(fresh, path)
