"""The world of a history of sharding: an API server in memory and the shipped processes on virtual time.

`executor_world` runs executors alone, `supervisor_world` adds supervisors, and `sharding_world` adds the faults of a
history. `reports` is the kind of object that they work on. `holder_history` and `promptness` judge when the supervisor
acts.
"""
