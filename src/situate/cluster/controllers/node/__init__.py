"""Nodes and the Pods on them: simulated kubelets, the node lifecycle and eviction. No container runs.

Changes of Nodes and Pods go in. Leases, status patches, taints and Pod deletions come out.

Read `pods` and `nodes` first: the facts that controllers read, and the Nodes that a cluster starts with.
For the kubelets, read `kubelets` (faults of a node), `heartbeat`, `kubelet`, `pod_status` and `allocations` (resize).
Then read the reaction to failed nodes: `node_lifecycle` sets taints, and `taint_eviction` deletes Pods that do not
tolerate them (see `taints`). `pod_gc` deletes Pods of missing or out-of-service nodes.
"""
