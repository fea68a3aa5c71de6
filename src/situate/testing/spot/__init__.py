"""Histories of spot: the shipped controller and its webhook on virtual time, against a whole cluster, under faults.

`bursts` counts what B1 asks for; a `history` is made of `plans` and `steps`, `generating` draws one, `faults` says what
has to have happened in many; `world` and `performing` make it happen, `recorder` writes down what is, `invariants` and
`reviewing` say what must hold, `run` plays.
"""
