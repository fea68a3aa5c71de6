"""Turn the conditions of search, prune, migrate and verify into one query."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from situate.archive.operations.object_reader import archive_expressions
from situate.archive.records.query import BadQuery, Query
from situate.cli.sharding.archive.options import Conditions
from situate.cli.sharding.archive.record_key import parse_kind
from situate.cli.terminal.failures import WrongInput
from situate.objects.selection.label_selectors import BadSelector, parse_selector
from situate.objects.values.durations import BadDuration, parse_duration
from situate.objects.values.timestamps import BadTime, parse_time

_TIME = "a time such as 2026-01-31T12:00:00Z, or an age such as 36h"


def build_query(given: Conditions, *, limit: int | None = None, continue_: str = "") -> Query:
    """Return the query. Raises `WrongInput` for invalid conditions."""
    if given.all_namespaces and given.namespace:
        raise WrongInput(f"-A means all namespaces, but -n {given.namespace[0]} only one: leave one of them out")
    now = datetime.now(UTC)
    try:
        return Query(
            kind=None if given.kind is None else parse_kind(given.kind),
            namespaces=tuple(given.namespace) if given.namespace else None,
            names=tuple(given.name) if given.name else None,
            substring=given.substring,
            prefix=given.prefix,
            suffix=given.suffix,
            match_expressions=archive_expressions(parse_selector(given.selector)),
            uid=given.uid,
            owner_uid=given.owner_uid,
            successful=given.successful,
            reason=given.reason,
            completed_since=_parse_moment("--completed-since", given.completed_since, now),
            completed_before=_parse_moment("--completed-before", given.completed_before, now),
            archived_since=_parse_moment("--archived-since", given.archived_since, now),
            archived_before=_parse_moment("--archived-before", given.archived_before, now),
            limit=limit,
            continue_=continue_,
        )
    except (BadQuery, BadSelector) as bad:
        raise WrongInput(str(bad)) from None


def _parse_moment(flag: str, text: str | None, now: datetime) -> datetime | None:
    if text is None:
        return None
    try:
        return parse_time(text)
    except BadTime:
        pass  # the text may be an age
    try:
        return now - timedelta(seconds=parse_duration(text))
    except (BadDuration, OverflowError):
        raise WrongInput(f"{flag}: found {text!r}, allowed: {_TIME}") from None
