"""Explanations of scheduling decisions, and the effect of hypothetical changes.

The functions take a Pod, a profile and a snapshot or a copy of the engine. The result is a value for display.
No function writes to the cluster.
Start with `explain`, the answer of every plugin for every node. `compare` compares our choice with another scheduler's.
For an unschedulable Pod, `relaxations` lists its constraints, and `least_change` finds the smallest sufficient change.
`what_if` places all waiting Pods on changed nodes, and counts how many more Pods fit.
"""
