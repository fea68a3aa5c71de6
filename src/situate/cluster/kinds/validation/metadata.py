"""Validate the metadata of every object, and its immutable fields.

After `k8s.io/apimachinery/pkg/api/validation/objectmeta.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from situate.cluster.errors.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from situate.cluster.errors.go_text import quote
from situate.cluster.kinds.validation.names import (
    Problems,
    dns_label,
    dns_subdomain,
    label_key,
    label_value,
    path_segment,
)

NameForm = Callable[[str], Problems]

IMMUTABLE: Final = "field is immutable"
MAX_ANNOTATIONS: Final = 256 * 1024
"""Total bytes of all keys and values."""
MAX_MANAGER: Final = 128
_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
NEGATIVE: Final = "must be greater than or equal to 0"


def validate_metadata(
    metadata: Mapping[str, Any],
    *,
    namespaced: bool,
    name_form: NameForm = dns_subdomain,
    path: str = "metadata",
    custom: bool = False,
) -> list[FieldError]:
    """Validate the metadata of a new object. Only custom resources may have finalizers without a domain."""
    errors: list[FieldError] = []
    prefix = metadata.get("generateName")
    if prefix:
        # The generated name has five more characters, so the prefix may end in a hyphen.
        tried = prefix[:-1] + "a" if prefix.endswith("-") and len(prefix) > 1 else prefix
        errors += [invalid(f"{path}.generateName", prefix, problem) for problem in name_form(tried)]
    name = metadata.get("name")
    if name:
        errors += [invalid(f"{path}.name", name, problem) for problem in name_form(name)]
    else:
        errors.append(required(f"{path}.name", "name or generateName is required"))
    namespace = metadata.get("namespace")
    if namespaced and not namespace:
        errors.append(required(f"{path}.namespace"))
    elif namespaced and namespace:
        errors += [invalid(f"{path}.namespace", namespace, problem) for problem in dns_label(namespace)]
    elif namespace:
        errors.append(forbidden(f"{path}.namespace", "not allowed on this type"))
    if metadata.get("generation", 0) < 0:
        errors.append(invalid(f"{path}.generation", metadata["generation"], NEGATIVE))
    if metadata.get("labels"):
        errors += validate_labels(metadata["labels"], f"{path}.labels")
    if metadata.get("annotations"):
        errors += validate_annotations(metadata["annotations"], f"{path}.annotations")
    if metadata.get("ownerReferences"):
        errors += validate_owner_references(metadata["ownerReferences"], f"{path}.ownerReferences")
    if metadata.get("finalizers"):
        errors += _validate_finalizers(metadata["finalizers"], f"{path}.finalizers", custom)
    if metadata.get("managedFields"):
        errors += _validate_managed_fields(metadata["managedFields"], f"{path}.managedFields")
    return errors


def with_general_update(
    new: Mapping[str, Any], old: Mapping[str, Any], namespaced: bool, errors: list[FieldError]
) -> list[FieldError]:
    """Return the errors of an update with the general metadata errors in front.

    `errors` already holds the metadata errors of the kind. Upstream checks metadata generally and for the kind, and
    reports both.
    """
    if not any(error.field.startswith("metadata.") for error in errors):
        return errors
    general = validate_metadata(new["metadata"], namespaced=namespaced, name_form=path_segment, custom=True)
    general += validate_metadata_update(new["metadata"], old["metadata"], custom=True)
    return general + errors


def validate_metadata_update(
    new: Mapping[str, Any], old: Mapping[str, Any], path: str = "metadata", *, custom: bool = False
) -> list[FieldError]:
    """Validate an update of metadata: immutable fields, and relations between the old and the new object."""
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        added = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if added:
            shown = "[]string{" + ", ".join(map(quote, added)) + "}"
            detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {shown}"
            errors.append(forbidden(f"{path}.finalizers", detail))
    if not new.get("resourceVersion"):
        errors.append(invalid(f"{path}.resourceVersion", "", "must be specified for an update"))
    if new.get("generation", 0) < old.get("generation", 0):
        errors.append(invalid(f"{path}.generation", new.get("generation", 0), "must not be decremented"))
    for key in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if new.get(key) != old.get(key):
            value = new.get(key, "" if key in ("name", "namespace", "uid") else None)
            errors.append(invalid(f"{path}.{key}", value, IMMUTABLE))
    # Unchanged values were validated when they were written.
    if (labels := new.get("labels")) and labels != old.get("labels"):
        errors += validate_labels(labels, f"{path}.labels")
    if (annotations := new.get("annotations")) and annotations != old.get("annotations"):
        errors += validate_annotations(annotations, f"{path}.annotations")
    if (owners := new.get("ownerReferences")) and owners != old.get("ownerReferences"):
        errors += validate_owner_references(owners, f"{path}.ownerReferences")
    if new.get("managedFields"):
        errors += _validate_managed_fields(new["managedFields"], f"{path}.managedFields")
    if new.get("finalizers") and not custom:
        errors += _standard_finalizers(new["finalizers"], f"{path}.finalizers")
    return errors


def validate_labels(labels: Mapping[str, str], path: str) -> list[FieldError]:
    """Validate keys and values of labels or of a selector's matchLabels."""
    errors: list[FieldError] = []
    for key, value in labels.items():
        errors += [invalid(path, key, problem) for problem in label_key(key)]
        errors += [invalid(path, value, problem) for problem in label_value(value)]
    return errors


def validate_label_name(name: str, path: str) -> list[FieldError]:
    """Validate one label key."""
    return [invalid(path, name, problem) for problem in label_key(name)]


def validate_annotations(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    """Validate annotations: keys like those of labels but in any case, 256 KiB in total."""
    errors: list[FieldError] = []
    total = 0
    for key, value in annotations.items():
        errors += [invalid(path, key, problem) for problem in label_key(key.lower())]
        total += len(key.encode()) + len(value.encode())
    if total > MAX_ANNOTATIONS:
        errors.append(too_long(path, MAX_ANNOTATIONS))
    return errors


def validate_owner_references(references: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    """Check that each reference is complete and that at most one is the controller."""
    errors: list[FieldError] = []
    controller = ""
    for reference in references:
        group, _, version = reference.get("apiVersion", "").rpartition("/")
        if not version:
            text = reference.get("apiVersion", "")
            errors.append(invalid(f"{path}.apiVersion", text, "version must not be empty"))
        missing = [key for key in ("kind", "name", "uid") if not reference.get(key)]
        errors += [invalid(f"{path}.{key}", "", "must not be empty") for key in missing]
        if (group, version, reference.get("kind")) == ("", "v1", "Event"):
            errors.append(invalid(path, dict(reference), "/v1, Kind=Event is disallowed from being an owner"))
        if reference.get("controller"):
            name = f"{reference.get('kind', '')}/{reference.get('name', '')}"
            if controller:
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {name}"
                )
                errors.append(invalid(path, [dict(each) for each in references], detail))
            else:
                controller = name
    return errors


def _validate_finalizers(finalizers: Sequence[str], path: str, custom: bool) -> list[FieldError]:
    errors = [invalid(path, name, problem) for name in finalizers for problem in label_key(name)]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid(path, list(finalizers), detail))
    return errors if custom else errors + _standard_finalizers(finalizers, path)


def _standard_finalizers(finalizers: Sequence[str], path: str) -> list[FieldError]:
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"{path}[{index}]", name, detail)
        for index, name in enumerate(finalizers)
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def _validate_managed_fields(entries: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, entry in enumerate(entries):
        here = f"{path}[{index}]"
        if entry.get("operation") not in ("Apply", "Update"):
            errors.append(invalid(f"{here}.operation", entry.get("operation", ""), "must be `Apply` or `Update`"))
        if entry.get("fieldsType") and entry["fieldsType"] != "FieldsV1":
            errors.append(invalid(f"{here}.fieldsType", entry["fieldsType"], "must be `FieldsV1`"))
        errors += validate_field_manager(entry.get("manager", ""), f"{here}.manager")
    return errors


def validate_field_manager(name: str, path: str) -> list[FieldError]:
    """Check that the name has at most 128 printable characters."""
    errors: list[FieldError] = []
    if len(name) > MAX_MANAGER:
        errors.append(too_long(path, MAX_MANAGER))
    for index, char in enumerate(name):
        if not char.isprintable():
            errors.append(invalid(path, name, f"invalid character U+{ord(char):04X} (at position {index})"))
    return errors


def validate_immutable(new: Any, old: Any, path: str) -> list[FieldError]:
    """Check that the field did not change."""
    return [] if new == old else [invalid(path, new, IMMUTABLE)]


def validate_non_negative(value: Any, path: str) -> list[FieldError]:
    """Check that the value is absent, zero or positive."""
    return [invalid(path, value, NEGATIVE)] if value is not None and value < 0 else []


def validate_choice(value: str, choices: Sequence[str], path: str) -> list[FieldError]:
    """Check that the value is one of the choices. An empty value counts as absent."""
    if value in choices:
        return []
    return [not_supported(path, value, choices) if value else required(path)]


def validate_optional_choice(value: str | None, choices: Sequence[str], path: str) -> list[FieldError]:
    """Check that the value is absent or one of the choices."""
    return [] if value is None or value in choices else [not_supported(path, value, choices)]
