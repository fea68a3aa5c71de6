"""The runtime of all controllers: deliver changes, queue keys, call `reconcile` and perform the writes.

Changes of the store and the current time go in. Creates, patches, deletes, bindings and Events come out as values.
The API server performs them under the name of each controller. The same input gives the same writes.

Read `controllers` (the interface), `changes` (input), `actions` (output) and `machinery` (the loop) in this order.
`queue` adds delays and back-off, `recorder` aggregates Events, and `settings` selects controllers and their pace.
Controllers share `owners` (adoption and release), `pod_index` and `selectors`. `tables` names resources and keys.
"""
