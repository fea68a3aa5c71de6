"""Cluster data that plugins read in addition to Nodes and Pods: storage, owners, namespaces and disruption budgets.

The folder takes API objects and returns immutable values. A copy with one changed entry costs little.
Start with `persistent_map`, the immutable map behind these values.
Then read `storage` (claims, volumes and decisions not yet written) and `volume_use` (the volumes of each placed Pod).
Read `catalog` next: it combines storage with namespaces, owners and budgets.
`disruption_budgets` finds the evictions that would violate a PodDisruptionBudget.
"""
