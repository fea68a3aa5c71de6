"""A simulated kube-scheduler, which binds the Pods of `default-scheduler` inside the in-memory cluster.

Changes of the store go in. Bindings, PodScheduled conditions, node nominations, preemptions and Events come out.

Read `scheduler` first: it feeds the engine of `situate.framework` and handles each decision. Then read `writes`: it
turns decisions into API writes with kube-scheduler's messages.
"""
