"""Decisions of Knative v0.43.0, reproduced: schedule, autoscale and compact as that release does.

Input: vpods, reservations and the Pods of one StatefulSet. Output: placements, replicas and evictions.
The safe profile never uses this folder. The other profile uses this folder for policies other than `spread`.
Read `state` (free capacity with reservations), then `schedule` (placements of one vpod).
Then read `scale` (the autoscaler and compaction).
Last, read `adapter`: it converts the current `State` for these procedures and calls them.
"""
