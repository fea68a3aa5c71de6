"""Histories of vpod: the shipped controllers on virtual time, against a whole cluster, under faults.

`history` defines the steps, `world` performs the cluster's part, `invariants` checks, `run` plays histories.
"""
