"""Options and arguments that the archive commands share. This module imports only the parser of the command line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

F = TypeVar("F", bound=Callable[..., Any])

KindArgument = Annotated[
    str, typer.Argument(metavar="KIND.GROUP", help="Kind and group of the object, such as Report.batch.example.com.")
]
NameArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="NAMESPACE/NAME",
        help="Name of the object; NAME alone if it is cluster-scoped, or with -n. Of several records, the newest.",
        show_default=False,
    ),
]
RecordNamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the object.")
]
UidOption = Annotated[
    str | None, typer.Option("--uid", metavar="UID", help="UID of the object; its name is then optional.")
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--archive-url",
        metavar="URL",
        help="URL of the archive, such as file:///var/lib/reports. With a password, use SITUATE_ARCHIVE_URL.",
    ),
]
UrlFileOption = Annotated[
    str | None,
    typer.Option(
        "--archive-url-file",
        metavar="FILE",
        help="File that holds the URL of the archive. [env SITUATE_ARCHIVE_URL_FILE]",
    ),
]


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions on a record; all given ones must hold. Each field is the flag of its name."""

    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND.GROUP", help="Only objects of this kind, such as Report.batch.example.com."),
    ] = None
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace", "-n", metavar="NAME", help="Only objects in this namespace; repeatable. Default: all."
        ),
    ] = None
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Objects of all namespaces, as without -n.")
    ] = False
    name: Annotated[
        list[str] | None, typer.Option("--name", metavar="NAME", help="Only objects with this name; repeatable.")
    ] = None
    substring: Annotated[str, typer.Option(metavar="TEXT", help="Only objects with this text in their name.")] = ""
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="Only objects with a name that starts with this text.")
    ] = ""
    suffix: Annotated[str, typer.Option(metavar="TEXT", help="Only objects with a name that ends with this text.")] = ""
    selector: Annotated[
        str,
        typer.Option("--selector", "-l", metavar="LABELS", help="Only objects with these labels, such as team=red."),
    ] = ""
    uid: Annotated[str | None, typer.Option(metavar="UID", help="Only the object with this UID.")] = None
    owner_uid: Annotated[
        str | None, typer.Option(metavar="UID", help="Only objects with a controlling owner of this UID.")
    ] = None
    successful: Annotated[
        bool | None,
        typer.Option("--successful/--failed", help="Only objects that succeeded, or only objects that failed."),
    ] = None
    reason: Annotated[str | None, typer.Option(metavar="REASON", help="Only objects that ended with this reason.")] = (
        None
    )
    completed_since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|AGE",
            help="Only objects completed since a time, such as 2026-01-31T12:00:00Z, or since an age, such as 36h.",
        ),
    ] = None
    completed_before: Annotated[
        str | None, typer.Option(metavar="TIME|AGE", help="Only objects completed before this time or age.")
    ] = None
    archived_since: Annotated[
        str | None, typer.Option(metavar="TIME|AGE", help="Only objects archived since this time or age.")
    ] = None
    archived_before: Annotated[
        str | None, typer.Option(metavar="TIME|AGE", help="Only objects archived before this time or age.")
    ] = None


def with_conditions(function: F) -> F:
    """Turn the parameter `conditions` of a command into the flags."""
    hints = get_type_hints(Conditions, include_extras=True)
    own = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(Conditions)
    ]
    signature = inspect.signature(function, eval_str=True)
    others = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for each in signature.parameters.values()
        if each.name != "conditions"
    ]

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        conditions = Conditions(**{each.name: values.pop(each.name) for each in own})
        return function(conditions=conditions, **values)

    command.__signature__ = signature.replace(parameters=[*own, *others])  # type: ignore[attr-defined]  # typer reads it
    command.__annotations__ = {each.name: each.annotation for each in (*own, *others)}
    del command.__wrapped__  # otherwise typer would read the signature of the wrapped function
    return command  # type: ignore[return-value]  # called by typer, by keywords
