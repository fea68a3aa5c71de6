"""The world of a history of spot: nodes, workloads, webhooks and the shipped processes on one virtual clock.

`world` assembles it and `initial_objects` fills it. `clouds` ends and creates nodes, `disturbances` injects faults,
and `other_controllers` and `other_webhooks` act beside spot. `webhooks` delivers reviews to `memory_endpoint`.
"""
