"""Moves of running Pods, as one pure function of the cluster, the controller's memory and the time.

Input: `State` (memory), `ClusterView` (everything else) and the time. Output: a `Decision` of actions, reports, memory.
Read `decision` (the values) and `decide` (all workloads in one pass) first. `decide` calls the other modules.
`node_termination` moves Pods off ending nodes. `capacity_shortage` helps on-demand Pods that find no free capacity.
`policy_moves` plans moves that only policy asks for. `rollout_wait` limits how long a rollout delays such moves.
`move_followup` tracks the last move. `workload_status` reports the phase of a workload.
`settled_cache` skips unchanged workloads. `clock_rollback` corrects remembered times after a clock goes back.
`preconditions` checks an action against live objects right before its write.
"""
