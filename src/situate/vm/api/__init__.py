"""Translation between API objects and the values of `situate.vm.model`.

The readers take Pods, Nodes, VirtualMachines and migrations. The readers return model values or error values.
The writers return annotation texts and JSON patches with preconditions.
Start with the shared parts: `well_known` (names), `parse_errors` (error values) and `quantities` (amounts as text).
Then read one module per object: `nodes`, `pods`, `machines` and `migrations`.
`claims`, `eviction_request` and `resize_annotation` read single annotations.
`unreadable_pods` returns the last known values of a Pod after someone breaks its annotations.
Finish with `patches`, the bodies of all writes.
"""
