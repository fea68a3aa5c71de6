"""The conditions that search, prune, migrate and verify take, as one query."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from situate.archive.query import BadQuery, Query
from situate.archive.reading import archive_expressions
from situate.cli.failures import WrongInput
from situate.cli.sharding.archive.named import kind_of
from situate.objects.durations import BadDuration, parse_duration
from situate.objects.label_selectors import BadSelector, parse_selector
from situate.objects.timestamps import BadTime, parse_time

F = TypeVar("F", bound=Callable[..., Any])
_TIME = "a time such as 2026-01-31T12:00:00Z, or so long ago, such as 36h"


@dataclass(frozen=True, slots=True)
class Conditions:
    """All that are given must hold. A field is the flag of its name."""

    kind: Annotated[str | None, typer.Option(metavar="KIND.GROUP", help="Such as Report.batch.example.com.")] = None
    namespace: Annotated[list[str] | None, typer.Option("--namespace", "-n", help="Repeatable; default: all.")] = None
    name: Annotated[list[str] | None, typer.Option("--name", help="Repeatable.")] = None
    substring: Annotated[str, typer.Option(help="Of the name, literally.")] = ""
    prefix: Annotated[str, typer.Option(help="Of the name.")] = ""
    suffix: Annotated[str, typer.Option(help="Of the name.")] = ""
    selector: Annotated[str, typer.Option("--selector", "-l", help="Labels, as kubectl has them.")] = ""
    uid: Annotated[str | None, typer.Option(help="Of the object.")] = None
    owner_uid: Annotated[str | None, typer.Option(help="Of its controlling owner.")] = None
    successful: Annotated[bool | None, typer.Option("--successful/--failed", help="Only those that ended so.")] = None
    reason: Annotated[str | None, typer.Option(help="Why it ended so.")] = None
    completed_since: Annotated[str | None, typer.Option(help=f"Included: {_TIME}.")] = None
    completed_before: Annotated[str | None, typer.Option(help="Excluded.")] = None
    archived_since: Annotated[str | None, typer.Option(help="Included.")] = None
    archived_before: Annotated[str | None, typer.Option(help="Excluded.")] = None

    def query(self, *, limit: int | None = None, continue_: str = "") -> Query:
        """`WrongInput` for what is no query."""
        now = datetime.now(UTC)
        try:
            return Query(
                kind=None if self.kind is None else kind_of(self.kind),
                namespaces=tuple(self.namespace) if self.namespace else None,
                names=tuple(self.name) if self.name else None,
                substring=self.substring,
                prefix=self.prefix,
                suffix=self.suffix,
                match_expressions=archive_expressions(parse_selector(self.selector)),
                uid=self.uid,
                owner_uid=self.owner_uid,
                successful=self.successful,
                reason=self.reason,
                completed_since=_moment("--completed-since", self.completed_since, now),
                completed_before=_moment("--completed-before", self.completed_before, now),
                archived_since=_moment("--archived-since", self.archived_since, now),
                archived_before=_moment("--archived-before", self.archived_before, now),
                limit=limit,
                continue_=continue_,
            )
        except (BadQuery, BadSelector) as bad:
            raise WrongInput(str(bad)) from None


def with_conditions(function: F) -> F:
    """A decorator for a typer command: its parameter `conditions` becomes the flags."""
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
    del command.__wrapped__  # or typer would read that one's signature
    return command  # type: ignore[return-value]  # called by typer, by keywords


def _moment(flag: str, text: str | None, now: datetime) -> datetime | None:
    if text is None:
        return None
    try:
        return parse_time(text)
    except BadTime:
        pass  # it may say how long ago
    try:
        return now - timedelta(seconds=parse_duration(text))
    except (BadDuration, OverflowError):
        raise WrongInput(f"{flag}: found {text!r}, allowed: {_TIME}") from None
