"""Parse and check the query parameters of a request as upstream does (apimachinery meta/v1, meta/internalversion)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from situate.cluster.errors.field_errors import FieldError, bad_request, forbidden, invalid, not_supported
from situate.cluster.errors.go_text import quote
from situate.cluster.errors.refusals import RequestRefused, invalid_options
from situate.cluster.kinds.schemas.decoding import Strictness
from situate.objects.messages import Request

_TRUE: Final = ("true", "1", "")
_MAX_MANAGER: Final = 128

Query: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Parameters of a list or watch."""

    watch: bool
    label_selector: str
    field_selector: str
    revision: str
    match: str
    """`Exact`, `NotOlderThan` or empty."""
    limit: int
    """0 for no limit."""
    token: str
    """The continue token; empty for a first page."""
    bookmarks: bool
    initial_events: bool | None
    """sendInitialEvents; None if absent."""
    timeout_s: int | None


def _flag(query: Mapping[str, str], name: str) -> bool:
    value = query.get(name)
    return value is not None and value.lower() in _TRUE


def _integer(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise RequestRefused(bad_request(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")) from None


def list_options(request: Request) -> ListOptions:
    """Parse the parameters of a list or watch.

    Raises `RequestRefused` if a parameter cannot be parsed or two parameters contradict each other.
    """
    query = first_values(request)
    options = ListOptions(
        watch=_flag(query, "watch"),
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        revision=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        limit=max(_integer(query, "limit") or 0, 0),
        token=query.get("continue", ""),
        bookmarks=_flag(query, "allowWatchBookmarks"),
        initial_events=_flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
        timeout_s=_integer(query, "timeoutSeconds"),
    )
    errors = _list_option_errors(options)
    if errors:
        raise RequestRefused(invalid_options("ListOptions", errors))
    return options


def _list_option_errors(options: ListOptions) -> list[FieldError]:
    """Return the errors of apimachinery meta/internalversion/validation: ValidateListOptions."""
    path = "resourceVersionMatch"
    if options.watch:
        return _watch_option_errors(options)
    errors: list[FieldError] = []
    if options.match:
        if not options.revision:
            errors.append(forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if options.token:
            errors.append(forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
        if options.match not in ("Exact", "NotOlderThan"):
            errors.append(not_supported(path, options.match, ("Exact", "NotOlderThan", "")))
        if options.match == "Exact" and options.revision == "0":
            errors.append(forbidden(path, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.initial_events is not None:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _watch_option_errors(options: ListOptions) -> list[FieldError]:
    path = "resourceVersionMatch"
    errors: list[FieldError] = []
    if options.initial_events is None:
        if options.match:
            errors.append(
                forbidden(path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
            )
        return errors
    if not options.match:
        errors.append(forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    elif options.match != "NotOlderThan":
        errors.append(not_supported(path, options.match, ("NotOlderThan",)))
    if options.token:
        errors.append(forbidden("continue", "sendInitialEvents and continue are mutually exclusive"))
    return errors


class WriteOptions(msgspec.Struct, frozen=True):
    """Parameters of a create, update or patch."""

    dry_run: bool
    manager: str
    """Field manager that managedFields records."""
    strictness: Strictness
    force: bool


_PREFIX: Final = re.compile(r"[^/]*")


def write_options(request: Request, kind: str) -> WriteOptions:
    """Parse the parameters of a write. `kind` is CreateOptions, UpdateOptions or PatchOptions, for refusals."""
    return _write_options(request.query, default_manager(request.headers), kind)


@lru_cache(maxsize=1024)  # a client uses few different parameters
def _write_options(parameters: Query, user_agent: str, kind: str) -> WriteOptions:
    query = _first_values(parameters)
    errors: list[FieldError] = []
    given = [value for key, value in parameters if key == "dryRun" and value]
    if any(value != "All" for value in given):
        errors.append(not_supported("dryRun", given, ("All",)))
    manager = query.get("fieldManager", "")
    if len(manager) > _MAX_MANAGER:
        errors.append(invalid("fieldManager", manager, f"may not be more than {_MAX_MANAGER} bytes"))
    elif not manager.isprintable():
        errors.append(invalid("fieldManager", manager, "should only contain printable characters"))
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        errors.append(not_supported("fieldValidation", validation, ("", "Ignore", "Warn", "Strict")))
    if errors:
        raise RequestRefused(invalid_options(kind, errors))
    return WriteOptions(
        dry_run=bool(given),
        manager=manager or user_agent,
        strictness=Strictness(validation),
        force=_flag(query, "force"),
    )


def default_manager(headers: Mapping[str, str]) -> str:
    """Return the User-Agent up to the first slash."""
    agent = headers.get("user-agent", "")
    return agent.split("/", 1)[0][:_MAX_MANAGER] or "unknown"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a deletion, from the body and the query; the body takes precedence."""

    dry_run: bool
    grace_seconds: int | None
    propagation: str
    """`Orphan`, `Background`, `Foreground`, or empty for the resource's default."""
    uid: str | None
    revision: str | None
    """Preconditions; None if absent."""


def delete_options(request: Request, body: Mapping[str, Any] | None) -> DeleteOptions:
    """Parse the options of a deletion. Raises `RequestRefused` for values that are not allowed."""
    query = first_values(request)
    given: Mapping[str, Any] = body or {}
    if not body:
        given = {
            "dryRun": [value for key, value in request.query if key == "dryRun" and value],
            "gracePeriodSeconds": _integer(query, "gracePeriodSeconds"),
            "propagationPolicy": query.get("propagationPolicy") or None,
        }
        if "orphanDependents" in query:
            given = {**given, "orphanDependents": _flag(query, "orphanDependents")}
    dry_run = list(given.get("dryRun") or ())
    propagation = given.get("propagationPolicy") or ""
    errors: list[FieldError] = []
    orphan = given.get("orphanDependents")
    if orphan is not None and propagation:
        errors.append(
            invalid("propagationPolicy", propagation, "orphanDependents and deletionPropagation cannot be both set")
        )
    if propagation not in ("", "Foreground", "Background", "Orphan"):
        errors.append(not_supported("propagationPolicy", propagation, ("Foreground", "Background", "Orphan", "nil")))
    if any(value != "All" for value in dry_run):
        errors.append(not_supported("dryRun", dry_run, ("All",)))
    if errors:
        raise RequestRefused(invalid_options("DeleteOptions", errors))
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    preconditions = given.get("preconditions") or {}
    grace = given.get("gracePeriodSeconds")
    return DeleteOptions(
        dry_run=bool(dry_run),
        grace_seconds=None if grace is None else 1 if grace < 0 else grace,
        propagation=propagation,
        uid=preconditions.get("uid"),
        revision=preconditions.get("resourceVersion"),
    )


def first_values(request: Request) -> dict[str, str]:
    """Return the first value of each parameter."""
    return _first_values(request.query)


def _first_values(parameters: Query) -> dict[str, str]:
    values: dict[str, str] = {}
    for key, value in parameters:
        values.setdefault(key, value)
    return values
