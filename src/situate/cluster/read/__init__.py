"""The reading half of the API: get, list and watch, in the format that the client accepts.

A request and the store go in. One object, a list page, a Table or a watch stream comes out, encoded as JSON.

Read `list_and_watch` first: it selects the revision and the objects. `negotiation` then chooses a form from the Accept
header: whole objects, PartialObjectMetadata or a Table. For the Tables of `kubectl get`, start with `tables`.
`tables` takes its columns from `table_cells`, `table_pods` (Pods) and `table_other_kinds` (kinds without a controller
here).
"""
