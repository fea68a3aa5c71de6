"""Schedulers for Kubernetes: placement of virtual replicas, virtual machines, spot workloads and operators' shards."""
