"""Workload controllers: Deployments, ReplicaSets, StatefulSets and the status of PodDisruptionBudgets.

Changes of these objects and of their Pods go in. Pods, ReplicaSets, claims, deletions and status patches come out.

Read `replicaset` first, with its helpers `templates` (new Pods) and `victims` (Pods to delete).
Then read `deployment`, which replaces ReplicaSets, and `statefulset`, which creates and updates Pods in order.
`disruption` computes the number of Pods that the eviction API may evict now.
"""
