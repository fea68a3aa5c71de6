"""Read the settings of an installation from its Deployment. Commands without a file use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from situate.cli.input.configuration import configuration_from_text, configuration_without_file, spot_settings
from situate.cli.manifests.manifests import ACCOUNT
from situate.kube.client import Client
from situate.kube.errors import Forbidden, NotFound
from situate.objects.resources import CONFIGMAPS, unstructured
from situate.runtime.configuration.file import BadConfiguration
from situate.spot.config.settings import SpotSettings
from situate.spot.model.object_names import NAME

_DEPLOYMENTS: Final = unstructured("apps", "v1", "Deployment", "deployments")
_FILE: Final = "situate.yaml"
"""Key of the mounted ConfigMap."""


class UnreadableSettings(Exception):
    """Settings that cannot be read. The text gives the reason."""


async def installed_settings(client: Client, namespace: str, assignments: Iterable[str]) -> SpotSettings | None:
    """Return the settings, with the assignments of `--set`.

    None without an installation. Raises `UnreadableSettings`.
    """
    given = tuple(assignments)
    for name in (NAME, ACCOUNT):  # spot alone, or together with other products
        try:
            found = await client.get(_DEPLOYMENTS, name, namespace)
        except NotFound:
            continue
        except Forbidden as problem:
            raise UnreadableSettings(str(problem)) from None
        try:
            settings = await _read_settings(client, namespace, name, found.content, given)
        except (BadConfiguration, Forbidden, NotFound) as problem:
            raise UnreadableSettings(f"Deployment {namespace}/{name}: {problem}") from None
        if settings is not None:
            return settings
    return None


async def _read_settings(
    client: Client, namespace: str, name: str, deployment: dict[str, Any], given: Sequence[str]
) -> SpotSettings | None:
    arguments = _container_arguments(deployment)
    own = [value for flag, value in pairwise(arguments) if flag == "--set"]
    if "-f" not in arguments:
        return spot_settings(configuration_without_file((*own, *given)))
    config_map = await client.get(CONFIGMAPS, name, namespace)
    text = config_map.data.get(_FILE, "")
    return spot_settings(configuration_from_text(text, f"ConfigMap {namespace}/{name}", (*own, *given)))


def _container_arguments(deployment: dict[str, Any]) -> list[str]:
    """Return the arguments of the first container."""
    containers = deployment.get("spec", {}).get("template", {}).get("spec", {}).get("containers") or [{}]
    return [str(each) for each in containers[0].get("args") or ()]
