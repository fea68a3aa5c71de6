"""Watches and caches, known from client-go as reflector and informer.

`stream` reads one watch connection. `reflector` lists and watches one resource and starts again after any failure.
`reflectors` handles several of them together.
`store` holds the objects with indexes and handlers; `resource_versions` compares the age of two versions.
"""
