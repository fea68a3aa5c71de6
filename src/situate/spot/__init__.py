"""Mix spot and on-demand nodes: keep a minimum of each workload's Pods on demand and run the rest on spot.

Input: Pods, nodes and workloads from the API server, and the `spot:` section of the configuration.
Output: a patch for each new Pod, evictions and releases of running Pods, Events, conditions and reports.
Only `controller` and `server` do I/O. All other folders hold values and pure functions.
Read `model`, `nodes` and `workloads` first: they define the values, the node states and the on-demand targets.
Then read `admission` (the class of a new Pod), `capacity` (free capacity) and `rebalance` (moves of running Pods).
Last, read `controller` (the leader's loops), `server` (the webhook), `config`, `report` and `permissions` (RBAC).
"""
