"""Answers of one plugin, as codes and masks over nodes.

A plugin returns a status for a Pod or a verdict for all nodes. The cycle reads the mask of passing nodes at once.
The verdict computes the reasons of the other nodes only on request, because most Pods fit and need no reasons.
Read `status` first (the codes of kube-scheduler), then `verdict` (the answer of one filter for every node).
"""
