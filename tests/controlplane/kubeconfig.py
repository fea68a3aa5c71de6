"""The kubeconfig of one user of the control plane."""

from __future__ import annotations

import base64
import json
from pathlib import Path


def write_kubeconfig(path: Path, *, url: str, authority: bytes, user: str, token: str, namespace: str = "") -> Path:
    """Readable by its owner only. JSON, which every reader of YAML takes."""
    context = {"cluster": "situate-test", "user": user, **({"namespace": namespace} if namespace else {})}
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()}
    text = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "situate-test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "situate-test", "context": context}],
            "current-context": "situate-test",
        },
        indent=2,
    )
    path.touch(mode=0o600)
    path.write_text(text)
    return path
