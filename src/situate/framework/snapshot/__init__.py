"""Cluster state of one decision, as immutable columns over nodes.

The cache takes Nodes and Pods from the watch, and Pods that the scheduler has just placed.
The cache returns `Snapshot` values. Plugins read a snapshot.
The scheduler derives the next snapshot from the last one without a full copy.
Start with the static side: `labels` (distinct label sets) and `node_table` (columns that only a Node update changes).
Continue with the Pods: `placed_pods`, `nominated_pods`, `pod_affinity_index` and `device_allocations`.
`topology_counts` counts Pods per domain, and `derived_columns` updates the columns that filters and scores compare.
Finish with `node_load` (all changing columns), `node_subset`, `snapshot` and `cache` (assumed and confirmed Pods).
"""
