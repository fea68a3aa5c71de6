"""Preemption: find the Pods to evict so that a Pod of higher priority fits.

The functions take a Pod that fits on no node, the failed cycle and the snapshot.
The result is a nominated node and its victims, as actions. Another package evicts the victims.
Start with `preemption`, which compares candidate nodes by a dry run on each of them.
`costs` computes all nodes together if only resource amounts matter, and `cost_cache` reuses these costs.
`nominations` records each nominated node. `extenders` defines the questions to scheduler extenders, without HTTP.
`post_filter` runs the PostFilter plugins and combines these parts.
"""
