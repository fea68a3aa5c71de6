"""A read-only, Kubernetes-style endpoint over what is live and what is archived: `situate sharding archive serve`.

What a request asks for (`request`), and how lists look (`tables`), is plain functions. Live objects are read from the
API server (`live_objects`); the port, and who may ask, are `situate.runtime.serving`.
"""
