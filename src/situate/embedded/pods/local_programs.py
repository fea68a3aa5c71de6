"""Programs that replace the images of pods on this machine: ours, and those that a user configures.

Each process acts as its pod's ServiceAccount, bound to the pod, as with a token that a kubelet mounts. Its kubeconfig
impersonates the account; an embedded server without tokens allows every client to do so. Volumes, probes, ports and
hooks are not simulated, so configuration from a volume is missing.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from situate.embedded.kubeconfig import write_kubeconfig
from situate.embedded.pods.processes import Program

_SITUATE_IMAGE: Final = re.compile(r"(?:[^\s@]*/)?situate(?::[^/\s@]+)?(?:@\S+)?")
"""The image that `situate manifests` prints, from any registry."""
_HEALTH_ARGUMENTS: Final = ("--set", "health.address=127.0.0.1:0")
"""Many processes share one machine, so none may have a fixed port."""
POD_NETWORK: Final = "127.128.0.0/9"
"""Addresses of Pods that run as processes here. On Linux a process can listen on all of them at once."""
_POD: Final = "authentication.kubernetes.io/pod-"


class BadImage(ValueError):
    """A text that is not an image with a command. The message lists the allowed form."""


def parse_images(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parse commands by image from texts such as `reports:1=python executor.py`. Raises `BadImage`."""
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        image, equals, command = text.partition("=")
        try:
            words = tuple(shlex.split(command))
        except ValueError as problem:
            raise BadImage(
                f"found {text!r} with a command that cannot be parsed: {problem}; correct its quotes"
            ) from None
        if not (image and equals and words):
            raise BadImage(f"found {text!r}, allowed: IMAGE=COMMAND, such as reports:1='python executor.py'")
        found[image] = words
    return found


class LocalPrograms:
    """The program of each pod. Kubeconfigs are written to a folder."""

    def __init__(self, content: Mapping[str, Any], folder: Path, images: Mapping[str, Sequence[str]]) -> None:
        """Configure the programs.

        `content` is the content of the administrator's kubeconfig; `images` has the commands of a user's images.
        """
        self._content = content
        self._folder = folder
        self._images = images

    def __call__(self, pod: Mapping[str, Any]) -> Program | None:
        container = pod["spec"]["containers"][0]
        command = self._command(container)
        if command is None:
            return None
        metadata = pod["metadata"]
        kubeconfig = self._folder / f"{metadata['namespace']}.{metadata['name']}.kubeconfig"
        write_kubeconfig(kubeconfig, kubeconfig_for_pod(self._content, pod))
        return Program(command, {"KUBECONFIG": str(kubeconfig.absolute())})

    def _command(self, container: Mapping[str, Any]) -> list[str] | None:
        """Return the command; None for a foreign image without a configured command."""
        image = str(container.get("image", ""))
        arguments = [*container.get("args", ())]
        if image in self._images:
            return [*(container.get("command") or self._images[image]), *arguments]
        if _SITUATE_IMAGE.fullmatch(image) and not container.get("command"):
            further = _HEALTH_ARGUMENTS if arguments[:1] == ["run"] else ()
            return [sys.executable, "-m", "situate", *arguments, *further]
        return None


def kubeconfig_for_pod(content: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return a kubeconfig that acts as a pod's ServiceAccount, bound to the pod."""
    metadata = pod["metadata"]
    namespace = metadata["namespace"]
    account = pod["spec"].get("serviceAccountName") or "default"
    user = {
        "as": f"system:serviceaccount:{namespace}:{account}",
        "as-groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"],
        "as-user-extra": {f"{_POD}name": [metadata["name"]], f"{_POD}uid": [metadata["uid"]]},
    }
    (old_user,), (old_context,) = content["users"], content["contexts"]
    return {
        **content,
        "users": [{**old_user, "user": {**old_user["user"], **user}}],
        "contexts": [{**old_context, "context": {**old_context["context"], "namespace": namespace}}],
    }
