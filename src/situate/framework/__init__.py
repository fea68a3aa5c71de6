"""The vectorised scheduling framework: the extension points of kube-scheduler, answered for all nodes at once.

Terms and results are those of kube-scheduler (pkg/scheduler/framework). A plugin reads columns over nodes, never a
single node. All code here is a function of immutable values: time, randomness and events are arguments.
"""
