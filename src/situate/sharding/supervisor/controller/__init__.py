"""The running supervisor: it watches in every process, and decides and writes while it leads.

Input: objects, Leases, Pods and the table of partitions. Output: writes on objects, archive records, Events, metrics.
Read `supervisor` (the parts and the election) and `term` (decide and write during one term of leading) first.
`triggers` selects the objects to evaluate after a change. `turns` shares free executors and drains among objects.
`rebalancer` plans moves at intervals, if a goal is set. `user_hooks` isolates failures of user code.
`fence_check` tests with a dry run whether the API server enforces the fencing policies.
Then read the folders: `observe` (the caches), `act` (writes, conditions, metrics), `archive` and `config`.
"""
