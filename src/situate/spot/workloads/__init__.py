"""Workloads: which Pods belong to each workload, and how many of the Pods must be on demand.

Input: workloads, Pods and namespaces as JSON or structs. Output: `Owner`, `PodFacts`, `Target` and `Cluster`.
Read `owners` (the controller chain) and `constraints` (capacities that a Pod's own constraints allow) first.
Then read `on_demand_policy` (text to policy to number) and `on_demand_target` (the policy that holds for a workload).
`cluster_objects` combines the objects and the memory: both are arguments of every decision.
`deletion_cost` orders the Pods that a scale-down removes. `leaders` finds the leading Pod of a workload.
`policy_record` converts the last valid policies to the text of a ConfigMap, and back.
"""
