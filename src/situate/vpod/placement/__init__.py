"""Placement: which Pods hold the vreplicas of a vpod. All functions are pure.

Input: `State`, one vpod and the time. Output: `Decision` with placements, moves and a shortage, if any.
Read `decide` first: `decide` computes the placement, and `commit` reserves it in the state.
`fill` adds vreplicas, and `shrink` removes vreplicas. `resize_by_policy` does both with the configured plugins.
`spare_copies` handles the extra copies of `minReplicas`. `rebalance` evens out satisfied vpods, if enabled.
`shortage` explains vreplicas without a Pod. `placement_change` describes a change for Events and logs.
"""
