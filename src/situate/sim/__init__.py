"""Histories on a virtual clock: events, workloads, faults, invariants after every step, shrinking. No I/O."""
