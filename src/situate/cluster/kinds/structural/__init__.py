"""Custom resources and their definitions: decode, prune, default and validate them by structural schemas.

A CustomResourceDefinition goes in first: `definitions` and `schema_validation` report its errors. `schema` compiles
each version into a `Resource`, which completes and validates objects. Field errors come out in upstream's words.

Read `definitions`, `schema_validation`, `schema` and `values` in this order. `values` checks an object by its schema.
Then read `rules` for `x-kubernetes-validations`, and `cel` for the types of their variables.
`formats` and `patterns` check strings. `paths` finds the fields of the scale subresource.
"""
