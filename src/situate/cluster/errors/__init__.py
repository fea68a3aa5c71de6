"""Refusals of the API server as values, and the small text formats that their messages share.

A validator or a request step passes a field path, a value or a resource. It gets back a `FieldError`, or a `Refused`
with the Status and HTTP code of a real API server.

Read `field_errors` first: errors at a field, and the Status built from them. Then read `refusals`: errors of a whole
request, and the `Declined` exception that ends one. The other modules are helpers. `go_text` prints values as Go does.
`quantity_text` parses quantities, `times` formats timestamps, and `json_paths` evaluates paths of printer columns.
"""
