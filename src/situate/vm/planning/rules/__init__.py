"""Costs and limits of live migrations.

The functions take the state, the time and the rules, and return amounts, costs and permissions to migrate.
Read `shortfall` first (the missing capacity of a Pod), then `migration_cost` (the cost of migrating one VM).
`cooldown` computes the time when a VM may migrate again.
`concurrency` limits the migrations in progress and selects the next ones to start.
"""
