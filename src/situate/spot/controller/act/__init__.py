"""The leader's writes: moves of Pods, deletion costs, gates, labels, conditions and Events.

Input: decisions of `situate.spot.rebalance` and Pods behind the gate. Output: requests to the API server.
The leader reads each Pod again before a move. It drops the action if the Pod has changed.
Read `decision_loop` (the decision loop), `apply` (concurrency), `attempt` (one action) and `live_recheck` (the last
read). `gates` releases Pods in strict mode. `labels` writes capacity labels on nodes. `notify` sends Events for
workloads. `conditions` writes conditions on Pods that wait without progress. `refused_creates` ends the reservations of
Pods that the API server refused to create.
"""
