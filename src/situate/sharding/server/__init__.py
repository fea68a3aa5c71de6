"""Serve live and archived objects at a read-only, Kubernetes-style endpoint: `situate sharding archive serve`.

`request` parses requests, and `tables` formats lists; both are plain functions. `live_objects` reads live objects from
the API server. `situate.runtime.serving` opens the port and checks the access of users.
"""
