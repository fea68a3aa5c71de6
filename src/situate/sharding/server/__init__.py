"""A read-only, Kubernetes-style endpoint over what is live and what is archived: `situate sharding archive serve`.

What a request asks for (`asked`), and how lists look (`tables`), is plain functions. Live objects are read from the API
server (`live`); the port, and who may ask, are `situate.runtime.serving`.
"""
