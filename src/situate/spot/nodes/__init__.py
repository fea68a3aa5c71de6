"""Nodes: capacity and health from signals, the interruption history, and prices.

Input: Node objects, Events and a price list. Output: `NodeFacts`, stable pools, `InterruptionHistory`, costs and risks.
Read `node_signals` (how a signal becomes capacity or state) and `known_signals` (the built-in table) first.
`capacity_label` computes the patch that adds the capacity label to a node.
Then read `interruptions` (ends and returns of spot nodes) and `pool_stability` (when Pods may return to a pool).
`prices` parses the price list. `savings` computes costs, risks and break-even times.
"""
