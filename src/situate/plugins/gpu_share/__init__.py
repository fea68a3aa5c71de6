"""GPUs that pods share: which devices a pod gets, and six policies of where to put it.

Pods ask, and are told, by the annotations of Alibaba's GPU sharing (`requests.py`). Each policy is a plugin that does
all of it: it refuses nodes without room on their devices, scores the others, and picks the devices. A profile enables
one of them, or `GpuShare` alone, which leaves the scores to others. None is part of the default profile.

The policies are those compared in "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent" (Weng et al., USENIX ATC 2023), with the formulas of its simulator,
hkust-adsl/kubernetes-scheduler-simulator. `docs/packing.md` compares them.
"""
