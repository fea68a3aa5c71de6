"""Queries as complete SQL: no row is filtered afterwards, and no text of a query is part of a statement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from situate.archive.records.query import Query, RecordPosition
from situate.archive.records.record import ByName, ByUid
from situate.archive.stores.sql.rows import stored_reason
from situate.archive.stores.sql.tables import LABELS, MOMENT, RECORDS, TEXT
from situate.objects.selection.label_selectors import Requirement

_MOST: Final = 2**31 - 1
"""Maximum rows of one page: more than fit in memory, and a number that every database accepts."""

Text = sa.ColumnElement[str]
Condition = sa.ColumnElement[bool]

_COLUMNS: Final = RECORDS.c
_ORDER: Final = (
    _COLUMNS.archived_at.desc(),
    _COLUMNS.uid,
    _COLUMNS.grp,
    _COLUMNS.kind,
)
_SAME_RECORD: Final = sa.and_(
    LABELS.c.grp == _COLUMNS.grp, LABELS.c.kind == _COLUMNS.kind, LABELS.c.uid == _COLUMNS.uid
)


def select_record(key: ByUid | ByName) -> sa.Select[tuple[object, ...]]:
    """Return the query for the one row of a UID, or for the newest row of a name."""
    rows = sa.select(RECORDS).where(_COLUMNS.grp == key.kind.group, _COLUMNS.kind == key.kind.kind)
    if isinstance(key, ByName):
        rows = rows.where(_COLUMNS.namespace == key.namespace, _COLUMNS.name == key.name)
        return rows.order_by(*_ORDER).limit(1)
    if key.place is not None:
        namespace, name = key.place
        rows = rows.where(_COLUMNS.namespace == namespace, _COLUMNS.name == name)
    return rows.where(_COLUMNS.uid == key.uid)


def select_page(query: Query, dialect: str) -> sa.Select[tuple[object, ...]]:
    """Return the rows of the page, and one more row if there is another page. `dialect`: `postgresql` or `sqlite`."""
    rows = sa.select(RECORDS).where(*_conditions(query, dialect)).order_by(*_ORDER)
    return rows if query.limit is None else rows.limit(min(query.limit, _MOST - 1) + 1)


def _conditions(query: Query, dialect: str) -> Iterator[Condition]:
    if query.kind is not None:
        yield _COLUMNS.grp == query.kind.group
        yield _COLUMNS.kind == query.kind.kind
    if query.namespaces is not None:
        yield _membership_condition(_COLUMNS.namespace, query.namespaces, dialect)
    if query.names is not None:
        yield _membership_condition(_COLUMNS.name, query.names, dialect)
    yield from _literal_text(query, dialect)
    if query.selector.nothing:
        yield sa.false()
    for requirement in query.selector.requirements:
        yield _label_condition(requirement, dialect)
    if query.uid is not None:
        yield _COLUMNS.uid == query.uid
    if query.owner_uid is not None:
        yield _COLUMNS.owner_uid == query.owner_uid
    if query.successful is not None:
        yield _COLUMNS.successful.is_(query.successful)
    if query.reason is not None:
        yield _COLUMNS.reason == stored_reason(query.reason)
    if query.completed_since is not None:
        yield _COLUMNS.completed_at >= query.completed_since
    if query.completed_before is not None:
        yield _COLUMNS.completed_at < query.completed_before
    if query.archived_since is not None:
        yield _COLUMNS.archived_at >= query.archived_since
    if query.archived_before is not None:
        yield _COLUMNS.archived_at < query.archived_before
    if query.after is not None:
        yield _COLUMNS.archived_at <= query.after.archived_at  # weaker, but can use the index
        yield _position_condition(query.after)


def _position_condition(place: RecordPosition) -> Condition:
    same_moment = sa.and_(
        _COLUMNS.archived_at == place.archived_at,
        sa.tuple_(_COLUMNS.uid, _COLUMNS.grp, _COLUMNS.kind)
        > sa.tuple_(sa.literal(place.uid, TEXT), sa.literal(place.group, TEXT), sa.literal(place.kind, TEXT)),
    )
    return sa.or_(_COLUMNS.archived_at < sa.literal(place.archived_at, MOMENT), same_moment)


def _literal_text(query: Query, dialect: str) -> Iterator[Condition]:
    """Yield the conditions on the name. SQLite's LIKE ignores case, so its text functions are used instead."""
    name = _COLUMNS.name
    if dialect == "sqlite":
        if query.substring:
            yield sa.func.instr(name, query.substring) > 0
        if query.prefix:
            yield sa.func.substr(name, 1, len(query.prefix)) == query.prefix
        if query.suffix:
            yield sa.func.substr(name, -len(query.suffix)) == query.suffix
        return
    if query.substring:
        yield name.contains(query.substring, autoescape=True)
    if query.prefix:
        yield name.startswith(query.prefix, autoescape=True)
    if query.suffix:
        yield name.endswith(query.suffix, autoescape=True)


def _label_condition(requirement: Requirement, dialect: str) -> Condition:
    """Return the condition on a label, with Kubernetes' meaning: an absent label is in no set, so `notin` matches."""
    labels = sa.select(LABELS.c.grp, LABELS.c.kind, LABELS.c.uid).where(LABELS.c.key == requirement.key)
    if requirement.operator in ("in", "notin"):
        labels = labels.where(_membership_condition(LABELS.c.value, requirement.values, dialect))
    if requirement.operator in ("notin", "!"):
        return sa.not_(sa.exists(labels.where(_SAME_RECORD).correlate(RECORDS)))
    # not `exists`: SQLite would scan every record; `in` starts from the label
    return sa.tuple_(_COLUMNS.grp, _COLUMNS.kind, _COLUMNS.uid).in_(labels)


def _membership_condition(column: sa.Column[str], values: Iterable[str], dialect: str) -> Condition:
    """Return the condition as one parameter for any number of values: databases accept some thousand parameters."""
    texts = sorted(set(values))
    if dialect == "sqlite":
        each = sa.func.json_each(json.dumps(texts)).table_valued("value")
        return column.in_(sa.select(each.c.value))
    return column == sa.any_(sa.literal(texts, postgresql.ARRAY(sa.Text)))
