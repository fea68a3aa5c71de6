"""Validate webhook configurations, and the rules and conditions that admission policies also use.

After `pkg/apis/admissionregistration/validation` and `apiserver/pkg/util/webhook/validation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from situate.cluster.cel.environments import CONDITION_VARIABLES
from situate.cluster.cel.programs import compile_condition
from situate.cluster.cel.types import Type
from situate.cluster.errors.field_errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from situate.cluster.kinds.validation.metadata import validate_label_name, validate_optional_choice
from situate.cluster.kinds.validation.names import dns_1035_label, dns_label, dns_subdomain, port_number
from situate.cluster.kinds.validation.selectors import validate_label_selector

_Map = Mapping[str, Any]
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_URL_FORM: Final = "; desired format: https://host[/path]"
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "reinvocationPolicy": ("IfNeeded", "Never"),
}
_MAX_CONDITIONS: Final = 64


def webhooks(obj: _Map) -> list[FieldError]:
    """Validate the webhooks of a MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, webhook in enumerate(obj.get("webhooks", ())):
        here = f"webhooks[{index}]"
        errors += _webhook(webhook, here)
        errors += _review_versions(webhook.get("admissionReviewVersions") or (), f"{here}.admissionReviewVersions")
        name = webhook.get("name", "")
        if name and name in names:
            errors.append(duplicate(f"{here}.name", name))
        names.add(name)
    return errors


def _webhook(webhook: _Map, path: str) -> list[FieldError]:
    errors = _qualified_name(webhook.get("name", ""), f"{path}.name")
    for index, rule in enumerate(webhook.get("rules", ())):
        errors += validate_rule(rule, f"{path}.rules[{index}]")
    for key in ("failurePolicy", "matchPolicy"):
        errors += validate_optional_choice(webhook.get(key), _CHOICES[key], f"{path}.{key}")
    effects = webhook.get("sideEffects")
    if effects is None:
        errors.append(required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
    elif effects not in ("None", "NoneOnDryRun"):
        errors.append(not_supported(f"{path}.sideEffects", effects, ("None", "NoneOnDryRun")))
    seconds = webhook.get("timeoutSeconds", 10)
    if not 1 <= seconds <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        errors.append(invalid(f"{path}.timeoutSeconds", seconds, detail))
    errors += validate_label_selector(webhook.get("namespaceSelector"), f"{path}.namespaceSelector")
    errors += validate_label_selector(webhook.get("objectSelector"), f"{path}.objectSelector")
    key = "reinvocationPolicy"
    errors += validate_optional_choice(webhook.get(key), _CHOICES[key], f"{path}.{key}")
    errors += _client_config(webhook.get("clientConfig", {}), f"{path}.clientConfig")
    return errors + validate_match_conditions(webhook.get("matchConditions", ()), f"{path}.matchConditions")


def _qualified_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    problems = dns_subdomain(name)
    if problems:
        return [invalid(path, name, problem) for problem in problems]
    if name.count(".") < 2:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return [invalid(path, part, problem) for part in name.split(".") for problem in dns_label(part)]


def validate_rule(rule: _Map, path: str) -> list[FieldError]:
    """Validate operations, groups, versions, resources and scope of a rule."""
    errors: list[FieldError] = []
    operations = rule.get("operations") or ()
    if not operations:
        errors.append(required(f"{path}.operations"))
    if len(operations) > 1 and "*" in operations:
        detail = "if '*' is present, must not specify other operations"
        errors.append(invalid(f"{path}.operations", list(operations), detail))
    errors += [
        not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
        for index, operation in enumerate(operations)
        if operation not in _OPERATIONS
    ]
    for key, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(key) or ()
        if not values:
            errors.append(required(f"{path}.{key}"))
        if len(values) > 1 and "*" in values:
            errors.append(invalid(f"{path}.{key}", list(values), f"if '*' is present, must not specify other {what}"))
    versions = rule.get("apiVersions") or ()
    errors += [required(f"{path}.apiVersions[{index}]") for index, version in enumerate(versions) if not version]
    errors += _resources(rule.get("resources") or (), f"{path}.resources")
    return errors + validate_optional_choice(rule.get("scope"), ("*", "Cluster", "Namespaced"), f"{path}.scope")


def _resources(resources: Sequence[str], path: str) -> list[FieldError]:
    errors = [] if resources else [required(path)]
    with_all_subresources = {name.removesuffix("/*") for name in resources if name.endswith("/*") and name != "*/*"}
    of_all = {name.removeprefix("*/") for name in resources if name.startswith("*/") and name != "*/*"}
    for index, name in enumerate(resources):
        here = f"{path}[{index}]"
        resource, slash, subresource = name.partition("/")
        if not name:
            errors.append(required(here))
        elif resource in with_all_subresources and slash and subresource != "*":
            detail = f"if '{resource}/*' is present, must not specify {name}"
            errors.append(invalid(here, name, detail))
        elif subresource in of_all and resource != "*":
            errors.append(invalid(here, name, f"if '*/{subresource}' is present, must not specify {name}"))
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, list(resources), "if '*/*' is present, must not specify other resources"))
    if len(resources) > 1 and "*" in resources and any("/" not in name and name != "*" for name in resources):
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, list(resources), detail))
    return errors


def _client_config(config: _Map, path: str) -> list[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    return _url(url, f"{path}.url") if url is not None else _service(service or {}, f"{path}.service")


def _url(url: str, path: str) -> list[FieldError]:
    """Validate a webhook URL. The URL is split by hand into scheme, host, path, query and fragment."""
    errors: list[FieldError] = []
    before, _, fragment = url.partition("#")
    before, _, query = before.partition("?")
    scheme, colon, rest = before.partition("://")
    if not colon:
        scheme, rest = "", ""
    authority = rest.partition("/")[0]
    user, at, host = authority.rpartition("@")
    if scheme != "https":
        errors.append(invalid(path, scheme, f"'https' is the only allowed URL scheme{_URL_FORM}"))
    if not host:
        errors.append(invalid(path, host, f"host must be specified{_URL_FORM}"))
    if at:
        errors.append(invalid(path, user, "user information is not permitted in the URL"))
    if fragment:
        errors.append(invalid(path, fragment, "fragments are not permitted in the URL"))
    if query:
        errors.append(invalid(path, query, "query parameters are not permitted in the URL"))
    return errors


def _service(service: _Map, path: str) -> list[FieldError]:
    errors = [required(f"{path}.{key}") for key in ("name", "namespace") if not service.get(key)]
    port = service.get("port", 443)
    problems = port_number(port)
    if problems:
        errors.append(invalid(f"{path}.port", port, "port is not valid: " + ", ".join(problems)))
    url_path = service.get("path") or "/"
    if not url_path.startswith("/"):
        errors.append(invalid(f"{path}.path", url_path, "must start with a '/'"))
    for index, step in enumerate(url_path[1:].removesuffix("/").split("/") if url_path != "/" else ()):
        if not step:
            errors.append(invalid(f"{path}.path", url_path, f"segment[{index}] may not be empty"))
        else:
            problems = dns_subdomain(step)
            errors += [invalid(f"{path}.path", url_path, f"segment[{index}]: {problem}") for problem in problems]
    return errors


def _review_versions(versions: Sequence[str], path: str) -> list[FieldError]:
    if not versions:
        return [required(path, "must specify one of v1, v1beta1")]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            errors.append(invalid(f"{path}[{index}]", version, "duplicate version"))
            continue
        seen.add(version)
        errors += [invalid(f"{path}[{index}]", version, problem) for problem in dns_1035_label(version)]
    if not seen & {"v1", "v1beta1"}:
        errors.append(invalid(path, list(versions), "must include at least one of v1, v1beta1"))
    return errors


def validate_match_conditions(
    conditions: Sequence[_Map], path: str, declared: Mapping[str, Type] = CONDITION_VARIABLES
) -> list[FieldError]:
    """Check that names are unique and that expressions compile with the declared variables."""
    errors: list[FieldError] = []
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MAX_CONDITIONS))
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        here = f"{path}[{index}]"
        expression, name = condition.get("expression", "").strip(), condition.get("name", "")
        if not expression:
            errors.append(required(f"{here}.expression"))
        else:
            compiled = compile_condition(expression, declared)
            if isinstance(compiled, str):
                errors.append(invalid(f"{here}.expression", expression, compiled))
        if not name:
            errors.append(required(f"{here}.name"))
        else:
            errors += validate_label_name(name, f"{here}.name")
            if name in names:
                errors.append(duplicate(f"{here}.name", name))
            names.add(name)
    return errors
