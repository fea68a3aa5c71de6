"""Sources: custom resources as vpods, and the patches and workers that result from a placement.

Input: custom resources as decoded JSON, and placements. Output: vpods, patches, worker changes. Nothing here does I/O.
Read `adapters` first: it reads vreplicas and placements from the configured fields.
Then read `status_patch` (placements and condition) and `evictor` (removal of a source from one Pod).
`workers` maintains one Consumer for each placement. `crds` defines Knative's resources for clusters without Knative.
"""
