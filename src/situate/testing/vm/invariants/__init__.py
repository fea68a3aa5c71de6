"""Invariants of vm, checked after every write and step: I1 to I14.

`rules` holds them and `watchdog` runs them. `objects` reads the cluster without the shipped parsers. `usage`, `nodes`,
`migrations`, `ledgers` and `freed_capacity` each watch one part of the state.
"""
