"""Histories of spot: the shipped controller and its webhook on virtual time, against a whole cluster, under faults.

A `history` consists of settings and `steps`, and `generate` draws one. `performer` carries the steps out in a `world`.
`invariants` check the rules, and `faults` names what must occur over many histories. `run` plays histories. `bursts`
counts the pods that B1 requires.
"""
