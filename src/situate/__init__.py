"""Schedulers for Kubernetes: placement of virtual replicas, virtual machines, spot workloads and operators' shards."""

from importlib.metadata import version

__version__ = version("situate")
