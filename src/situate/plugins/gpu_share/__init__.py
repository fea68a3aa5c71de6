"""Shared GPUs: selection of a Pod's devices, and six policies for its node.

Pods request GPUs, and the scheduler records their devices, in the annotations of Alibaba's GPU sharing (`requests.py`).
Each policy is a complete plugin: it refuses nodes without free capacity on their devices, scores the others, and
selects the devices. A profile enables one of them, or only `GpuShare`, which does not score. The default profile has
none.

The policies are those compared in "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent" (Weng et al., USENIX ATC 2023), with the formulas of its simulator,
hkust-adsl/kubernetes-scheduler-simulator. `docs/guides/scheduler/share-gpus.md` compares them.
"""
