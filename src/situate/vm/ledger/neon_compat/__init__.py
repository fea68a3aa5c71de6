"""Decisions of neondatabase/autoscaling's scheduler plugin, for `compat` mode.

In this mode, the ledger evaluates each VM by itself, without a queue and without claims.
The functions take the transaction of the current step, and add sizes to approve and migrations to start.
Read `step` first (grants for each Pod), then `relief` (the VMs that leave a node above its watermark).
"""
