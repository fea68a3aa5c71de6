"""Pods as the scheduler compares them, computed once from API objects.

The folder takes the Pods of `situate.objects` and returns immutable `PodInfo` values.
These values hold integer amounts, compiled selectors and templates that equal Pods share.
Read `resources` (amounts and requests), `node_selection` (node affinity) and `terms` (Pod affinity and spread) first.
Then read `scheduling_equivalence` (Pods that differ only in their requests) and `pods`, which combines these modules.
`keys` and `interning` save time and memory: `keys` caches the hash of a table key, `interning` shares equal Node parts.
"""
