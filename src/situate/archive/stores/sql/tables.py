"""The tables of an archive in SQL, equal for PostgreSQL and SQLite.

Texts compare by their bytes in both, so that order and equality are those of `situate.archive.records.query`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from situate.objects.values.timestamps import BadTime, micro_time, parse_time

SCHEMA_VERSION: Final = 1


class _Moment(sa.TypeDecorator[Any]):
    """A time to the microsecond: PostgreSQL's own type, or in SQLite a text that sorts by time.

    SQLite stores any value in a column. Text that is not a time is returned as it is, and reading the record reports
    it.
    """

    impl = sa.DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        sqlite = dialect.name == "sqlite"
        return dialect.type_descriptor(sa.Text() if sqlite else sa.DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | str | None:
        return micro_time(value) if value is not None and dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        if dialect.name != "sqlite" or not isinstance(value, str):
            return value
        try:
            return parse_time(value)
        except BadTime:
            return value


TEXT: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
MOMENT: Final = _Moment()

METADATA: Final = sa.MetaData()

_TIME_GLOB: Final = "-".join(("[0-9]" * 4, "[0-9]" * 2, "[0-9]" * 2)) + "T" + ":".join(["[0-9]" * 2] * 3) + ".[0-9]*Z"
"""SQLite columns accept any text; a text that is not a time would break the order of pages."""

SCHEMA: Final = sa.Table("situate_archive_schema", METADATA, sa.Column("version", sa.Integer, primary_key=True))
"""One row: the version of the layout."""

RECORDS: Final = sa.Table(
    "situate_archive",
    METADATA,
    sa.Column("grp", TEXT, primary_key=True),
    sa.Column("kind", TEXT, primary_key=True),
    sa.Column("uid", TEXT, primary_key=True),
    sa.Column("version", TEXT, nullable=False),
    sa.Column("resource", TEXT, nullable=False),
    sa.Column("namespace", TEXT, nullable=False),
    sa.Column("name", TEXT, nullable=False),
    sa.Column("resource_version", TEXT, nullable=False),
    sa.Column("version_number", sa.BigInteger),
    sa.Column("owner_uid", TEXT, nullable=False),
    sa.Column("completed_at", MOMENT),
    sa.Column("successful", sa.Boolean),
    sa.Column("reason", TEXT, nullable=False),
    sa.Column("archived_at", MOMENT, nullable=False),
    sa.Column("term", sa.BigInteger, nullable=False),
    sa.Column("digest", TEXT, nullable=False),
    sa.Column("object", sa.JSON, nullable=False),
    sa.CheckConstraint(f"archived_at GLOB '{_TIME_GLOB}'").ddl_if(dialect="sqlite"),
    sa.CheckConstraint(f"completed_at GLOB '{_TIME_GLOB}'").ddl_if(dialect="sqlite"),
    sa.Index("situate_archive_name", "namespace", "name"),
    sa.Index("situate_archive_completed_at", "completed_at"),
    sa.Index("situate_archive_owner", "owner_uid"),
)
r"""One row per record.

`version_number` is the resource version if it is an integer. `object` is the object's JSON as in the record, character
by character. PostgreSQL has no zero characters, so `reason` contains them as `\0`.
"""

sa.Index("situate_archive_newest", RECORDS.c.archived_at.desc(), RECORDS.c.uid, RECORDS.c.grp, RECORDS.c.kind)
"""The order of every page."""

LABELS: Final = sa.Table(
    "situate_archive_labels",
    METADATA,
    sa.Column("grp", TEXT, primary_key=True),
    sa.Column("kind", TEXT, primary_key=True),
    sa.Column("uid", TEXT, primary_key=True),
    sa.Column("key", TEXT, primary_key=True),
    sa.Column("value", TEXT, nullable=False),
    sa.ForeignKeyConstraint(
        ["grp", "kind", "uid"],
        ["situate_archive.grp", "situate_archive.kind", "situate_archive.uid"],
        ondelete="CASCADE",
    ),
    sa.Index("situate_archive_label", "key", "value"),
)
"""One row per label."""

Row = sa.Row[Any]
