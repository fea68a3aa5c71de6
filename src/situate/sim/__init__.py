"""Simulations on a virtual clock: events, workloads, faults, invariants after every step, shortening. No I/O."""
