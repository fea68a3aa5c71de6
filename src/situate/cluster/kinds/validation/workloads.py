"""Validate StatefulSets, Deployments, ReplicaSets, DaemonSets and Jobs.

After `pkg/apis/apps/validation/validation.go`. Of `pkg/apis/batch/validation` only the checks that the controllers here
depend on are included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from situate.cluster.errors.field_errors import FieldError, forbidden, invalid, not_supported, required
from situate.cluster.kinds.validation.metadata import (
    validate_annotations,
    validate_immutable,
    validate_labels,
    validate_metadata,
    validate_metadata_update,
    validate_non_negative,
    validate_optional_choice,
)
from situate.cluster.kinds.validation.names import dns_label, percent
from situate.cluster.kinds.validation.pods import validate_pod_template
from situate.cluster.kinds.validation.selectors import validate_label_selector
from situate.cluster.storage.selection import object_selector

_Map = Mapping[str, Any]
_MISMATCH: Final = "`selector` does not match template `labels`"
_STATEFUL_CHANGEABLE: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_STATEFUL_FORBIDDEN: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def positive_int_or_percent(value: Any, path: str) -> list[FieldError]:
    """Check for an integer that is not negative, or a percentage."""
    if isinstance(value, str):
        return [invalid(path, value, problem) for problem in percent(value)]
    return validate_non_negative(value, path)


def at_most_100_percent(value: Any, path: str) -> list[FieldError]:
    """Check that a percentage is at most 100%. Numbers are not checked."""
    if isinstance(value, str) and not percent(value) and int(value[:-1]) > 100:
        return [invalid(path, value, "must not be greater than 100%")]
    return []


def _parse_number(value: Any) -> int:
    if isinstance(value, str):
        return 0 if percent(value) else int(value[:-1])
    return int(value or 0)


def _selector(spec: _Map, kind: str) -> list[FieldError]:
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    errors = validate_label_selector(selector, "spec.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    return errors


def _template_labels(spec: _Map, path: str) -> list[FieldError]:
    labels = (spec.get("template") or {}).get("metadata", {}).get("labels")
    selector = spec.get("selector")
    if selector == {} or validate_label_selector(selector, ""):
        return []
    if selector is None or not object_selector(selector)(labels or {}):
        return [invalid(path, labels, _MISMATCH)]
    return []


def _restart_policy(template: _Map, kind: str) -> list[FieldError]:
    spec = template.get("spec", {})
    errors: list[FieldError] = []
    if spec.get("restartPolicy") != "Always":
        where = "spec.template.spec.restartPolicy"
        errors.append(not_supported(where, spec.get("restartPolicy", ""), ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        where = "spec.template.spec.activeDeadlineSeconds"
        errors.append(forbidden(where, f"activeDeadlineSeconds in {kind} is not Supported"))
    return errors


def _replicated_template(spec: _Map) -> list[FieldError]:
    errors = _template_labels(spec, "spec.template.metadata.labels")
    template = spec.get("template") or {}
    errors += validate_pod_template(template, "spec.template")
    return errors + _restart_policy(template, "ReplicaSet")


def stateful_set(obj: _Map) -> list[FieldError]:
    """Validate a new StatefulSet. Its name must be a DNS label, because the names of its pods derive from it."""
    errors = validate_metadata(obj["metadata"], namespaced=True, name_form=dns_label)
    spec = obj.get("spec", {})
    errors += _stateful_set_spec(spec)
    service = spec.get("serviceName", "")
    if service:
        errors += [invalid("spec.serviceName", service, problem) for problem in dns_label(service)]
    return errors


def _stateful_set_spec(spec: _Map) -> list[FieldError]:
    errors: list[FieldError] = []
    policy = spec.get("podManagementPolicy", "")
    if policy not in ("OrderedReady", "Parallel"):
        detail = "must be 'OrderedReady' or 'Parallel'"
        errors.append(invalid("spec.podManagementPolicy", policy, detail))
    errors += _stateful_strategy(spec.get("updateStrategy", {}))
    retention = spec.get("persistentVolumeClaimRetentionPolicy", {})
    for key in ("whenDeleted", "whenScaled"):
        where = f"spec.persistentVolumeClaimRetentionPolicy.{key}"
        errors += validate_optional_choice(retention.get(key), ("Retain", "Delete"), where)
    for key in ("replicas", "minReadySeconds"):
        errors += validate_non_negative(spec.get(key), f"spec.{key}")
    errors += validate_non_negative(spec.get("ordinals", {}).get("start"), "spec.ordinals.start")
    errors += _selector(spec, "statefulset")
    errors += _template_labels(spec, "spec.template.metadata.labels")
    template = _with_claimed_volumes(spec)
    metadata = template.get("metadata", {})
    errors += validate_pod_template(template, "spec.template")
    errors += validate_labels(metadata.get("labels", {}), "spec.template.labels")
    errors += validate_annotations(metadata.get("annotations", {}), "spec.template.annotations")
    return errors + _restart_policy(template, "StatefulSet")


def _with_claimed_volumes(spec: _Map) -> dict[str, Any]:
    """Return the template as its pods use it.

    Each claim adds a volume. Hostname and subdomain are omitted; they are set later.
    """
    template = dict(spec.get("template") or {})
    pod = {key: value for key, value in template.get("spec", {}).items() if key not in ("hostname", "subdomain")}
    claims = [claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates", ())]
    if claims:
        own = [volume for volume in pod.get("volumes", ()) if volume.get("name") not in claims]
        pod["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims] + own
    return {**template, "spec": pod}


def _stateful_strategy(strategy: _Map) -> list[FieldError]:
    path = "spec.updateStrategy"
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if not kind:
        return [required(path)]
    if kind == "OnDelete":
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        return [] if rolling is None else [invalid(f"{path}.rollingUpdate", _internal_rolling(rolling), detail)]
    if kind != "RollingUpdate":
        shown = {"Type": kind, "RollingUpdate": None if rolling is None else _internal_rolling(rolling)}
        return [invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")]
    errors: list[FieldError] = []
    if rolling is not None:
        errors += validate_non_negative(rolling.get("partition"), f"{path}.rollingUpdate.partition")
        unavailable = rolling.get("maxUnavailable")
        if unavailable is not None:
            here = f"{path}.rollingUpdate.maxUnavailable"
            errors += positive_int_or_percent(unavailable, here)
            if _parse_number(unavailable) == 0:
                errors.append(invalid(here, unavailable, "cannot be 0"))
            errors += at_most_100_percent(unavailable, here)
    return errors


def _internal_rolling(rolling: _Map) -> dict[str, Any]:
    """Return the strategy as the server's internal type prints it."""
    return {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}


def stateful_set_update(new: _Map, old: _Map) -> list[FieldError]:
    """Validate an update. Only a few fields may change."""
    errors = validate_metadata_update(new["metadata"], old["metadata"])
    errors += _stateful_set_spec(new.get("spec", {}))

    def fixed(obj: _Map) -> dict[str, Any]:
        return {key: value for key, value in obj.get("spec", {}).items() if key not in _STATEFUL_CHANGEABLE}

    if fixed(new) != fixed(old):
        errors.append(forbidden("spec", _STATEFUL_FORBIDDEN))
    return errors


def same_selector(new: _Map, old: _Map) -> list[FieldError]:
    """Check that an update does not change the selector."""
    before, after = old.get("spec", {}).get("selector"), new.get("spec", {}).get("selector")
    return validate_immutable(after, before, "spec.selector")


def deployment_spec(obj: _Map) -> list[FieldError]:
    """Validate the spec of a Deployment."""
    spec = obj.get("spec", {})
    errors = validate_non_negative(spec.get("replicas"), "spec.replicas")
    errors += _selector(spec, "deployment")
    errors += _replicated_template(spec)
    strategy = spec.get("strategy", {})
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") == "Recreate":
        if rolling is not None:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            errors.append(forbidden("spec.strategy.rollingUpdate", detail))
    elif strategy.get("type") == "RollingUpdate":
        errors += _rolling_deployment(rolling or {})
    else:
        shown = {"Type": strategy.get("type", ""), "RollingUpdate": rolling}
        errors.append(not_supported("spec.strategy", shown, ("Recreate", "RollingUpdate")))
    for key in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        errors += validate_non_negative(spec.get(key), f"spec.{key}")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return errors


def _rolling_deployment(rolling: _Map) -> list[FieldError]:
    path = "spec.strategy.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    errors = positive_int_or_percent(unavailable, f"{path}.maxUnavailable")
    errors += positive_int_or_percent(surge, f"{path}.maxSurge")
    if _parse_number(unavailable) == 0 and _parse_number(surge) == 0:
        errors.append(invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + at_most_100_percent(unavailable, f"{path}.maxUnavailable")


def replica_set_spec(obj: _Map) -> list[FieldError]:
    """Validate the spec of a ReplicaSet."""
    spec = obj.get("spec", {})
    errors = validate_non_negative(spec.get("replicas"), "spec.replicas")
    errors += validate_non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    # Upstream names the wrong kind here.
    return errors + _selector(spec, "deployment") + _replicated_template(spec)


def daemon_set(obj: _Map) -> list[FieldError]:
    """Validate a new DaemonSet."""
    return validate_metadata(obj["metadata"], namespaced=True) + _daemon_set_spec(obj.get("spec", {}))


def daemon_set_update(new: _Map, old: _Map) -> list[FieldError]:
    """Validate an update. The selector is immutable."""
    errors = validate_metadata_update(new["metadata"], old["metadata"])
    return errors + same_selector(new, old) + _daemon_set_spec(new.get("spec", {}))


def _daemon_set_spec(spec: _Map) -> list[FieldError]:
    errors = _template_labels(spec, "spec.template.metadata.labels") + _selector(spec, "daemonset")
    template = spec.get("template") or {}
    errors += validate_pod_template(template, "spec.template") + _restart_policy(template, "DaemonSet")
    for key in ("minReadySeconds", "revisionHistoryLimit"):
        errors += validate_non_negative(spec.get(key), f"spec.{key}")
    return errors


def job(obj: _Map) -> list[FieldError]:
    """Validate a new Job."""
    errors = validate_metadata(obj["metadata"], namespaced=True)
    spec = obj.get("spec", {})
    for key in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
        errors += validate_non_negative(spec.get(key), f"spec.{key}")
    template = spec.get("template") or {}
    errors += validate_pod_template(template, "spec.template")
    policy = template.get("spec", {}).get("restartPolicy", "")
    if policy not in ("OnFailure", "Never"):
        where = "spec.template.spec.restartPolicy"
        if policy in ("", "Always"):
            errors.append(required(where, 'valid values: "OnFailure", "Never"'))
        else:
            errors.append(not_supported(where, policy, ("OnFailure", "Never")))
    return errors


def job_update(new: _Map, old: _Map) -> list[FieldError]:
    """Validate an update. Completions, selector and template are immutable."""
    errors = validate_metadata_update(new["metadata"], old["metadata"])
    spec, before = new.get("spec", {}), old.get("spec", {})
    for key in ("completions", "selector", "template", "completionMode"):
        errors += validate_immutable(spec.get(key), before.get(key), f"spec.{key}")
    return errors


def replicas_in_status(new: _Map, old: _Map) -> list[FieldError]:
    """Check that counts are not negative and do not exceed `status.replicas`."""
    errors = validate_metadata_update(new["metadata"], old["metadata"])
    status = new.get("status", {})
    counts = [key for key in _COUNTS if key in status]
    for key in ("replicas", *counts, "observedGeneration"):
        errors += validate_non_negative(status.get(key), f"status.{key}")
    replicas = status.get("replicas", 0)
    errors += [
        invalid(f"status.{key}", status[key], "cannot be greater than status.replicas")
        for key in counts
        if key != "unavailableReplicas" and status[key] > replicas
    ]
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        ready = "status.readyReplicas" if new["kind"] == "StatefulSet" else "readyReplicas"
        value = status["availableReplicas"]
        errors.append(invalid("status.availableReplicas", value, f"cannot be greater than {ready}"))
    return errors


_COUNTS: Final = (
    "fullyLabeledReplicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "unavailableReplicas",
)
