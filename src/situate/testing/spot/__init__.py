"""Histories of spot: the shipped controller and its webhook on virtual time, against a whole cluster, under faults.

`bursts` counts the pods that B1 requires. A `history` consists of `plans` and `steps`, and `generating` draws one.
`faults` names the faults that must occur over many histories. `world` and `performing` carry steps out. `recorder`
records the state of the cluster. `invariants` and `reviewing` check the rules. `run` plays histories.
"""
