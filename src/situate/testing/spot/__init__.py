"""Histories of spot: the shipped controller and its webhook on virtual time, against a whole cluster, under faults.

`bursts` counts what B1 asks for; `history` says what happens, `world` makes it happen, `recorder` writes down what is,
`invariants` says what must hold, `run` plays and shrinks.
"""
