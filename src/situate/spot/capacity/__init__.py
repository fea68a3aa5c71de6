"""Free capacity: whether a Pod fits on spot or on-demand nodes, and whether a whole wave of Pods does.

Input: a snapshot of nodes and Pods, and the Pod to place. Output: the fitting place, or none.
Read `free_capacity` first: its protocols `FreeCapacity` and `Places` are the questions that decisions and plans ask.
`scheduler_capacity` answers the questions with kube-scheduler's own filters.
`claimed_capacity` gives each place to one Pod only within a decision.
`headroom` computes whether on-demand nodes can hold all Pods of a reclaimed wave of spot nodes.
"""
