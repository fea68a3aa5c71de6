"""The kube-scheduler-compatible scheduler: from watches to decisions of the framework, and from those to bindings."""
