"""Records in PostgreSQL or SQLite through SQLAlchemy: a table of records and a table of their labels.

`archiver` makes the calls. `tables` defines the schema, `rows` converts records, `query` writes a query as SQL, and
`errors` decides whether a failed call may be retried.
"""
