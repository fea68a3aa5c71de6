"""A shadow scheduler: it decides about each Pod of another scheduler, binds nothing, and reports differences.

`comparison` compares one decision; `service` runs it on a cluster.
"""
