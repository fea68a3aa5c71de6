"""The controller's view of the cluster: watches, caches, live reads and records.

Input: objects of the API server. Output: `Cluster`, `FreeCapacity`, prices and surroundings, ready for a decision.
Every replica follows the cluster. Only the leader writes the two records.
Read `trimmed_objects` (the decoded fields), `informers` (the watches) and `cache` (objects as values) first.
`constraints_watch` follows budgets, Services, quotas and leaders. `free_capacity` updates the scheduler's snapshot.
`live_reads` reads one workload from the API server if the watch may lag. `prices` reloads prices.
`interruption_record` and `policy_record` store the history and the last valid policies for a new leader.
"""
