"""Spreads the objects of one operator over many replicas of it, and moves finished objects into an archive.

One leader, the supervisor, assigns each object to one executor, a replica with an identity of its own, much as
kube-scheduler assigns pods to kubelets. Assignments are fenced: each has an epoch, and is made to one incarnation of
an executor. The deciding half is pure; it leaves reading, writing, time and randomness to `controller`.
"""
