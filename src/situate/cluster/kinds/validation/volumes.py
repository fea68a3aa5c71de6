"""Validate volumes of pods: a name and exactly one source.

After `ValidateVolumes` in `pkg/apis/core/validation/validation.go`. For sources that a kubelet or a driver interprets,
only the required fields are checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from situate.cluster.errors.field_errors import FieldError, duplicate, forbidden, invalid, required
from situate.cluster.kinds.validation.names import dns_label

_REQUIRED: Final[Mapping[str, str]] = {
    "secret": "secretName",
    "configMap": "name",
    "persistentVolumeClaim": "claimName",
    "hostPath": "path",
    "csi": "driver",
    "image": "reference",
}
"""The required field of each source."""


_ORDER: Final = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc", "flexVolume"),
    *("configMap", "azureFile", "flocker", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk"),
    *("storageos", "projected", "scaleIO", "csi", "ephemeral", "image"),
)
"""Order in which upstream checks the sources. The first one found is used; each further one is an error."""


def _source_rank(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def validate_volumes(volumes: Sequence[Mapping[str, Any]], path: str) -> tuple[set[str], list[FieldError]]:
    """Return the names of the valid volumes, and the errors of the others."""
    names: set[str] = set()
    errors: list[FieldError] = []
    for index, volume in enumerate(volumes):
        here = f"{path}[{index}]"
        name = volume.get("name", "")
        found = _source(volume, here)
        if not name:
            found.append(required(f"{here}.name"))
        else:
            found += [invalid(f"{here}.name", name, problem) for problem in dns_label(name)]
        if name in names:
            found.append(duplicate(f"{here}.name", name))
        if found:
            errors += found
        else:
            names.add(name)
    return names, errors


def _source(volume: Mapping[str, Any], path: str) -> list[FieldError]:
    given = sorted((name for name in volume if name != "name"), key=_source_rank)
    if not given:
        return [required(path, "must specify a volume type")]
    errors: list[FieldError] = []
    source = volume[given[0]]
    field = _REQUIRED.get(given[0])
    if field is not None and not source.get(field):
        errors.append(required(f"{path}.{given[0]}.{field}"))
    mode = source.get("defaultMode")
    if mode is not None and not 0 <= mode <= 0o777:
        detail = "must be a number between 0 and 0777 (octal), both inclusive"
        errors.append(invalid(f"{path}.{given[0]}.defaultMode", mode, detail))
    return errors + [forbidden(f"{path}.{name}", "may not specify more than 1 volume type") for name in given[1:]]
