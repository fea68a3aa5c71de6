"""Histories of sharding under faults, on a virtual clock, and the invariants of every history of sharding.

`history` draws the steps. `shipped` plays them with the shipped supervisor and executors. `performing` and `run` play
them with `executors` and `supervisors`, which are loops around the shipped decisions only and therefore faster.
`events` defines the events of a log, and `invariants` checks the log.
"""
