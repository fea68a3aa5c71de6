"""Interfaces between plugins and the scheduler.

A plugin takes a Pod and a snapshot, evaluates all nodes at once, and returns answers and actions as values.
Start with `plugin`, which declares the extension points, and `actions`, the writes that a decision requests.
`compact_scores` shortens score columns with few distinct values.
Then read `events` (cluster changes that may make a Pod schedulable) and `changes` (events derived from two objects).
`catalog_keeper` updates the catalog of storage, owners and budgets after each watch event.
`configuration` declares KubeSchedulerConfiguration, which selects and configures the plugins.
"""
