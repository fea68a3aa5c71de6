"""The values of spot: nodes, Pods, workloads, actions and limits, and the counts over them.

Input: plain values that other folders read from Kubernetes objects. Output: counts, misplaced Pods and actions.
Nothing here does I/O, and no other folder defines these values again.
Read `pods_nodes_workloads` first, then `counts` (which Pods count, and as which class).
Then read `misplaced_pods` (the Pods to move, or the reason to wait) and `actions` (each write that a decision can
order). `policy_limits` holds the settings of decisions. `maintenance_windows` computes when policy may move Pods.
`pools` groups spot nodes by instance type and zone. `object_names` names the objects of an installation.
"""
