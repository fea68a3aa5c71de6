"""The supervisor's view of the cluster: objects, executors and the table of partitions.

Input: watches of the API server. Output: an index of objects, `Members`, and notices of changes to the current term.
Every process keeps this view current, so that a new leader starts without a listing.
Read `informers` (the parts together), `watches` (the stores) and `cache` (the view itself) first.
`object_index` counts over all objects. `objects_watch` follows the objects of a changing partition.
`trimmed_objects` drops fields without a use. `executor_watch` finds live executors by Lease and Pod.
`table_watch` follows the ConfigMap with the table of partitions.
"""
