"""Histories of sharding: the shipped supervisor and executors under faults, on a virtual clock.

`history` draws the steps of a seed, `performer` performs them in the `world`, and `run` plays a whole history. `events`
is the log of a run, and `invariants` checks it. `exploration` visits every order of events in small worlds; `contract`
checks an executor in any language over the wire.
"""
