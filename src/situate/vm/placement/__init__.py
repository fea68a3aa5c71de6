"""Scheduler plugin that places Pods by the ledger.

The plugin takes a Pod and a snapshot from `situate.framework`, and returns verdicts and scores for all nodes.
The plugin reports each reserved Pod to the ledger as an event.
Start with `plugin` (the extension points), then `profile`, which adds the plugin to the default profile.
`queue_sort` schedules the target Pods of migrations first.
`target_filter` runs the filters of the profile for the planner, so that a migration gets a node that accepts the Pod.
"""
