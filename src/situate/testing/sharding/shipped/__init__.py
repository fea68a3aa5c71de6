"""The shipped supervisor and executors on virtual time, with an in-memory API server: places, towns, histories.

`place` has executors only, and `town` also has supervisors. Tests use both directly. `performing` performs the steps of
a history in a town, and `run` plays the history.
"""
