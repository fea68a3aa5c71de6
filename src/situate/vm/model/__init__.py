"""Immutable values behind every decision of vm.

The API readers create these values. `situate.vm.ledger` takes a `State` and an event, and returns a `Decision`.
Start with `resource_amounts` (amounts as vectors), `pods_and_nodes`, `migrations` (with claims) and `policy` (rules).
Then read `state`, which holds all of them, `events` (inputs), `actions` (outputs) and `decision`.
`node_accounting` adds Pods to a node and removes them. `replace` copies a value with changed fields.
Placement needs the rest: `node_fit` evaluates one node, `node_columns` and `node_score` evaluate all nodes at once.
"""
