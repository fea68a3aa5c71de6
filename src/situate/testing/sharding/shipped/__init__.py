"""The shipped supervisor and executors on virtual time, before an API server in memory: places, towns, histories.

`place` has executors alone, `town` supervisors too; tests tell stories with both. `performing` makes the steps of a
history happen in a town, `run` plays it.
"""
