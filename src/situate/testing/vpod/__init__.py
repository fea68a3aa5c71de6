"""Histories of vpod: the shipped controllers on virtual time, against a whole cluster, under faults.

`history` says what happens, `world` makes it happen, `invariants` says what must hold, `run` plays and shrinks.
"""
