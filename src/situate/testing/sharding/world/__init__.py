"""The world of a history of sharding: an API server in memory and the shipped processes on virtual time.

`place` runs executors alone, `town` adds supervisors, and `stage` adds the faults of a history. `reports` is the kind
of object that they work on. `holder_history` and `promptness` judge when the supervisor acts.
"""
