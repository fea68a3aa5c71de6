"""Patch formats and field ownership: merge a change into an object and record which manager set each field.

A live object, a patch and the schema of its kind go in. The changed object or its `managedFields` come out.
A patch that does not apply comes back as a `Refused`.

For patches, read `patches` (JSON patch, JSON merge patch), then `patches_strategic` (strategic merge patch).
For server-side apply, read `fieldmanager_paths` (sets of fields), `fieldmanager_values` (merge) and `fieldmanager`.
`fieldmanager_check` validates an applied configuration. `fieldmanager_creation` is the fast path for new objects.
"""
