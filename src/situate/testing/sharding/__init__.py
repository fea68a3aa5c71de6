"""Histories of sharding's decisions under faults, on a virtual clock, and what must hold in any history of sharding.

`history` says what happens, `performing` makes it happen, `run` plays it; `executors` and `supervisors` are loops
around the shipped decisions. The events of a log are in `events`, what must hold in `invariants`.
"""
