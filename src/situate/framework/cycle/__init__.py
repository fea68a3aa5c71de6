"""Scheduling cycle of one Pod, in its simplest form: every plugin evaluates every node.

The functions take a Pod, a profile and a snapshot, and return feasible nodes, scores and refusals.
The faster path in `situate.framework.class_cache` must return the same answers.
Start with `cycle` (PreFilter, Filter and Score), then `node_sampling` (nodes to evaluate, and ties).
`reserve` runs the Reserve plugins, or reverts them.
`feasibility_query` repeats the cycle on a changed snapshot. `handle` offers this query and other requests to plugins.
"""
