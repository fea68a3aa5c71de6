"""Versioned storage of encoded objects, and the vocabulary of requests: resources, paths, options and selectors.

The write steps put encoded objects in. Reads and controllers get objects, list pages and ordered changes out.
The meaning of an object, such as its defaults, is decided in `situate.cluster.write`.

For the data, read `stored_object` (one encoded object), `store` (the tables and the change log) and `watch` (one
stream). For requests, read `resources` and `builtin_resources` (the catalog), `paths`, `options` and `selection` in
this order. `names` draws uids and name suffixes from a seed. `events` converts between the two shapes of an Event.
`effects` defines the webhook calls that the API server yields to its caller.
"""
