"""Histories of sharding under faults, on a virtual clock, and what must hold in any history of sharding.

`history` says what happens. `shipped` plays it with the shipped supervisor and executors. `performing` and `run` play
it with `executors` and `supervisors` that are loops around the shipped decisions alone, for more of it in the same
time. The events of a log are in `events`, what must hold in `invariants`.
"""
