"""Observations: apply the reported state of the cluster to the ledger.

The functions take an event and the transaction of the step, and update its Nodes, Pods, migrations and claims.
Read `pods_and_nodes` first: it counts each Pod on its node, and never below the amount in use.
Then read `migration_from_event` (one migration as its object shows it) and `migrations` (stages, targets and ends).
`write_results` handles the results of our own writes, and requests a failed write again.
"""
