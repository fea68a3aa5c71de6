"""The autoscaler-agent: the size that a VM needs, and the requests before each change of size (C35 to C40)."""
