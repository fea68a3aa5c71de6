"""CustomResourceDefinitions: defaults, validation of names and versions, immutable fields, and conditions.

After `apiextensions-apiserver/pkg/apis/apiextensions/validation`. `schema_validation` checks the schemas. As in
upstream's internal form, parts that are equal in all versions are reported as fields of `spec` itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from situate.cluster.errors.field_errors import FieldError, duplicate, invalid, not_supported, required, too_many
from situate.cluster.kinds.structural.schema_validation import refers_to_scalar, validate_schema
from situate.cluster.kinds.validation.metadata import (
    validate_choice,
    validate_immutable,
    validate_metadata,
    validate_metadata_update,
)
from situate.cluster.kinds.validation.names import dns_1035_label, dns_subdomain

_Map = Mapping[str, Any]
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = (
    "byte", "date", "date-time", "double", "float", "int32", "int64", "password",
)  # fmt: skip
_MAX_SELECTABLE: Final = 8
_APPROVAL: Final = "api-approved.kubernetes.io"


def default_crd(definition: dict[str, Any]) -> None:
    """Set the defaults of names, conversion and stored versions in place."""
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    if not names.get("singular"):
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    conversion = spec.setdefault("conversion", {})
    if not conversion.get("strategy"):
        conversion["strategy"] = "None"
    service = conversion.get("webhook", {}).get("clientConfig", {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    status = definition.setdefault("status", {})
    status.setdefault("conditions", [])
    status.setdefault("acceptedNames", {"kind": "", "plural": ""})
    if not status.get("storedVersions"):
        status["storedVersions"] = [each["name"] for each in spec.get("versions") or () if each.get("storage")]


def validate_crd(definition: _Map) -> list[FieldError]:
    """Validate a new definition, after defaults."""
    errors = validate_metadata(definition["metadata"], namespaced=False, custom=True)
    errors += _name(definition)
    errors += _validate_spec(definition.get("spec", {}))
    errors += _stored_versions(definition)
    return errors + _approval(definition)


def validate_crd_update(new: _Map, old: _Map) -> list[FieldError]:
    """Validate an update. Group, plural, kind and scope of an established definition are immutable."""
    errors = validate_metadata_update(new["metadata"], old["metadata"], custom=True)
    errors += _validate_spec(new.get("spec", {}))
    spec, before = new.get("spec", {}), old.get("spec", {})
    names, previous = spec.get("names", {}), before.get("names", {})
    established = any(
        each.get("type") == "Established" and each.get("status") == "True"
        for each in old.get("status", {}).get("conditions") or ()
    )
    if established:
        errors += validate_immutable(spec.get("scope"), before.get("scope"), "spec.scope")
        errors += validate_immutable(names.get("kind"), previous.get("kind"), "spec.names.kind")
    errors += validate_immutable(spec.get("group"), before.get("group"), "spec.group")
    errors += validate_immutable(names.get("plural"), previous.get("plural"), "spec.names.plural")
    return errors + _stored_versions(new)


def _name(definition: _Map) -> list[FieldError]:
    spec, name = definition.get("spec", {}), definition["metadata"].get("name", "")
    if name == f"{spec.get('names', {}).get('plural', '')}.{spec.get('group', '')}":
        return []
    return [invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def _approval(definition: _Map) -> list[FieldError]:
    """Require the approval annotation for groups that belong to Kubernetes itself."""
    group = definition.get("spec", {}).get("group", "")
    protected = group.endswith((".k8s.io", ".kubernetes.io")) or group in ("k8s.io", "kubernetes.io")
    if not protected or definition["metadata"].get("annotations", {}).get(_APPROVAL):
        return []
    detail = (
        f'protected groups must have approval annotation "{_APPROVAL}", '
        "see https://github.com/kubernetes/enhancements/pull/1111"
    )
    return [required(f"metadata.annotations[{_APPROVAL}]", detail)]


def _validate_spec(spec: _Map) -> list[FieldError]:
    return [*_cached_spec_errors(msgspec.json.encode(spec))]


@lru_cache(maxsize=64)  # one test process applies the same definitions to many clusters
def _cached_spec_errors(spec: bytes) -> tuple[FieldError, ...]:
    return tuple(_spec_errors(msgspec.json.decode(spec)))


def _spec_errors(spec: _Map) -> list[FieldError]:
    errors: list[FieldError] = []
    group, versions, names = spec.get("group", ""), spec.get("versions") or [], spec.get("names", {})
    if not group:
        errors.append(required("spec.group"))
    elif problems := dns_subdomain(group):
        errors.append(invalid("spec.group", group, ",".join(problems)))
    elif "." not in group:
        errors.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    errors += validate_choice(spec.get("scope", ""), ("Cluster", "Namespaced"), "spec.scope")
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        errors.append(invalid("spec.preserveUnknownFields", True, detail))
    errors += _versions(versions)
    errors += [
        required(f"spec.names.{key}") for key in ("plural", "singular", "kind", "listKind") if not names.get(key)
    ]
    errors += _names(names)
    errors += _validate_parts(versions)
    return errors + _conversion(spec.get("conversion", {}))


def _versions(versions: Sequence[_Map]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, version in enumerate(versions):
        here = f"spec.versions[{index}]"
        problems = dns_1035_label(version.get("name", ""))
        if problems:
            errors.append(invalid(f"{here}.name", version.get("name", ""), ",".join(problems)))
        if "openAPIV3Schema" not in version.get("schema", {}):
            errors.append(required(f"{here}.schema.openAPIV3Schema"))
    shown = [_internal_version(version) for version in versions]
    if len({version.get("name") for version in versions}) != len(versions):
        errors.append(invalid("spec.versions", shown, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        errors.append(invalid("spec.versions", shown, "must have exactly one version marked as storage version"))
    first = versions[0].get("name", "") if versions else None
    if first is not None and (problems := dns_1035_label(first)):
        errors.append(invalid("spec.version", first, ",".join(problems)))
    return errors


def _internal_version(version: _Map) -> dict[str, Any]:
    """Return the version as the server's internal type prints it, after the schema has moved to the top."""
    return {
        "Name": version.get("name", ""),
        "Served": version.get("served", False),
        "Storage": version.get("storage", False),
        "Deprecated": version.get("deprecated", False),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": None,
        "Subresources": None,
        "AdditionalPrinterColumns": None,
        "SelectableFields": None,
    }


def _names(names: _Map) -> list[FieldError]:
    errors = [
        invalid(f"spec.names.{key}", names[key], ",".join(problems))
        for key in ("plural", "singular")
        if names.get(key) and (problems := dns_1035_label(names[key]))
    ]
    for key in ("kind", "listKind"):
        if names.get(key) and (problems := dns_1035_label(names[key].lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(problems)
            errors.append(invalid(f"spec.names.{key}", names[key], detail))
    for key in ("shortNames", "categories"):
        for index, name in enumerate(names.get(key, ())):
            problems = dns_1035_label(name)
            if problems:
                errors.append(invalid(f"spec.names.{key}[{index}]", name, ",".join(problems)))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        errors.append(invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same"))
    return errors


def _validate_parts(versions: Sequence[_Map]) -> list[FieldError]:
    """Validate schema, subresources and columns. Parts that are equal in all versions are checked once, at the top."""
    errors: list[FieldError] = []
    same = {
        key: all(version.get(key) == versions[0].get(key) for version in versions)
        for key in ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
    }
    for index, version in enumerate(versions):
        here = f"spec.versions[{index}]"
        once = index == 0
        schema = version.get("schema", {}).get("openAPIV3Schema")
        status = "status" in (version.get("subresources") or {})
        if schema is not None and (once or not same["schema"]):
            path = "spec.validation.openAPIV3Schema" if same["schema"] else f"{here}.schema.openAPIV3Schema"
            errors += validate_schema(schema, path, status_subresource=status)
        if once or not same["subresources"]:
            path = "spec.subresources" if same["subresources"] else f"{here}.subresources"
            errors += _subresources(version.get("subresources") or {}, path)
        if once or not same["additionalPrinterColumns"]:
            path = "spec" if same["additionalPrinterColumns"] else here
            errors += _columns(version.get("additionalPrinterColumns", ()), f"{path}.additionalPrinterColumns")
        if once or not same["selectableFields"]:
            path = "spec" if same["selectableFields"] else here
            errors += _selectable_fields(version.get("selectableFields", ()), schema or {}, f"{path}.selectableFields")
    return errors


_SCALE_PATHS: Final = (
    ("specReplicasPath", (".spec.",), "under .spec"),
    ("statusReplicasPath", (".status.",), "under .status"),
    ("labelSelectorPath", (".spec.", ".status."), "under either .spec or .status"),
)
"""Fields of the scale subresource, and the parts of an object to which their paths may lead."""


def _subresources(subresources: _Map, path: str) -> list[FieldError]:
    scale = subresources.get("scale")
    if scale is None:
        return []
    errors: list[FieldError] = []
    for key, parts, place in _SCALE_PATHS:
        here, text = f"{path}.scale.{key}", scale.get(key, "")
        if text:
            problems = _simple_path(text, here)
            if not problems and not text.startswith(parts):
                problems.append(invalid(here, text, f"should be a json path {place}"))
            errors += problems
        elif key != "labelSelectorPath":
            errors.append(required(here))
    return errors


def _simple_path(text: str, path: str) -> list[FieldError]:
    if not text.startswith("."):
        return [invalid(path, text, "must be a simple json path starting with .")]
    if not all(step and step.replace("_", "a").replace("-", "a").isalnum() for step in text[1:].split(".")):
        return [invalid(path, text, "must be a json path in the dot notation")]
    return []


def _columns(columns: Sequence[_Map], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, column in enumerate(columns):
        here = f"{path}[{index}]"
        kind, format_ = column.get("type", ""), column.get("format", "")
        if not column.get("name"):
            errors.append(required(f"{here}.name"))
        choices = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not kind:
            errors.append(required(f"{here}.type", choices))
        elif kind not in _COLUMN_TYPES:
            errors.append(invalid(f"{here}.type", kind, choices))
        if format_ and format_ not in _COLUMN_FORMATS:
            errors.append(invalid(f"{here}.format", format_, f"must be one of {','.join(_COLUMN_FORMATS)}"))
        if not column.get("jsonPath"):
            errors.append(required(f"{here}.JSONPath"))
    return errors


def _selectable_fields(fields: Sequence[_Map], schema: _Map, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, each in enumerate(fields):
        here, text = f"{path}[{index}].jsonPath", each.get("jsonPath", "")
        if not text:
            errors.append(required(here))
            continue
        scalar = refers_to_scalar(schema, text)
        if text.startswith(".metadata"):
            errors.append(invalid(here, text, "must not point to fields in metadata"))
        elif scalar is None:
            errors.append(invalid(here, text, "is an invalid path: does not refer to a valid field"))
        elif not scalar:
            detail = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            errors.append(invalid(here, text, detail))
        if text in seen:
            errors.append(duplicate(here, text))
        seen.add(text)
    if len(seen) > _MAX_SELECTABLE:
        errors.append(too_many(path, len(seen), _MAX_SELECTABLE))
    return errors


def _conversion(conversion: _Map) -> list[FieldError]:
    path = "spec.conversion"
    strategy = conversion.get("strategy", "")
    if strategy not in ("None", "Webhook"):
        return [not_supported(f"{path}.strategy", strategy, ("None", "Webhook"))]
    if strategy == "None":
        return []
    # Objects are stored as written, so a definition that needs a conversion webhook is refused.
    webhook = conversion.get("webhook") or {}
    errors: list[FieldError] = []
    if "clientConfig" not in webhook:
        errors.append(required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook"))
    if not webhook.get("conversionReviewVersions"):
        errors.append(required(f"{path}.conversionReviewVersions"))
    if not errors:
        detail = "conversion webhooks are not supported by this server; use strategy None"
        errors.append(invalid(f"{path}.strategy", strategy, detail))
    return errors


def _stored_versions(definition: _Map) -> list[FieldError]:
    path = "status.storedVersions"
    stored = definition.get("status", {}).get("storedVersions") or []
    if not stored:
        return [invalid(path, None, "must have at least one stored version")]
    versions = definition.get("spec", {}).get("versions") or ()
    known = {version.get("name") for version in versions}
    errors = [
        invalid(path, stored, f"must have the storage version {version.get('name', '')}")
        for version in versions
        if version.get("storage") and version.get("name") not in stored
    ]
    for index, name in enumerate(stored):
        if name not in known:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            errors.append(invalid(f"{path}[{index}]", name, detail))
    return errors
