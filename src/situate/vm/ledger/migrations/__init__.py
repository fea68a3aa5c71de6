"""Migrations and claims: start them, follow them and end them.

A claim reserves the capacity that a migration frees. The functions change the transaction of the current step.
Start with `planner`, the interface to `situate.vm.planning`, and `plan_execution`, which turns plans into migrations.
`claims` reduces each claim to the amount that its beneficiary still needs, and `completion` ends claims and migrations.
`hand_over` records the beneficiary before the source Pod goes. `retarget` selects another node after a target fails.
`eviction` decides whether an eviction becomes a migration.
"""
