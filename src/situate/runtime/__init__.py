"""The parts that every long-running process of situate shares.

`process` starts and stops it. `configuration` reads its settings, and `reconcile` runs its work queues. `leadership`
limits its writes to the time in which it holds the Lease. `serving` answers HTTPS, and `metrics` counts.
"""
